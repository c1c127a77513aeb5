"""Import of an ONNX model into a graph, node by node.

Operator files import the nodes that compute; nodes that only move elements or change their scale
are imported here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from penstock.errors import ComputedError, ModelError, PenstockError, UnsupportedError
from penstock.frontends.causes import check_node, check_rows, collected, operator_remedy
from penstock.frontends.onnx import folding, operators
from penstock.frontends.onnx.control_flow import decided
from penstock.frontends.onnx.deeploy import of_integers
from penstock.frontends.onnx.domains import (
    Domains,
    RealChain,
    RealStorage,
    domains,
    operands,
    table_of_chain,
    unit_scale,
)
from penstock.frontends.onnx.element_types import REAL, check_attribute_kinds, element_types
from penstock.frontends.onnx.file import MOST_BYTES, Border, File, FileNode
from penstock.frontends.onnx.folding import wrong
from penstock.frontends.onnx.functions import expanded, shapes_of, with_known_shapes
from penstock.frontends.onnx.model_constants import ModelConstants, activation_scale
from penstock.frontends.onnx.operators import (
    AT_COMPUTED,
    CAST,
    CONSTANT,
    EIGHT_BITS,
    ELEMENTWISE,
    KNOWN,
    OF_INTEGERS,
    RESHAPING,
    SAME,
    SHAPES,
)
from penstock.frontends.onnx.presentation import Presenter, check_interface
from penstock.frontends.onnx.rewrites import folded_constants, living, rewritten
from penstock.frontends.onnx.tensors import Order, OrderedTensor, Tensors, channels_last, own
from penstock.frontends.reading import Reading
from penstock.frozen import frozen
from penstock.guides import guide
from penstock.ir.foreign import EXPORT_FOR_INFERENCE, MALFORMED, Made
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.operator_facts import OnnxName
from penstock.ir.tensor import FILE_TYPES, Array, DType, Quantisation, TensorType
from penstock.ir.verify import verify
from penstock.opkit.checks import require_elements
from penstock.ops.conversions import Cast, Dequantize, Quantize, QuantizeReal
from penstock.ops.registry import onnx_names
from penstock.ops.tabulated import ElementTable
from penstock.ops.transpose import Transpose


@frozen
class ImportedModel:
    """The graph of a model; `places` maps names of the model's tensors to the value that holds the
    tensor and the order of its axes."""

    graph: Graph
    places: Mapping[str, tuple[str, Order]]


def import_onnx(file: File, reading: Reading) -> ImportedModel:
    """The graph of a model, verified.

    Raises ModelError, UnsupportedError or UsageError; unsupported operators are reported all at
    once."""
    found = _imported(file, reading)
    if not reading.free_layout:
        return found
    fixed = {*reading.channels_last, *(name for name, _ in reading.states)}
    for border in file.inputs:
        if len(border.shape) > 2 and border.name not in fixed:
            names = (*reading.channels_last, border.name)
            other = _imported(file, replace(reading, channels_last=names))
            if _transposed_elements(other.graph) < _transposed_elements(found.graph):
                reading, found = replace(reading, channels_last=names), other
    return found


def _transposed_elements(graph: Graph) -> int:
    """The elements that transpositions move."""
    moving = (node for node in graph.nodes if isinstance(node.op, Transpose))
    return sum(node.output.elements for node in moving)


def _imported(file: File, reading: Reading) -> ImportedModel:
    _check_outputs(file)
    check_attribute_kinds(file)
    asked = {name: asked for name, (asked, _) in onnx_names().items()}
    in_file, extents = file, dict(reading.dimensions)
    file = of_integers(folded_constants(file), dict(reading.integers), extents, asked)
    file = decided(
        file,
        lambda each: rewritten(with_known_shapes(rewritten(each), extents)),
        lambda each: shapes_of(each, extents),
    )
    file = living(rewritten(with_known_shapes(file, extents)))
    defined = expanded(file, _is_known, extents)
    file = file if defined is None else living(rewritten(defined))
    _check_operators(file)
    constants, types, taken = ModelConstants(file), element_types(file), file.names()
    file = replace(file, nodes=tuple(n for n in file.nodes if not _is_constant(n, constants)))
    found = domains(file, types, constants, asked, assumed=reading.assume_int8)
    importer = _Importer(file, found, constants, reading, taken)
    graph, names = _with_output_names(importer.graph(), file.outputs)
    verify(graph)
    check_rows(graph)
    check_interface(in_file, graph, reading)
    places = {name: (names.get(value, value), order) for name, value, order in importer.places()}
    return ImportedModel(graph, places)


def _is_known(node: FileNode) -> bool:
    """Whether a node is imported without ONNX's definition of its operator."""
    return node.name in {*KNOWN, *ELEMENTWISE, *CONSTANT, *onnx_names()}


def _not_written(node: FileNode, name: str) -> UnsupportedError:
    return UnsupportedError(
        "model-020",
        f'{node.name}: output {node.outputs.index(name)} "{name}" is read, must not be',
        where=node.where,
        help="export the model without it",
        cause=f"operator {node.name}",
    )


def _is_constant(node: FileNode, constants: ModelConstants) -> bool:
    """Whether a node has only constant inputs; its outputs are then known.  Raises ModelError."""
    try:
        return constants.compute(node)
    except ModelError as error:
        raise (error if error.where else error.at(node.where)) from None
    except ValueError as error:  # of shapes that do not fit
        raise wrong(node, str(error)) from error


def _check_outputs(file: File) -> None:
    """Raises ModelError for an output of the model that nothing writes."""
    written = {border.name for border in file.inputs} | file.constants.keys()
    written.update(name for node in file.nodes for name in node.outputs)
    for border in file.outputs:
        if border.name not in written:
            raise ModelError(
                "onnx-004",
                f'"{border.name}" is an output, but nothing writes it',
                where=file.name,
                help="the model file is malformed; export the model again",
            )


def _check_operators(file: File) -> None:
    """Raises UnsupportedError for nodes of unknown operators, shapes and constants excepted."""
    known = {*KNOWN, *ELEMENTWISE, *onnx_names()}
    numbers = {"", *file.constants}
    unknown: list[FileNode] = []
    for node in file.nodes:
        if node.name in SHAPES or numbers.issuperset(node.inputs):
            numbers.update(node.outputs)
        elif node.name not in known:
            unknown.append(node)
    if unknown:
        raise collected([_not_supported(node, help=_remedy(node, file)) for node in unknown])


def _remedy(node: FileNode, file: File) -> str:
    """The remedy for a node whose operator has no file."""
    ends = {border.name for border in file.outputs}
    ends -= {name for other in file.nodes for name in other.inputs}
    given = {border.name for border in file.inputs} | {"", *file.constants}
    is_single = sum(other.name == node.name for other in file.nodes) == 1
    return operator_remedy(
        node.name,
        reads_input=is_single and all(name in given for name in node.inputs),
        is_output=is_single and all(name in ends for name in node.outputs),
    )


def _not_supported(node: FileNode, help: str = "") -> PenstockError:
    return UnsupportedError(
        "model-020",
        f"{node.name}: operator is not supported",
        where=node.where,
        help=help or "`penstock ops` lists what is supported",
        cause=f"operator {node.name}",
    )


@frozen
class _Elements:
    """Integer elements of 8 bits that a node selects: their type, element minus stored int8, and
    the quantisation of the values that store them."""

    type: str
    offset: int
    label: Quantisation


class _Importer:
    """Builds the graph; `Tensors` holds the nodes so far.

    A tensor of real numbers that is stored under several quantisations has a copy for each, under
    a name of its own in `Tensors`."""

    def __init__(
        self,
        file: File,
        domains: Domains,
        constants: ModelConstants,
        reading: Reading,
        taken: frozenset[str],
    ) -> None:
        self._file, self._domains, self._reading = file, domains, reading
        self._constants = constants
        self._tensors = Tensors(taken=taken)
        self._copies: dict[tuple[str, Quantisation], str] = {}
        self._not_computed: dict[str, FileNode] = {}  # writers of second outputs, such as masks
        self._used = {b.name for b in file.outputs}.union(*(node.inputs for node in file.nodes))
        self._orders: dict[str, Order] = {}  # of inputs and outputs, by name, if not the model's
        self._presenter = Presenter(file, reading, self._constants, self._tensors)

    def graph(self) -> Graph:
        inputs = tuple(self._input(border) for border in self._file.inputs)
        for node in self._file.nodes:
            self._tensors.where = node.where
            try:
                self._node(node)
            except ComputedError as error:
                raise error.but(where=node.where, help=self._fixed_remedy(node)) from None
            except ModelError as error:
                raise (error if error.where else error.at(node.where)) from None
            except ValueError as error:  # of shapes that do not fit
                raise wrong(node, str(error)) from error
        self._tensors.where = f"{self._file.name}: outputs"
        outputs = tuple(self._output(border) for border in self._file.outputs)
        nodes = tuple(node for node in self._tensors.nodes if node.output.elements)
        return Graph(self._file.name, inputs, outputs, nodes, orders=tuple(self._orders.items()))

    def _fixed_remedy(self, node: FileNode) -> str:
        """What makes the operands of a node constant that only depend on other inputs of the model
        than its first operand; empty if none do."""
        first, *others = (self._inputs_before(name) for name in node.inputs)
        names = dict.fromkeys(name for names in others for name in names if name not in first)
        options = " ".join(f'--constant "{name}=FILE.npy"' for name in names)
        return options and f"state what the model takes as an input, if it is known: {options}"

    def _inputs_before(self, name: str) -> list[str]:
        """The inputs of the model on which a tensor depends."""
        needed = {name}
        for node in reversed(self._file.nodes):
            if not needed.isdisjoint(node.outputs):
                needed.update(node.inputs)
        return [border.name for border in self._file.inputs if border.name in needed]

    def places(self) -> Iterator[tuple[str, str, Order]]:
        """(name in the model, name of the value, order of axes) of every tensor of the graph."""
        reals = self._domains.reals
        for name, found in self._tensors.made():
            is_stored = name not in reals or bool(reals[name].every)
            is_stored = is_stored and bool(found.value.elements)
            is_wide = self._offset(name) and self._domains.types.get(name) not in EIGHT_BITS
            if is_stored and not is_wide:
                yield name, found.value.name, found.order

    def _offset(self, name: str) -> int | None:
        """Element minus stored int8; None for tensors that are no integers of 8 bits."""
        return self._domains.offsets.get(name)

    def _input(self, border: Border) -> Value:
        where = f'{self._file.name}: input "{border.name}"'
        name = border.name
        is_last = name in self._reading.channels_last
        order = (channels_last if is_last else own)(len(border.shape))
        if is_last:
            self._orders[name] = order
        shape = tuple(self._extent(border.shape[axis], where) for axis in order)
        scales = self._copies_of_input(border, where)
        value = Value(name, TensorType(shape, *self._stored_input(border, scales, where)))
        _check_size(value, where)
        if value.dtype is DType.FLOAT32:
            self._tensors.where = where
            for scale in scales:
                copy = self._tensors.name(f"{name}/quantised{len(self._copies)}")
                type = TensorType(shape, DType.INT8, scale)
                self._add(Made(QuantizeReal(to_even=True), (value,), Value(copy, type)))
                self._copies[name, scale] = copy
                self._tensors.put(copy, OrderedTensor(self._tensors.nodes[-1].output, order))
        elif scales:
            self._copies[name, scales[0]] = name
        stored = value
        if value.dtype is DType.UINT8 and self._offset(name) is not None:
            self._tensors.where = where
            label = self._domains.labels.get(name, unit_scale(128))
            first = self._tensors.derived(Quantize(), value, f"{name}/stored", unit_scale(128))
            stored = self._tensors.relabelled(first, label)
        self._tensors.put(name, OrderedTensor(stored, order))
        return value

    def _stored_input(
        self, border: Border, scales: tuple[Quantisation, ...], where: str
    ) -> tuple[DType, Quantisation | None]:
        name = border.name
        offset = self._offset(name)
        if offset is not None:
            if self._reading.same_interface and offset:
                return DType.UINT8, Quantisation((1.0,), (0,))
            return DType.INT8, self._domains.labels.get(name, unit_scale(offset))
        if self._domains.types[name] != REAL:
            if border.dtype in FILE_TYPES:
                return FILE_TYPES[border.dtype], None
            raise UnsupportedError(
                "onnx-007",
                f"the input is {border.dtype}",
                where=where,
                why="integer inputs are " + ", ".join(name for name in FILE_TYPES if name != REAL),
                help="cast the input in the model",
            )
        is_stored = len(scales) == 1 and not self._reading.same_interface
        return (DType.INT8, scales[0]) if is_stored else (DType.FLOAT32, None)

    def _copies_of_input(self, border: Border, where: str) -> tuple[Quantisation, ...]:
        """The quantisations under which an input of real numbers is read."""
        name = border.name
        if self._domains.types[name] != REAL or name in self._domains.floats:
            return ()
        scales = self._domains.reals[name].every
        if not scales and not self._domains.reals[name].is_read:
            return ()  # nothing but its shape is read
        if not scales or border.dtype not in ("float16", "bfloat16", "float32"):
            raise UnsupportedError(
                "onnx-007",
                f"the input is {border.dtype}, and no scale is known for it",
                where=where,
                why="inputs of real numbers are float16, bfloat16 or float32",
                help="export the model with a float32 input",
            )
        return scales

    def _extent(self, extent: int | str, where: str) -> int:
        if isinstance(extent, int) and 0 < extent < 2**31:
            return extent
        given = dict(self._reading.dimensions)
        if extent in given:
            return given[str(extent)]
        why = "memory is planned at compile time, so every extent must be known"
        if isinstance(extent, int):
            raise UnsupportedError(
                "onnx-008",
                f"an extent is {extent}, must be within [1, {2**31})",
                where=where,
                why=f"{why}; 0 or -1 often stands for one that the model leaves open",
                help="export the model with fixed extents, such as a batch of 1",
            )
        raise UnsupportedError(
            "onnx-008",
            f'extent "{extent}" is not fixed',
            where=where,
            why=why,
            help=f'set it: --dimension "{extent}=1"',
        )

    def _output(self, border: Border) -> Value:
        name = border.name
        if name in self._constants:
            return self._uniquely_named(self._constants[name].value(name))
        if name not in self._tensors:
            writer = next(node for node in self._file.nodes if name in node.outputs)
            raise _not_written(writer, name)
        found = self._read(name, None, f'{self._file.name}: output "{name}"')
        wide = border.dtype not in EIGHT_BITS or (
            self._reading.same_interface and border.dtype == "uint8"
        )
        if self._offset(name) is not None and wide:
            found = self._plain(name)
        self._check_elements(found, self._tensors.where)
        order = self._output_order(found, name)
        value = self._tensors.in_order(found, order)
        if self._reading.same_interface and border.dtype == REAL and value.quantisation:
            value = self._tensors.derived(Dequantize(), value, f"{name}/real")
        if order != own(len(order)):
            self._orders[value.name] = order
        return value

    def _output_order(self, found: str, name: str) -> Order:
        """The order of axes in which a tensor is handed out as that output."""
        shape, order = self._tensors.shape(found), self._tensors.order(found)
        large = [axis for axis in order if shape[axis] > 1]
        is_state = name in (after for _, after in self._reading.states)
        if not self._reading.free_layout or is_state or large == sorted(large):
            return own(len(shape))
        return order if order == channels_last(len(shape)) else own(len(shape))

    def _node(self, node: FileNode) -> None:
        if self._constants.compute(node):
            return
        node = self._of_elements(node)
        for name in node.inputs:
            if name in self._not_computed:
                raise _not_written(self._not_computed[name], name)
        if node.name in KNOWN:
            self._move(node)
        else:
            self._compute(node)
        unknown = (name for name in node.outputs[1:] if name and name not in self._tensors)
        self._not_computed.update(dict.fromkeys(unknown, node))

    def _of_elements(self, node: FileNode) -> FileNode:
        """The node without inputs that have no elements, if it may have such.  Raises
        UnsupportedError if it may not."""
        if node.name in operators.EMPTY:
            return node
        if node.name in operators.JOINING:
            full = tuple(name for name in node.inputs if not self._is_empty(name))
            node = replace(node, inputs=full or node.inputs)
        for name in node.inputs:
            if name in self._tensors:
                self._check_elements(name, node.where)
        return node

    def _is_empty(self, name: str) -> bool:
        if name in self._constants:
            return not self._constants[name].elements.size
        return name in self._tensors and 0 in self._tensors.shape(name)

    def _check_elements(self, name: str, where: str) -> None:
        try:
            require_elements(self._tensors.shape(name), f'tensor "{name}"')
        except UnsupportedError as error:
            raise error.at(where) from None

    def _move(self, node: FileNode) -> None:
        if not node.inputs or not node.outputs:
            raise wrong(node, f"{len(node.inputs)} inputs and {len(node.outputs)} outputs")
        source, target = node.x, node.y
        if source in self._constants:
            raise wrong(node, "its input is a constant, its parameters are not")
        match node.name:
            case name if name in SHAPES:
                self._constants.put(target, self._of_shape(node, source))
            case operators.QUANTISE:
                self._quantise(node, source, target)
            case operators.DEQUANTISE:
                self._dequantise(node, source, target)
            case operators.CAST:
                self._cast(node, source, target)
            case _:
                if node.name == operators.DROPOUT and self._is_training(node):
                    raise UnsupportedError(
                        "model-020",
                        f"{node.name}: training_mode is true, must be false",
                        where=node.where,
                        help=EXPORT_FOR_INFERENCE,
                        cause=f"operator {node.name}",
                    )
                self._move_copies(node, source, target)
                for mask in filter(None, node.outputs[1:2]):  # of a Dropout, which keeps all
                    self._constants.put(mask, np.ones(self._tensors.shape(source), np.bool_))

    def _of_shape(self, node: FileNode, source: str) -> Array:
        """The result of a node that depends on the shape of its input alone."""
        shape = self._tensors.shape(source)
        if node.name == operators.SHAPE:
            return np.array(folding.shape_slice(node, shape), np.int64)
        if node.name == operators.SIZE:
            return np.array(math.prod(shape), np.int64)
        like = np.zeros(shape, self._domains.types[source])
        found = folding.folded(node, [like], self._file.opset)
        assert found is not None, f"{node.name} is folded"
        return found[0]

    def _is_training(self, node: FileNode) -> bool:
        if len(node.inputs) < 3 or not node.inputs[2]:
            return False
        found = self._constants.numbers(node.inputs[2])
        return found is None or bool(found.any())

    def _move_copies(self, node: FileNode, source: str, target: str) -> None:
        storage = self._domains.reals.get(source)
        if storage is None or not storage.every:
            self._move_one(node, source, target)
            return
        for scale in storage.every:
            self._move_one(node, self._copies[source, scale], self._new_copy(target, scale))

    def _move_one(self, node: FileNode, source: str, target: str) -> None:
        if node.name in (*SAME, CAST):
            self._tensors.same(source, target)
        elif node.name in RESHAPING:
            arrays = [self._constants.numbers(name) for name in node.inputs]
            shape = _new_shape(node, self._tensors.shape(source), arrays)
            self._tensors.reshape(source, target, shape)
        else:
            axes = folding.permutation(node, len(self._tensors.shape(source)))
            self._tensors.transpose(source, target, axes)

    def _quantise(self, node: FileNode, source: str, target: str) -> None:
        if self._domains.types[source] != REAL:
            raise self._on_integers(node, source)
        wanted = activation_scale(node, self._constants)
        copy = self._read(source, wanted, node.where)
        placed = self._tensors.placed(copy)
        if placed.value.quantisation == wanted:
            self._tensors.same(copy, target)
            return
        real = placed.value.dtype is DType.FLOAT32
        type = TensorType(placed.value.shape, DType.INT8, wanted)
        op = QuantizeReal(to_even=True) if real else Quantize()
        self._add(Made(op, (placed.value,), Value(target, type)))
        self._tensors.put(target, OrderedTensor(self._tensors.nodes[-1].output, placed.order))

    def _dequantise(self, node: FileNode, source: str, target: str) -> None:
        kind, stored = self._domains.types[source], self._domains.reals.get(target)
        scale = None if stored is None or kind == REAL else stored.exact
        if scale is None:
            raise UnsupportedError(
                "onnx-007",
                f"{node.name} is between {kind} and real numbers, must be "
                f"between {' or '.join(EIGHT_BITS)} and real numbers",
                where=node.where,
                help="quantise the model to 8 bits",
            )
        (zero,) = scale.zero_points
        if not -128 <= zero < 128:
            raise UnsupportedError(
                "onnx-007",
                f"{node.name} has a zero point that no 8-bit element has",
                where=node.where,
                help="quantise the model to 8 bits",
            )
        self._tensors.labelled(self._stored(source), self._new_copy(target, scale), scale)

    def _cast(self, node: FileNode, source: str, target: str) -> None:
        """Cast: real numbers stay; elements become real numbers, or another type that holds
        them."""
        types = self._domains.types
        if types[source] == types[target] == REAL:
            self._move_copies(node, source, target)
        elif self._offset(target) is not None and self._offset(target) == self._offset(source):
            self._tensors.same(source, target)
        elif self._offset(source) is not None and types[target] == REAL:
            scale = self._domains.reals[target].exact
            assert scale is not None
            self._tensors.labelled(source, self._new_copy(target, scale), scale)
        else:
            self._convert(node, source, target)

    def _convert(self, node: FileNode, source: str, target: str) -> None:
        """Cast between real numbers, integers and truth values, of which a reader or the source is
        not stored as int8; real numbers are rounded towards 0."""
        dtype = self._stored_dtype(node, self._domains.types[target])
        placed = self._tensors.placed(self._plain(self._read(source, None, node.where)))
        x = placed.value
        if self._domains.types[source] == REAL and x.dtype is not DType.FLOAT32:
            x = self._tensors.derived(Dequantize(), x, self._tensors.name(f"{target}/real"))
        value = self._tensors.derived(Cast(dtype), x, target)
        self._tensors.put(target, OrderedTensor(value, placed.order))

    def _stored_dtype(self, node: FileNode, name: str) -> DType:
        """The element type of that name.  Raises UnsupportedError if graphs have none."""
        if name in FILE_TYPES:
            return FILE_TYPES[name]
        raise UnsupportedError(
            "onnx-009",
            f"{node.name} to {name} is not supported",
            where=node.where,
            why="element types are " + ", ".join(FILE_TYPES),
            help="cast the tensor to one of these in the model",
            cause=f"operator {node.name}",
        )

    def _on_integers(self, node: FileNode, name: str) -> UnsupportedError:
        return UnsupportedError(
            "onnx-009",
            f"{node.name} of integers is not supported",
            where=node.where,
            why=f'"{name}" holds {self._domains.types[name]} elements, which no scale makes real '
            "numbers; only operators that select or compare elements take them",
            help="dequantise the tensor with DequantizeLinear before the node",
            cause=f"operator {node.name}",
        )

    def _read(self, name: str, wanted: Quantisation | None, where: str) -> str:
        storage = self._domains.reals.get(name)
        if storage is None:
            return name
        scale = storage.read_as(wanted)
        if scale is None:
            raise UnsupportedError(
                "onnx-010",
                f'"{name}" is read as real numbers, and only quantised elsewhere',
                where=where,
                why="it is rounded for the QuantizeLinear that reads it; no scale is known for "
                "this reader",
                help="read the tensor through the QuantizeLinear and a DequantizeLinear, which "
                f"quantisers add if all operators are quantised ({guide('quantise-onnx')})",
            )
        return self._copies[name, scale]

    def _new_copy(self, name: str, scale: Quantisation) -> str:
        first = self._domains.reals[name].every[0] == scale
        number = self._domains.reals[name].every.index(scale)
        copy = name if first else self._tensors.name(f"{name}/copy{number}")
        self._copies[name, scale] = copy
        return copy

    def _plain(self, name: str) -> str:
        """A tensor of integers in its own element type; another tensor as it is."""
        offset = self._offset(name)
        if offset is None:
            return name
        placed = self._tensors.placed(name)
        label, value = self._tensors.name(f"{name}/plain"), placed.value
        if offset:
            value = self._tensors.relabelled(value, unit_scale(offset))
            value = self._tensors.derived(Quantize(DType.UINT8), value, label, unit_scale(0))
        dtype = DType(self._domains.types[name])
        if value.dtype is dtype:
            value = self._tensors.relabelled(value, None)
        else:
            value = self._tensors.derived(Cast(dtype), value, label)
        self._tensors.put(label, OrderedTensor(value, placed.order))
        return label

    def _stored(self, name: str) -> str:
        """A tensor of integers of 8 bits, stored as int8."""
        if self._offset(name) is not None:
            return name
        placed = self._tensors.placed(name)
        label, value = self._tensors.name(f"{name}/stored"), placed.value
        if value.dtype is DType.UINT8:
            value = self._tensors.relabelled(value, unit_scale(0))
            value = self._tensors.derived(Quantize(), value, label, unit_scale(128))
        self._tensors.put(label, OrderedTensor(value, placed.order))
        return label

    def _compute(self, node: FileNode) -> None:
        if not node.outputs:
            raise wrong(node, "it has no output")
        stored = [self._domains.reals.get(name, RealStorage()).every for name in node.outputs]
        for name, scales in zip(node.outputs, stored, strict=True):
            if not scales and name in self._domains.reals:
                self._skip(node, name)
        name = node.y
        chain = None if name in self._domains.floats else self._domains.chains.get(name)
        if chain is not None and (name in self._domains.tables or not stored[0]):
            for scale in stored[0]:
                self._tabulate(chain, name, scale)
            return
        if node.name not in onnx_names():
            raise _not_supported(node, help=_remedy(node, self._file))
        presentation, _ = onnx_names()[node.name]
        if presentation.carries_in(node.attributes):
            wanted = tuple(dict.fromkeys(scale for scales in stored for scale in scales))
            runs = [(w, [w if w in scales else None for scales in stored]) for w in wanted]
        else:
            count = max(map(len, stored))
            runs = [(None, [s[k] if k < len(s) else None for s in stored]) for k in range(count)]
        for number, (wanted, scales) in enumerate(runs or [(None, [None] * len(stored))]):
            self._compute_once(node, number, wanted, scales)

    def _skip(self, node: FileNode, name: str) -> None:
        """Records the shape of a tensor that only shapes and chains read, if anything does.  Raises
        UnsupportedError for other tensors without a scale."""
        if name not in self._used:
            return
        chain = self._domains.chains.get(name)
        if chain is None or self._domains.reals[name].is_read:
            raise self._no_scale(node, name)
        self._tensors.same(self._read(chain.source, None, node.where), name)

    def _tabulate(self, chain: RealChain, name: str, scale: Quantisation) -> None:
        found = self._tensors.placed(self._read(chain.source, None, self._tensors.where))
        results = table_of_chain(chain, found.value.type, scale, self._constants, self._file.opset)
        copy = self._new_copy(name, scale)
        type = TensorType(found.value.shape, DType.INT8, scale)
        self._add(Made(ElementTable(results), (found.value,), Value(copy, type)))
        self._tensors.put(copy, OrderedTensor(self._tensors.nodes[-1].output, found.order))

    def _compute_once(
        self,
        node: FileNode,
        number: int,
        wanted: Quantisation | None,
        scales: Sequence[Quantisation | None],
    ) -> None:
        """Imports a node whose inputs are read under `wanted` where possible, for the run
        `number`."""
        presentation, from_onnx = onnx_names()[node.name]
        elements = self._elements(node, presentation)
        form = f"{node.name}{OF_INTEGERS}"
        if elements is not None or not self._is_of_integers(node):
            is_dynamic = any(name in self._tensors for name in node.inputs[1:2])
            form = f"{node.name}{AT_COMPUTED}" if is_dynamic else node.name
        presentation, from_onnx = onnx_names().get(form, (presentation, from_onnx))
        inputs = tuple(
            self._operand(node, name, wanted, elements, presentation.plain) for name in node.inputs
        )
        other = wanted or next(filter(None, scales), None)
        outputs = [
            self._result(node, number, k, scale, other, elements) for k, scale in enumerate(scales)
        ]
        named = replace(node, inputs=inputs, outputs=tuple(name for name, _, _ in outputs))
        shown = self._presenter.presented(named, presentation.axes, [q for _, q, _ in outputs])
        made = tuple(self._with_new_names(each, shown) for each in from_onnx(shown))
        for each in made:
            self._add(each)
        found = {each.output.name: each.output for each in made}
        for (name, _, kept), output in zip(outputs, shown.outputs, strict=True):
            if kept and output.name in found:
                self._check_type(node, name, found[output.name])
                self._put(name, found[output.name], shown.order)

    def _is_of_integers(self, node: FileNode) -> bool:
        """Whether a node computes with integers, and its operator has a form for them."""
        types = {self._domains.types[name] for name in node.inputs if name}
        return f"{node.name}{OF_INTEGERS}" in onnx_names() and types.isdisjoint((REAL, "bool"))

    def _check_type(self, node: FileNode, name: str, value: Value) -> None:
        """Raises UnsupportedError if an operator computed real numbers where ONNX has integers."""
        if value.dtype is DType.FLOAT32 and self._domains.types[name] != REAL:
            raise UnsupportedError(
                "onnx-009",
                f"{node.name} of {self._domains.types[name]} is not supported",
                where=node.where,
                why="this operator computes with real numbers",
                help="cast its operands to float32 before the node, and its result back after it",
                cause=f"operator {node.name}",
            )

    def _elements(self, node: FileNode, presentation: OnnxName) -> _Elements | None:
        """The integer elements of 8 bits that a node selects or compares; None if there are none,
        or if it computes with them."""
        names = node.inputs if presentation.integers else ()
        if presentation.carries_in(node.attributes):
            names = operands(node, self._file.opset)
        if len({self._offset(name) for name in names if name in self._tensors}) > 1:
            return None
        for name in names:
            offset = self._offset(name)
            if offset is not None:
                label = self._tensors.placed(name).value.quantisation
                return _Elements(self._domains.types[name], offset, label or unit_scale(offset))
        return None

    def _operand(
        self,
        node: FileNode,
        name: str,
        wanted: Quantisation | None,
        elements: _Elements | None,
        plain: bool,
    ) -> str:
        if elements is not None and name and self._domains.types[name] == elements.type:
            return self._alike(node, name, elements)
        if not name or name in self._constants:
            return name
        if self._offset(name) is None:
            return self._read(name, wanted, node.where)
        if self._domains.types[name] in EIGHT_BITS and not plain:
            raise self._on_integers(node, name)
        return self._plain(name)

    def _alike(self, node: FileNode, name: str, elements: _Elements) -> str:
        """An operand of integers of 8 bits, under the label that the node's operands share."""
        if name in self._constants:
            stored = self._constants[name].stored(name, elements.label, elements.offset)
            if stored is None or stored.data is None:
                raise self._on_integers(node, name)
            label = self._tensors.name(f"{name}/stored as {elements.type}")
            self._constants.put_stored(label, stored.array, elements.label)
            return label
        if self._offset(name) != elements.offset:
            raise self._on_integers(node, name)
        label = self._tensors.name(f"{name}/alike")
        self._tensors.labelled(name, label, elements.label)
        return label

    def _result(
        self,
        node: FileNode,
        number: int,
        k: int,
        scale: Quantisation | None,
        other: Quantisation | None,
        elements: _Elements | None,
    ) -> tuple[str, Quantisation | None, bool]:
        name = node.outputs[k]
        if name in self._domains.reals:
            if scale is None:
                other = other or next(iter(self._domains.reals[name].every), None)
                return self._tensors.name(f"{name}/unread{number}"), other, False
            return self._new_copy(name, scale), scale, True
        is_selected = elements is not None and self._domains.types.get(name) == elements.type
        return name, elements.label if elements and is_selected else None, True

    def _no_scale(self, node: FileNode, name: str) -> UnsupportedError:
        return UnsupportedError(
            "onnx-007",
            f'no scale is known for "{name}"',
            where=node.where,
            why="no QuantizeLinear follows it, so it is a tensor of real numbers",
            help=f"quantise the whole model ({guide('quantise-onnx')}); --assume-int8 "
            "invents scales and compiles the model as if it were quantised",
        )

    def _add(self, made: Made) -> None:
        inputs = tuple(map(self._uniquely_named, made.inputs))
        node = Node(made.op, inputs, made.output, self._tensors.where)
        if node.output.elements:
            check_node(node)
        self._tensors.nodes.append(node)

    def _uniquely_named(self, value: Value) -> Value:
        return self._constants.uniquely_named(value, self._tensors.taken)

    def _with_new_names(self, made: Made, shown: OnnxNode) -> Made:
        """The made node, in which computed tensors that the model lacks have names of their own."""
        inputs = {v for v in shown.inputs if v is not None and v.data is None}
        outputs = {v.name for v in shown.outputs}

        def named(value: Value) -> Value:
            if value.data is not None or value in inputs or value.name in outputs:
                return value
            return replace(value, name=self._tensors.name(value.name))

        return Made(made.op, tuple(map(named, made.inputs)), named(made.output))

    def _put(self, name: str, value: Value, order: Order) -> None:
        """Records an output.  An image that represents a signal or vectors is reshaped back."""
        if value.rank > len(order) > 1:
            shape = (*value.shape[: len(order) - 1], value.shape[-1])
            value = self._tensors.viewed(value, shape, name)
        order = order if value.rank == len(order) else own(value.rank)
        self._tensors.put(name, OrderedTensor(value, order))


def _new_shape(
    node: FileNode, shape: tuple[int, ...], arrays: list[Array | None]
) -> tuple[int, ...]:
    """The output's shape of a node that reshapes a tensor of `shape`."""
    if node.name == "Flatten":
        return folding.flattened(shape, folding.whole(node, "axis", 1))
    if node.name == "Reshape":
        if len(arrays) < 2 or arrays[1] is None:
            error = UnsupportedError(
                "model-020",
                f"{node.name}: the shape is computed, must be constant",
                where=node.where,
                help="export the model with fixed shapes",
            )
            raise ComputedError.of(error)
        allowed = bool(folding.whole(node, "allowzero", 0))
        return folding.reshaped(shape, folding.numbers(arrays[1]), allowed)
    axes = folding.listed_axes(node, arrays)
    if node.name == "Squeeze":
        return folding.squeezed(shape, axes)
    return folding.unsqueezed(shape, axes or ())


def _check_size(value: Value, where: str) -> None:
    """Raises ModelError if 32 bits cannot count the bytes of a tensor."""
    if value.type.size_bytes >= MOST_BYTES:
        raise ModelError(
            "onnx-005",
            f'"{value.name}" is {value.type}, must be smaller than 2 GiB',
            where=where,
            help=MALFORMED,
        )


def _with_output_names(graph: Graph, borders: Iterable[Border]) -> tuple[Graph, Mapping[str, str]]:
    """The graph whose outputs have the model's names, unless other values have taken them."""
    # Also returns new names by old names.
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
    orders = tuple((names.get(name, name), order) for name, order in graph.orders)
    return Graph(graph.name, graph.inputs, outputs, nodes, orders=orders), names
