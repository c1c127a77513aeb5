"""Walk: File and scales -> Graph.  Each node is shown to the operator file of its name, with its
inputs in the order of axes that it asks for; what only moves elements is understood here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from penstock.errors import ModelError, PenstockError, UnsupportedError
from penstock.frontends.node_checks import check_node, check_rows
from penstock.frontends.onnx import constants as fold
from penstock.frontends.onnx.constants import wrong
from penstock.frontends.onnx.file import MOST_BYTES, Border, File, FileNode
from penstock.frontends.onnx.scales import (
    DEQUANTISE,
    EIGHT_BITS,
    MOVING,
    QUANTISE,
    RESHAPING,
    SAME,
    constant_scale,
)
from penstock.frontends.onnx.tensors import Order, Placed, Tensors, channels_last, own
from penstock.frontends.problems import collected
from penstock.frontends.reading import Reading
from penstock.ir.foreign import MALFORMED, Made
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.onnx_node import Layout, OnnxNode
from penstock.ir.tensor import Array, Data, DType, Quantisation, TensorType
from penstock.ir.verify import verify
from penstock.ops.quantize import Quantize
from penstock.ops.registry import onnx_names

KNOWN = (*MOVING, QUANTISE, DEQUANTISE, "Shape")
"""Nodes that no operator file understands."""


@dataclass(frozen=True, slots=True)
class Understood:
    """The graph that a model means; and by name in the model, the value that holds a tensor, with
    the order of its axes."""

    graph: Graph
    places: Mapping[str, tuple[str, Order]]


def walked(file: File, scales: Mapping[str, Quantisation], reading: Reading) -> Understood:
    """The graph that a model means, verified.

    Raises ModelError or UnsupportedError, of all nodes whose operator is not supported at once."""
    _check_operators(file)
    walk = _Walk(file, scales, reading)
    graph, names = _renamed(walk.graph(), file.outputs)
    verify(graph)
    check_rows(graph)
    places = {name: (names.get(value, value), order) for name, value, order in walk.places()}
    return Understood(graph, places)


def _check_operators(file: File) -> None:
    known = {*KNOWN, *onnx_names(), *fold.FOLDS}
    problems = [_not_supported(node) for node in file.nodes if node.name not in known]
    if problems:
        raise collected(problems)


def _not_supported(node: FileNode, of_constants: str = "") -> PenstockError:
    return UnsupportedError(
        "model-020",
        f"{node.name}: operator is not supported{of_constants}",
        where=node.where,
        help="`penstock ops` lists what is supported",
    )


@dataclass(slots=True)
class _Constant:
    """Elements as they stand in the model; under a scale, where they are quantised."""

    elements: Array
    quantisation: Quantisation | None = None

    def value(self, name: str) -> Value:
        kind = self.elements.dtype
        known = {dtype.value for dtype in DType}
        elements = self.elements if kind.name in known else self.elements.astype(np.int64)
        type = TensorType(elements.shape, DType(elements.dtype.name), self.quantisation)
        return Value(name, type, Data.of(elements))


class _Walk:
    """Grows the graph node by node."""

    def __init__(self, file: File, scales: Mapping[str, Quantisation], reading: Reading) -> None:
        self._file, self._scales, self._reading = file, scales, reading
        self._constants = {name: _Constant(x) for name, x in file.constants.items()}
        self._tensors = Tensors(taken=file.names())
        self._named: dict[str, tuple[TensorType, Data]] = {}
        """By name of a constant of the graph, what it holds."""

    def graph(self) -> Graph:
        inputs = tuple(self._input(border) for border in self._file.inputs)
        for node in self._file.nodes:
            self._tensors.where = node.where
            try:
                self._node(node)
            except ModelError as error:
                raise (error if error.where else error.at(node.where)) from None
            except ValueError as error:  # of shapes that do not fit
                raise wrong(node, str(error)) from error
        self._tensors.where = f"{self._file.name}: outputs"
        outputs = tuple(self._output(border) for border in self._file.outputs)
        nodes = tuple(self._tensors.nodes)
        return Graph(self._file.name, inputs, outputs, nodes)

    def places(self) -> Iterator[tuple[str, str, Order]]:
        """Name in the model, name of the value, and order, of every tensor that is made."""
        for name, found in self._tensors.made():
            yield name, found.value.name, found.order

    def _input(self, border: Border) -> Value:
        where = f'{self._file.name}: input "{border.name}"'
        shape = tuple(self._extent(e, where) for e in border.shape)
        q = self._scales.get(border.name)
        if q is None or border.dtype not in ("float16", "bfloat16", "float32", *EIGHT_BITS):
            raise UnsupportedError(
                "onnx-007",
                f"the input is {border.dtype}, and no scale is known for it",
                where=where,
                why="inputs are int8 in the graph: a QuantizeLinear or DequantizeLinear says how",
                help="quantise the model with its inputs, or give --assume-int8",
            )
        value = Value(border.name, TensorType(shape, DType.INT8, q))
        _check_size(value, where)
        self._tensors.put(border.name, Placed(value, own(len(shape))))
        return value

    def _extent(self, extent: int | str, where: str) -> int:
        if isinstance(extent, int) and 0 < extent < 2**31:
            return extent
        given = dict(self._reading.dimensions)
        if extent in given:
            return given[str(extent)]
        why = "memory is planned before anything runs, so every extent must be known"
        if isinstance(extent, int):
            raise ModelError(
                "onnx-005",
                f"an extent is {extent}, must be at least 1",
                where=where,
                why=why,
                help=MALFORMED,
            )
        raise UnsupportedError(
            "onnx-008",
            f'extent "{extent}" is left open',
            where=where,
            why=why,
            help=f'say what it is: --dimension "{extent}=1"',
        )

    def _output(self, border: Border) -> Value:
        name = border.name
        if name in self._constants:
            return self._own_constant(self._constants[name].value(name))
        if name not in self._tensors:
            raise ModelError(
                "onnx-004",
                f'"{name}" is an output, but nothing writes it',
                where=self._file.name,
                help="the model file is malformed; export the model again",
            )
        return self._tensors.in_order(name, own(len(self._tensors.shape(name))))

    def _node(self, node: FileNode) -> None:
        arrays = [self._elements(name) for name in node.inputs]
        constant = all(
            found is not None or not name for found, name in zip(arrays, node.inputs, strict=True)
        )
        if constant and (found := fold.folded(node, arrays)) is not None:
            self._constants[node.outputs[0]] = _Constant(found)
        elif node.name in KNOWN:
            self._move(node, arrays)
        else:
            self._compute(node)

    def _elements(self, name: str) -> Array | None:
        """The elements of a constant of plain numbers."""
        found = self._constants.get(name)
        return found.elements if found is not None and found.quantisation is None else None

    def _move(self, node: FileNode, arrays: list[Array | None]) -> None:
        """A node that computes nothing."""
        if not node.inputs or not node.outputs:
            raise wrong(node, f"{len(node.inputs)} inputs and {len(node.outputs)} outputs")
        source, target = node.inputs[0], node.outputs[0]
        if source in self._constants:
            self._move_constant(node)
        elif node.name in (QUANTISE, DEQUANTISE):
            self._rescale(source, target)
        elif node.name in SAME:
            self._tensors.same(source, target)
        elif node.name == "Shape":
            shape = fold.shape_slice(node, self._tensors.shape(source))
            self._constants[target] = _Constant(np.array(shape, np.int64))
        elif node.name in RESHAPING:
            self._tensors.reshape(source, target, self._wanted_shape(node, arrays))
        else:
            axes = fold.permutation(node, len(self._tensors.shape(source)))
            self._tensors.transpose(source, target, axes)

    def _wanted_shape(self, node: FileNode, arrays: list[Array | None]) -> tuple[int, ...]:
        shape = self._tensors.shape(node.inputs[0])
        if node.name == "Flatten":
            return fold.flattened(shape, fold.whole(node, "axis", 1))
        if node.name == "Reshape":
            if len(arrays) < 2 or arrays[1] is None:
                raise wrong(node, "the shape is computed, must be constant")
            allowed = bool(fold.whole(node, "allowzero", 0))
            return fold.reshaped(shape, fold.numbers(arrays[1]), allowed)
        axes = fold.axes_of(node, arrays)
        if node.name == "Squeeze":
            return fold.squeezed(shape, axes)
        return fold.unsqueezed(shape, axes or ())

    def _move_constant(self, node: FileNode) -> None:
        """A constant that is quantised or its twin; other nodes of constants were folded."""
        source, target = node.inputs[0], node.outputs[0]
        found = self._constants[source]
        if node.name == DEQUANTISE:
            self._constants[target] = _dequantised(node, found.elements, self._file.constants)
        elif node.name == QUANTISE:
            self._constants[target] = _quantised(node, found.elements, self._file.constants)
        elif node.name in SAME:
            self._constants[target] = found
        elif found.quantisation is not None and found.quantisation.axis is None:
            moved = fold.folded(node, [found.elements, *map(self._elements, node.inputs[1:])])
            if moved is None:
                raise wrong(node, "its input is a constant, its parameters are not")
            self._constants[target] = replace(found, elements=moved)
        elif node.name == "Transpose" and found.quantisation is not None:
            axes = fold.permutation(node, found.elements.ndim)
            moved = found.elements.transpose(axes)
            q = replace(found.quantisation, axis=axes.index(found.quantisation.axis or 0))
            self._constants[target] = _Constant(moved, q)
        else:
            raise wrong(node, "a constant with several scales cannot be reshaped")

    def _rescale(self, source: str, target: str) -> None:
        """QuantizeLinear and DequantizeLinear: the same tensor, or one under another scale."""
        wanted = self._scales[target]
        placed = self._tensors.placed(source)
        if placed.value.type.quantisation == wanted:
            self._tensors.same(source, target)
            return
        type = TensorType(placed.value.type.shape, DType.INT8, wanted)
        self._add(Made(Quantize(), (placed.value,), Value(target, type)))
        self._tensors.put(target, Placed(self._tensors.nodes[-1].output, placed.order))

    def _add(self, made: Made) -> None:
        inputs = tuple(map(self._own_constant, made.inputs))
        node = Node(made.op, inputs, made.output, self._tensors.where)
        check_node(node)
        self._tensors.nodes.append(node)

    def _own_constant(self, value: Value) -> Value:
        """A constant under a name that no other value has: operators derive several constants from
        one, and name others after their outputs."""
        if value.data is None:
            return value
        names = (value.name if k == 1 else f"{value.name}#{k}" for k in count(1))
        free = (n for n in names if n in self._constants or n not in self._tensors.taken)
        content = value.type, value.data
        name = next(n for n in free if self._named.setdefault(n, content) == content)
        return replace(value, name=name)

    def _compute(self, node: FileNode) -> None:
        """A node that an operator file understands."""
        if not node.outputs:
            raise wrong(node, "it has no output")
        if node.name not in onnx_names():
            raise _not_supported(node, " but for constants")
        asked, understand = onnx_names()[node.name]
        match asked.layout:
            case Layout.CHANNELS_LAST:
                shown = self._with_channels_last(node)
            case Layout.ROWS:
                shown = self._with_rows(node)
            case _:
                shown = self._alike(node, last=asked.layout is Layout.VECTORS)
        made = tuple(self._with_own_names(each, shown) for each in understand(shown))
        for each in made:
            self._add(each)
        found = {each.output.name: each.output for each in made}
        for name, output in zip(node.outputs, shown.outputs, strict=True):
            if output.name in found:
                self._put(name, found[output.name], shown.order)

    def _with_own_names(self, made: Made, shown: OnnxNode) -> Made:
        """What an operator file makes; computed tensors that are new have names of their own."""
        inputs = {v for v in shown.inputs if v is not None and v.data is None}
        outputs = {v.name for v in shown.outputs}

        def own(value: Value) -> Value:
            if value.data is not None or value in inputs or value.name in outputs:
                return value
            return replace(value, name=self._tensors.name(value.name))

        return Made(made.op, tuple(map(own, made.inputs)), own(made.output))

    def _put(self, name: str, value: Value, order: Order) -> None:
        """An output; images that stand for signals, or for vectors, become them again."""
        if value.type.rank > len(order) > 1:
            shape = (*value.type.shape[: len(order) - 1], value.type.shape[-1])
            value = self._tensors.viewed(value, shape, name)
        order = order if value.type.rank == len(order) else own(value.type.rank)
        self._tensors.put(name, Placed(value, order))

    def _with_channels_last(self, node: FileNode) -> OnnxNode:
        """Input 0 as (N, H, W, C), whatever its rank; the others as they are."""
        first = self._first(node)
        shape = self._tensors.shape(first)
        order = channels_last(len(shape))
        x = self._tensors.in_order(first, order)
        suffix = ""
        if 1 < len(shape) < 4:
            extents = (*x.type.shape[:-1], *(1,) * (4 - len(shape)), x.type.shape[-1])
            x = self._tensors.viewed(x, extents, self._tensors.name(f"{node.outputs[0]}/as_image"))
            suffix = "/image"
        others = tuple(self._given(name) for name in node.inputs[1:])
        return self._shown(node, (x, *others), order, suffix)

    def _with_rows(self, node: FileNode) -> OnnxNode:
        """Input 0 as it is flattened from; or every input in the model's order."""
        first = self._first(node)
        flat = self._tensors.flat(first)
        others = tuple(self._given(name) for name in node.inputs[1:])
        constant = bool(others) and others[0] is not None and others[0].data is not None
        if flat is not None and constant:
            shown = self._shown(node, (flat.source.value, *others), own(2))
            return replace(shown, columns=flat.columns)
        rank = len(self._tensors.shape(first))
        return self._shown(node, (self._tensors.in_order(first, own(rank)), *others), own(rank))

    def _alike(self, node: FileNode, *, last: bool) -> OnnxNode:
        """Every tensor of the node in one order and rank."""
        variables = [name for name in node.inputs if name in self._tensors]
        operands = [name for name in node.inputs if name in self._tensors or self._is_operand(name)]
        rank = max((len(self._shape(name)) for name in operands), default=0)
        orders = [self._tensors.order(n) for n in variables if len(self._shape(n)) == rank]
        order = next((o for o in orders if o != own(rank)), own(rank))
        if last and rank:
            axis = self._vector_axis(node, rank)
            order = (*(a for a in order if a != axis), axis)
        inputs = tuple(
            self._in_rank(name, order) if name in operands else self._given(name)
            for name in node.inputs
        )
        return self._shown(node, inputs, order)

    def _vector_axis(self, node: FileNode, rank: int) -> int:
        """The axis along which vectors lie; before version 13 all axes behind it were one."""
        old = self._file.opset < 13
        axis = fold.whole(node, "axis", 1 if old else -1)
        if not -rank <= axis < rank:
            raise wrong(node, f"axis is {axis}, rank is {rank}")
        axis %= rank
        shape = self._shape(node.inputs[0])
        if old and any(extent != 1 for extent in shape[axis + 1 :]):
            raise UnsupportedError(
                "model-020",
                f"{node.name}: along axes {axis} to {rank - 1} of {list(shape)} as one",
                where=node.where,
                help="export the model with opset_version 13 or later",
            )
        return axis

    def _is_operand(self, name: str) -> bool:
        """Whether a constant holds elements, not a list of axes or extents."""
        found = self._constants.get(name)
        return found is not None and (
            found.quantisation is not None or found.elements.dtype.kind == "f"
        )

    def _shape(self, name: str) -> tuple[int, ...]:
        if name in self._tensors:
            return self._tensors.shape(name)
        return self._constants[name].elements.shape

    def _in_rank(self, name: str, order: Order) -> Value:
        """An operand in that order, with axes of extent 1 in front where it has fewer."""
        shape = self._shape(name)
        wide = (1,) * (len(order) - len(shape)) + shape
        if name in self._constants:
            found = self._constants[name]
            if found.quantisation is not None and found.quantisation.axis is not None:
                raise UnsupportedError(
                    "onnx-007",
                    f'constant "{name}" has several scales, must have one',
                    where=self._tensors.where,
                    help="quantise it per tensor",
                )
            moved = found.elements.reshape(wide).transpose(order)
            return replace(found, elements=np.ascontiguousarray(moved)).value(name)
        if wide != shape:
            widened = self._tensors.name(f"{name}/rank{len(order)}")
            self._tensors.reshape(name, widened, wide)
            name = widened
        return self._tensors.in_order(name, order)

    def _given(self, name: str) -> Value | None:
        """An input in the model's order; None where it is absent."""
        if not name:
            return None
        if name in self._constants:
            return self._constants[name].value(name)
        return self._tensors.in_order(name, own(len(self._tensors.shape(name))))

    def _first(self, node: FileNode) -> str:
        """Input 0, which must be computed."""
        if not node.inputs or node.inputs[0] not in self._tensors:
            raise wrong(node, "its first input is missing or constant")
        return node.inputs[0]

    def _shown(
        self, node: FileNode, inputs: Iterable[Value | None], order: Order, suffix: str = ""
    ) -> OnnxNode:
        outputs = tuple(
            Value(
                self._tensors.name(f"{name}{suffix}") if suffix else name,
                TensorType((), DType.INT8, self._scale(node, name)),
            )
            for name in node.outputs
        )
        return OnnxNode(
            node.name,
            node.where,
            tuple(inputs),
            outputs,
            node.attributes,
            order,
            opset=self._file.opset,
            assumed=self._reading.assume_int8,
        )

    def _scale(self, node: FileNode, name: str) -> Quantisation:
        found = self._scales.get(name)
        if found is None:
            raise UnsupportedError(
                "onnx-007",
                f'no scale is known for "{name}"',
                where=node.where,
                why="no QuantizeLinear follows it, so it is a tensor of real numbers",
                help="quantise the whole model (docs/how-to/from-pytorch.md); --assume-int8 makes "
                "scales up, and schedules it as if it were quantised",
            )
        return found


def _quantised(node: FileNode, reals: Array, constants: Mapping[str, Array]) -> _Constant:
    """Real constants as int8, or uint8, elements: round half to even."""
    scale = constant_scale(node, reals, constants)
    shape = [1] * reals.ndim
    if scale.axis is not None:
        shape[scale.axis] = -1
    parts = (np.array(x).reshape(shape) for x in (scale.scales, scale.zero_points))
    steps, zeros = parts if scale.axis is not None else (scale.scales[0], scale.zero_points[0])
    with np.errstate(all="ignore"):
        elements = np.clip(np.rint(reals / steps) + zeros, -128, 127).astype(np.int8)
    return _Constant(elements)


def _check_size(value: Value, where: str) -> None:
    """Raises ModelError where a tensor is too large for 32 bits to count its bytes."""
    if value.type.size_bytes >= MOST_BYTES:
        raise ModelError(
            "onnx-005",
            f'"{value.name}" is {value.type}, must be smaller than 2 GiB',
            where=where,
            help=MALFORMED,
        )


def _dequantised(node: FileNode, elements: Array, constants: Mapping[str, Array]) -> _Constant:
    """A constant under its scale; uint8 as int8."""
    if elements.dtype.name not in (*EIGHT_BITS, "int32"):
        raise wrong(node, f"its input is {elements.dtype}, must be int8, uint8 or int32")
    scale = constant_scale(node, elements, constants)
    if elements.dtype == np.uint8:  # not what QuantizeLinear made here: that is int8 already
        elements = (elements.astype(np.int16) - 128).astype(np.int8)
    return _Constant(elements, scale)


def _renamed(graph: Graph, borders: Iterable[Border]) -> tuple[Graph, Mapping[str, str]]:
    """The graph whose outputs have the model's names, where others have not taken them; and old
    names with new ones."""
    taken = {v.name for v in (*graph.variables(), *graph.constants())}
    names: dict[str, str] = {}
    inputs = {v.name for v in graph.inputs}
    for value, border in zip(graph.outputs, borders, strict=True):
        free = border.name not in taken and value.name not in inputs and value.data is None
        if free and value.name not in names:
            names[value.name] = border.name

    def named(value: Value) -> Value:
        return replace(value, name=names[value.name]) if value.name in names else value

    nodes = tuple(
        replace(n, inputs=tuple(map(named, n.inputs)), output=named(n.output)) for n in graph.nodes
    )
    outputs = tuple(map(named, graph.outputs))
    return Graph(graph.name, graph.inputs, outputs, nodes), names
