"""Judges penstock's results for an ONNX model by onnxruntime, node by node.

ONNX values are of two kinds: integers, which penstock stores as they are, and real numbers, which
penstock stores in quantised form, except states of recurrent layers.  A node is judged on equal
inputs: onnxruntime starts from penstock's elements at each tensor of integers that both have
(`fed`), so that differences do not accumulate.  A real tensor is compared too, rounded to its
quantisation, but onnxruntime goes on with its own numbers: where the model does not round, a
rounding of penstock counts as a difference of the nodes that read the tensor.

If every tensor is within a step on these terms, single steps explain the difference end to end: the
model with penstock's steps added to its integers yields penstock's outputs to a step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from penstock.errors import ToolError
from penstock.frontends.onnx.file import File
from penstock.frontends.onnx.importer import ImportedModel
from penstock.frontends.onnx.post_training import require_onnxruntime
from penstock.frontends.onnx.tensors import Order, own
from penstock.frozen import frozen
from penstock.ir.graph import Value
from penstock.ir.tensor import Array, DType, TensorType
from penstock.simulators.compare import Difference, EndToEnd, JudgedTensor, Judgement, total

# onnxruntime without graph optimisations: the reference that ONNX models are judged by.
#
# Optimisations replace operators between DequantizeLinear and QuantizeLinear by integer ones.
# Without them, every node is executed as the model states it.


_FATAL = 4  # Severity from which onnxruntime prints messages: errors are raised as well.


class OnnxSession:
    """A model loaded into onnxruntime.

    Raises ToolError if onnxruntime is not installed, or does not take the model; `name` is the name
    of the model in the error."""

    def __init__(self, model: onnx.ModelProto, name: str) -> None:
        require_onnxruntime("it judges ONNX models node by node")
        import onnxruntime

        self.reference = f"onnxruntime {onnxruntime.__version__}"
        self._name = name
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = _FATAL
        try:
            self._session: Any = onnxruntime.InferenceSession(
                _with_time_first(model).SerializeToString(),
                options,
                providers=["CPUExecutionProvider"],
            )
        except Exception as error:  # onnxruntime raises exceptions of its own for each of its parts
            raise self._refused(error) from error

    def element_types(self) -> Mapping[str, str]:
        """The element type of each output by name, as ONNX writes it, such as "float"."""
        return {v.name: v.type[len("tensor(") : -1] for v in self._session.get_outputs()}

    def run(self, outputs: Sequence[str], inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """The named outputs of one inference.  Raises ToolError."""
        if not outputs:  # onnxruntime takes an empty list for all
            return {}
        try:
            found = self._session.run(list(outputs), dict(inputs))
        except Exception as error:  # onnxruntime raises exceptions of its own for each of its parts
            raise self._refused(error) from error
        return dict(zip(outputs, found, strict=True))

    def _refused(self, error: Exception) -> ToolError:
        return ToolError(
            "tool-043",
            "onnxruntime cannot run the model",
            where=self._name,
            why=" ".join(str(error).split())[:300] or type(error).__name__,
            help="verify the model without --goldens and --reference: its program and C code are "
            "then compared with penstock's own arithmetic",
        )


# By position of an input of a recurrent layer, the permutation from `layout` 1 to `layout` 0.
_EXCHANGED = {0: (1, 0, 2), 5: (1, 0, 2), 6: (1, 0, 2)}
# By position of an output of a recurrent layer, the permutation from `layout` 0 to `layout` 1.
_RESTORED = ((2, 0, 1, 3), (1, 0, 2), (1, 0, 2))


def _with_time_first(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with transpositions around recurrent layers whose first axis is the batch (`layout`
    1), which onnxruntime does not implement."""
    if not any(map(_has_batch_first, model.graph.node)):
        return model
    found = onnx.ModelProto()
    found.CopyFrom(model)
    del found.graph.node[:]
    found.graph.node.extend(other for node in model.graph.node for other in _exchanged(node))
    return found


def _has_batch_first(node: onnx.NodeProto) -> bool:
    recurrent = node.op_type in ("LSTM", "GRU", "RNN")
    return recurrent and any(a.name == "layout" and a.i == 1 for a in node.attribute)


def _exchanged(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    if not _has_batch_first(node):
        yield node
        return
    layer = onnx.NodeProto()
    layer.CopyFrom(node)
    kept = [a for a in node.attribute if a.name != "layout"]
    del layer.attribute[:]
    layer.attribute.extend(kept)
    outputs = [name for name in node.output if name]
    for position, order in _EXCHANGED.items():
        if position < len(node.input) and node.input[position]:
            layer.input[position] = f"{outputs[0]}/time first {position}"
            inputs = [node.input[position]], [layer.input[position]]
            yield helper.make_node("Transpose", *inputs, perm=order)
    layer.output[:] = [f"{name}/time first" if name else "" for name in node.output]
    yield layer
    for name, order in zip(node.output, _RESTORED, strict=False):
        if name:
            yield helper.make_node("Transpose", [f"{name}/time first"], [name], perm=order)


Tensors = Mapping[str, Array]

MOST_STEPS = 1  # Largest accepted difference of a rounded number, in quantisation steps.
# Largest accepted difference of real numbers, which are states of recurrent layers, relative to the
# largest number of the tensor or 1. Both sides compute in single precision, and sum in another
# order.
MOST_REAL_ERROR = 2.0**-16
ON_A_STEP = 1e-3  # Distance from an integer, in steps, below which a number needs no rounding.

_REALS = ("float", "double", "float16", "bfloat16")
# Element types of quantised tensors; wider integers are counts and indices.
_ROUNDED = (DType.INT8, DType.UINT8, DType.INT16)
_BORDERS = ("QuantizeLinear", "DequantizeLinear")
_MOVING = (
    *("Compress", "Concat", "DepthToSpace", "Dropout", "Expand", "Flatten", "Gather"),
    *("GatherElements", "GatherND", "Identity", "Pad", "Reshape", "Slice", "SpaceToDepth"),
    *("Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"),
)
_CHOOSING = (
    *("Clip", "GlobalMaxPool", "Max", "MaxPool", "Min", "ReduceMax", "ReduceMin", "Relu", "Where"),
)
_NORMALISING = ("InstanceNormalization", "LayerNormalization", "LpNormalization")
# Operators whose results are elements of their inputs, or equal numbers of another type.
_EXACT = frozenset((*_MOVING, *_CHOOSING, "Cast", "DequantizeLinear"))


@frozen
class _Place:
    """Where penstock stores a tensor: its value, the value's order of axes, and its type."""

    value: str
    order: Order
    type: TensorType

    def elements(self, tensors: Tensors) -> Array:
        """The elements in the model's order of axes."""
        found = tensors[self.value].reshape(self.type.shape)
        return found.transpose([self.order.index(a) for a in range(len(self.order))])


@frozen
class _Unit:
    """A tensor to judge: its name in the file, and its name for users; the node that is held
    responsible, and all nodes judged as one.

    `is_exact`: ONNX computes it without rounding from what onnxruntime is fed; `normalises`: the
    node that normalises another tensor to this one."""

    raw: str
    name: str
    node: str
    group: tuple[str, ...]
    is_exact: bool
    normalises: onnx.NodeProto | None
    place: _Place


class OnnxReference:
    """A model in onnxruntime, and where penstock has stored its tensors.

    `model` is the file that was decoded and imported as `file` and `imported`, with its external
    data.  Raises ToolError if onnxruntime is not installed, or does not take the model."""

    def __init__(
        self,
        model: onnx.ModelProto,
        file: File,
        imported: ImportedModel,
    ) -> None:
        model = _in_single_precision(model)
        self._model, self._file, self._imported = model, file, imported
        self._inputs = tuple(self._input_places())
        graph = model.graph
        self._outputs = [value.name for value in graph.output]
        self._names = {
            raw: name
            for node, decoded in zip(graph.node, file.nodes, strict=True)
            for raw, name in zip(node.output, decoded.outputs, strict=True)
            if raw
        }
        types = {v.name: v.type for v in imported.graph.variables()}
        self._places = {
            raw: _Place(*imported.places[name], types[imported.places[name][0]])
            for raw, name in self._names.items()
            if name in imported.places and imported.places[name][0] in types
        }
        whole = _with_outputs(model, self._places)
        self._whole = OnnxSession(whole, file.name)
        self._kinds = self._whole.element_types()
        self._fed = {
            raw
            for raw, place in self._places.items()
            if self._kinds[raw] not in _REALS or place.type.dtype is DType.FLOAT32
        }
        self._rounded = {
            node.output[0]: node.input[0]
            for node in graph.node
            if node.op_type == "QuantizeLinear" and node.output[0] in self._places
        }
        computed = set(self._names) - self._fed
        self._rounded_here = sorted(computed.intersection(self._rounded.values()))
        self._apart = OnnxSession(self._cut(), file.name)

    def judge(
        self,
        sets: Sequence[Tensors],
        reals: Sequence[Tensors] = (),
        recorded: Sequence[Tensors] = (),
    ) -> Judgement:
        """Judge all tensors of each set of inputs.

        `reals` states the real numbers that the caller has quantised, by set and name of the input;
        by default, they are drawn between the steps.  `recorded` states outputs of the whole model,
        also by set and name, which should be those that onnxruntime computes."""
        judged: list[Sequence[JudgedTensor]] = []
        ends: list[EndToEnd] = []
        for number, tensors in enumerate(sets):
            given = self._given(number, tensors, reals[number] if reals else {})
            judged.append(tuple(self._judged(number, tensors, given)))
            expected = recorded[number] if recorded else {}
            ends += self._end_to_end(number, tensors, given, expected)
        return Judgement(self._whole.reference, total(judged), _together(ends))

    def _border_place(self, value: Value) -> _Place:
        """The place of an input or output."""
        orders = dict(self._imported.graph.orders)
        return _Place(value.name, orders.get(value.name, own(value.rank)), value.type)

    def _input_places(self) -> Iterator[tuple[str, str, _Place]]:
        constants = {tensor.name for tensor in self._model.graph.initializer}
        values = [v for v in self._model.graph.input if v.name not in constants]
        ours = self._imported.graph.inputs
        for value, mine in zip(values, ours, strict=True):
            kind = _kind_name(value.type.tensor_type.elem_type)
            yield value.name, kind, self._border_place(mine)

    def _given(self, number: int, tensors: Tensors, reals: Tensors) -> dict[str, Array]:
        found: dict[str, Array] = {}
        rng = np.random.default_rng(number)
        for raw, kind, place in self._inputs:
            mine = place.elements(tensors)
            given = reals.get(place.value)
            if kind not in _REALS or place.type.dtype is DType.FLOAT32:
                found[raw] = _as_kind(mine, kind)
            elif given is not None and given.dtype.kind == "f":
                found[raw] = _as_kind(place.elements({place.value: given}), kind)
            else:
                between = rng.uniform(-_BETWEEN, _BETWEEN, mine.shape)
                found[raw] = _as_kind(_reals(mine + between, place.type), kind)
        return found

    def _judged(self, number: int, tensors: Tensors, given: Tensors) -> Iterator[JudgedTensor]:
        fed = {
            raw: _as_kind(self._places[raw].elements(tensors), self._kinds[raw])
            for raw in self._fed
        }
        names = [_computed(u.raw) if u.raw in self._fed else u.raw for u in self._units]
        wanted = dict.fromkeys((*names, *self._rounded_here))
        found = {**self._apart.run(list(wanted), {**given, **fed}), **given, **fed}
        for unit, name in zip(self._units, names, strict=True):
            source = found.get(self._rounded.get(unit.raw, ""))
            mine = unit.place.elements(tensors)
            judged = _compared(unit, number, mine, found[name], source)
            if judged.mismatches and (exact := self._normalised(unit, found)) is not None:
                judged = _compared(unit, number, mine, exact, source)
            yield judged

    def _normalised(self, unit: _Unit, found: Tensors) -> Array | None:
        """What a normalisation of real numbers computes in double precision: of almost equal
        numbers, onnxruntime loses digits.  None if that is not known."""
        node = unit.normalises
        if node is None or unit.place.type.dtype is not DType.FLOAT32:
            return None
        constants = {t.name: t for t in self._model.graph.initializer if t.name in node.input}
        known = {**found, **{name: numpy_helper.to_array(t) for name, t in constants.items()}}
        if not known.keys() >= set(node.input):
            return None
        given = {name: known[name].astype(np.float64) for name in node.input}
        first, *_ = ReferenceEvaluator(node).run(None, given)
        return np.asarray(first)

    def _end_to_end(
        self, number: int, tensors: Tensors, given: Tensors, recorded: Tensors
    ) -> Iterator[EndToEnd]:
        found = self._whole.run(self._outputs, given)
        for k, value in enumerate(self._imported.graph.outputs):
            theirs = found[self._outputs[k]]
            place = self._border_place(value)
            mine = value.array if value.data else place.elements(tensors)
            off = _distance(mine, value.type, theirs)
            unexplained = None
            if (stated := recorded.get(value.name)) is not None:
                stated = place.elements({value.name: stated})
                unexplained = _altered(value, number, stated, theirs, int(off.max(initial=0)))
                off = _distance(mine, value.type, stated)
            differing, steps = int(np.count_nonzero(off)), int(off.max(initial=0))
            yield EndToEnd(1, mine.size, differing, steps, unexplained)

    @cached_property
    def _units(self) -> tuple[_Unit, ...]:
        """The tensors in the order of the nodes, then the outputs as the interface has them."""
        nodes = self._model.graph.node
        writers = {raw: k for k, node in enumerate(nodes) for raw in node.output if raw}
        fixed = {t.name for t in self._model.graph.initializer} | {""}
        for node in nodes:
            if fixed.issuperset(_read(node)):
                fixed.update(node.output)
        found = [self._unit(raw, self._places[raw], writers, fixed) for raw in self._places]
        for raw, value in zip(self._outputs, self._imported.graph.outputs, strict=True):
            if raw in writers and value.data is None:
                place = self._border_place(value)
                found.append(self._unit(raw, place, writers, fixed))
        return tuple(found)

    def _unit(
        self, raw: str, place: _Place, writers: Mapping[str, int], fixed: Iterable[str]
    ) -> _Unit:
        nodes = self._model.graph.node
        near = self._slice(raw, writers, {*self._places, *fixed})
        wide = self._slice(raw, writers, {*self._fed, *fixed})
        others = [k for k in near if nodes[k].op_type not in _BORDERS]
        computing = [k for k in others if nodes[k].op_type not in _EXACT]
        blamed = (computing or others or near)[-1]
        node = nodes[blamed]
        normalises = node.op_type in _NORMALISING and node.output[0] == raw
        return _Unit(
            raw,
            self._names[raw],
            self._file.nodes[blamed].where,
            tuple(_label(self._file.nodes[k].where) for k in near),
            _EXACT.issuperset(nodes[k].op_type for k in wide),
            node if normalises else None,
            place,
        )

    def _slice(self, raw: str, writers: Mapping[str, int], ends: set[str]) -> list[int]:
        """The nodes from which a tensor is computed, back to tensors in `ends`, in order."""
        nodes, found, left = self._model.graph.node, {writers[raw]}, [writers[raw]]
        while left:
            for name in _read(nodes[left.pop()]):
                if name not in ends and name in writers and writers[name] not in found:
                    found.add(writers[name])
                    left.append(writers[name])
        return sorted(found)

    def _cut(self) -> onnx.ModelProto:
        found = _with_outputs(self._model, dict.fromkeys((*self._places, *self._rounded_here)))
        for node in found.graph.node:
            node.output[:] = [_computed(raw) if raw in self._fed else raw for raw in node.output]
        for value in found.graph.output:
            if value.name in self._fed:
                value.name = _computed(value.name)
        for raw in sorted(self._fed):
            code = _kind_code(self._kinds[raw])
            found.graph.input.append(helper.make_tensor_value_info(raw, code, None))
        return found


# Largest distance of a drawn real input from the step that it is rounded to: half a step, less the
# rounding error of float16.
_BETWEEN = 0.25


_HALVES = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
_TYPE_ATTRIBUTES = ("to", "dtype", "output_dtype")


def _in_single_precision(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with float32 for real numbers of 16 bits, as penstock reads it."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    del found.graph.value_info[:]
    _widen(found.graph)
    return found


def _widen(graph: onnx.GraphProto) -> None:
    tensors = list(graph.initializer)
    for border in (*graph.input, *graph.output):
        if border.type.tensor_type.elem_type in _HALVES:
            border.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name in _TYPE_ATTRIBUTES and attribute.i in _HALVES:
                attribute.i = onnx.TensorProto.FLOAT
            tensors += (attribute.t, *attribute.tensors)
            for inner in (attribute.g, *attribute.graphs):
                _widen(inner)
    for tensor in tensors:
        if tensor.data_type in _HALVES:
            elements = numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(elements, tensor.name))


def _computed(raw: str) -> str:
    return f"{raw}/computed by the reference"


def _with_outputs(model: onnx.ModelProto, names: Iterable[str]) -> onnx.ModelProto:
    """A copy of a model in which these tensors are outputs, too, and no shape is stated twice."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    del found.graph.value_info[:]
    own_outputs = {value.name for value in found.graph.output}
    added = (name for name in names if name not in own_outputs)
    found.graph.output.extend(onnx.ValueInfoProto(name=name) for name in added)
    return found


def _read(node: onnx.NodeProto) -> Iterator[str]:
    """The tensors that a node reads, those in its subgraphs included."""
    yield from node.input
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from _read(inner)


def _label(where: str) -> str:
    return where.partition(": node ")[2].partition(" ")[2] or where


def _kind_name(code: int) -> str:
    return onnx.TensorProto.DataType.Name(code).lower()  # pyright: ignore[reportArgumentType]


def _kind_code(kind: str) -> int:
    return onnx.TensorProto.DataType.Value(kind.upper())


def _as_kind(elements: Array, kind: str) -> Array:
    """Penstock's elements as those of an ONNX type.  uint8 is stored as int8."""
    dtype = helper.tensor_dtype_to_np_dtype(_kind_code(kind))
    if dtype == np.uint8 and elements.dtype == np.int8:
        elements = elements.astype(np.int64) + 128
    return np.asarray(elements, dtype)  # NumPy's arithmetic makes numbers of arrays of rank 0


def _reals(elements: Array, type: TensorType) -> Array:
    return ((elements - type.zero_point) * type.scale).astype(np.float32)


def _steps(found: Array, type: TensorType) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        return found.astype(np.float32) / np.float32(type.scale) + np.float32(0)


def _expected(found: Array, type: TensorType) -> Array:
    """What the reference computed, as penstock stores it: real numbers are rounded half to even
    (ONNX operator specification, QuantizeLinear), and NaN is the lowest element (onnxruntime)."""
    if found.dtype.kind != "f":
        return found.astype(np.int64) - (128 if _is_shifted(found, type) else 0)
    steps = np.rint(_steps(found, type)).astype(np.float64) + type.zero_point
    steps = np.where(np.isnan(steps), type.dtype.lower, steps)
    return np.clip(steps, type.dtype.lower, type.dtype.upper - 1)


def _is_shifted(found: Array, type: TensorType) -> bool:
    """Whether the reference has uint8 where penstock stores int8."""
    return found.dtype == np.uint8 and type.dtype is DType.INT8


def _distance(mine: Array, type: TensorType, found: Array) -> Array:
    """The distance of each element in steps; of real numbers, 1 where it exceeds the tolerance."""
    # Sums, products and quotients of real numbers that overflow are the largest finite ones, as
    # TensorFlow Lite defines them; infinite ones count as such.
    found = found.reshape(mine.shape)
    if type.dtype is DType.FLOAT32:
        limit = float(np.finfo(np.float32).max)
        a, b = (np.clip(x.astype(np.float64), -limit, limit) for x in (mine, found))
        largest = np.abs(b[np.abs(b) < limit]).max(initial=1.0)
        near = np.abs(a - b) <= MOST_REAL_ERROR * largest
        near |= (a == b) | (np.isnan(a) & np.isnan(b))
        return (~near).astype(np.int64)
    return np.abs(mine.astype(np.float64) - _expected(found, type)).astype(np.int64)


def _altered(
    value: Value, number: int, recorded: Array, found: Array, steps: int
) -> Difference | None:
    # onnxruntime sums in another order on other processors, which moves numbers next to a tie by a
    # step, and later layers amplify that, as they do penstock's steps.
    if value.dtype is DType.FLOAT32:
        return None
    found = found.reshape(recorded.shape)
    a, b = _expected(recorded, value.type), _expected(found, value.type)
    wrong = np.argwhere(np.abs(a.astype(np.float64) - b) > 2 * max(steps, MOST_STEPS))
    if not len(wrong):
        return None
    index = tuple(int(i) for i in wrong[0])
    return Difference(value.name, number, index, int(b[index]), int(a[index]), len(wrong))


def _together(ends: Sequence[EndToEnd]) -> EndToEnd:
    return EndToEnd(
        len(ends),
        sum(end.elements for end in ends),
        sum(end.differing for end in ends),
        max((end.steps for end in ends), default=0),
        next((end.unexplained for end in ends if end.unexplained is not None), None),
    )


def _compared(
    unit: _Unit, number: int, mine: Array, found: Array, source: Array | None
) -> JudgedTensor:
    """`source`: the real numbers, if the tensor is these numbers quantised; QuantizeLinear of a NaN
    is not defined."""
    type = unit.place.type
    found = found.reshape(mine.shape)
    off = _distance(mine, type, found)
    if source is not None and source.dtype.kind == "f":
        off = np.where(np.isnan(source.reshape(mine.shape)), 0, off)
    wrong = np.argwhere(off > _allowed(unit, found))
    first = None
    if len(wrong):
        index = tuple(int(i) for i in wrong[0])
        is_real = type.dtype is DType.FLOAT32
        wanted = found[index] if is_real else _expected(found, type)[index]
        found_here = mine[index].item() if is_real else int(mine[index])
        wanted = float(wanted) if is_real else int(wanted)
        first = Difference(unit.name, number, index, wanted, found_here, len(wrong))
    differing, steps = int(np.count_nonzero(off)), int(off.max(initial=0))
    return JudgedTensor(
        unit.node, unit.group, unit.name, mine.size, differing, steps, len(wrong), first
    )


def _allowed(unit: _Unit, found: Array) -> Array:
    # A number that is rounded may be rounded to either side.  Numbers that ONNX does not round, and
    # that are on a step of penstock's quantisation, must be equal; so must counts and indices.
    type = unit.place.type
    if type.dtype not in _ROUNDED:
        return np.zeros(found.shape, np.int64)
    if not unit.is_exact:
        return np.full(found.shape, MOST_STEPS)
    if found.dtype.kind != "f" or type.quantisation is None:
        return np.zeros(found.shape, np.int64)
    steps = _steps(found, type)
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(steps - np.rint(steps)) < ON_A_STEP, 0, MOST_STEPS)
