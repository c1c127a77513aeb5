"""Import of an ONNX model into a graph, node by node.

Operator files import the nodes that compute; nodes that only move elements or change their scale
are imported here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from penstock.errors import ModelError, PenstockError, UnsupportedError
from penstock.frontends.node_checks import check_node, check_rows
from penstock.frontends.onnx import folding
from penstock.frontends.onnx.file import MOST_BYTES, Border, File, FileNode
from penstock.frontends.onnx.folding import wrong
from penstock.frontends.onnx.interface import check_interface
from penstock.frontends.onnx.model_constants import ModelConstants
from penstock.frontends.onnx.presentation import Presenter
from penstock.frontends.onnx.rewrites import rewritten
from penstock.frontends.onnx.scales import (
    DEQUANTISE,
    EIGHT_BITS,
    MOVING,
    QUANTISE,
    RESHAPING,
    SAME,
    real_tensors,
    tensor_scales,
)
from penstock.frontends.onnx.tensors import Order, OrderedTensor, Tensors, channels_last, own
from penstock.frontends.problems import collected
from penstock.frontends.reading import Reading
from penstock.frontends.remedies import operator_remedy
from penstock.ir.foreign import MALFORMED, Made
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.tensor import Array, DType, Quantisation, TensorType
from penstock.ir.verify import verify
from penstock.ops.quantize import Quantize
from penstock.ops.registry import onnx_names

KNOWN = (*MOVING, QUANTISE, DEQUANTISE, "Shape")
"""Nodes that no operator file imports."""


@dataclass(frozen=True, slots=True)
class ImportedModel:
    """The graph of a model; `places` maps names of the model's tensors to the value that holds the
    tensor and the order of its axes."""

    graph: Graph
    places: Mapping[str, tuple[str, Order]]


def import_onnx(file: File, reading: Reading) -> ImportedModel:
    """The graph of a model, verified.

    Raises ModelError, UnsupportedError or UsageError; unsupported operators are reported all at
    once."""
    in_file, file = file, rewritten(file)
    _check_operators(file)
    asked = {name: asked for name, (asked, _) in onnx_names().items()}
    scales = tensor_scales(file, asked, assumed=reading.assume_int8)
    importer = _Importer(file, scales, real_tensors(file, asked, scales), reading)
    graph, names = _with_output_names(importer.graph(), file.outputs)
    verify(graph)
    check_rows(graph)
    check_interface(in_file, graph, reading)
    places = {name: (names.get(value, value), order) for name, value, order in importer.places()}
    return ImportedModel(graph, places)


def _check_operators(file: File) -> None:
    known = {*KNOWN, *onnx_names(), *folding.FOLDS}
    unknown = [node for node in file.nodes if node.name not in known]
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


def _not_supported(node: FileNode, of_constants: str = "", help: str = "") -> PenstockError:
    return UnsupportedError(
        "model-020",
        f"{node.name}: operator is not supported{of_constants}",
        where=node.where,
        help=help or "`penstock ops` lists what is supported",
        cause=f"operator {node.name}",
    )


class _Importer:
    """Builds the graph; `Tensors` holds the nodes so far."""

    def __init__(
        self,
        file: File,
        scales: Mapping[str, Quantisation],
        reals: frozenset[str],
        reading: Reading,
    ) -> None:
        self._file, self._scales, self._reals, self._reading = file, scales, reals, reading
        self._constants = ModelConstants(file.constants)
        self._tensors = Tensors(taken=file.names())
        integral = frozenset(name for name, (asked, _) in onnx_names().items() if asked.integers)
        self._presenter = Presenter(
            file, scales, reals, reading, integral, self._constants, self._tensors
        )

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
        """(name in the model, name of the value, order of axes) of every tensor of the graph."""
        for name, found in self._tensors.made():
            yield name, found.value.name, found.order

    def _input(self, border: Border) -> Value:
        where = f'{self._file.name}: input "{border.name}"'
        is_last = border.name in self._reading.channels_last
        order = (channels_last if is_last else own)(len(border.shape))
        shape = tuple(self._extent(border.shape[axis], where) for axis in order)
        q = self._scales.get(border.name)
        real = border.name in self._reals
        if not real and (
            q is None or border.dtype not in ("float16", "bfloat16", "float32", *EIGHT_BITS)
        ):
            raise UnsupportedError(
                "onnx-007",
                f"the input is {border.dtype}, and no scale is known for it",
                where=where,
                why="inputs are int8 in the graph: a QuantizeLinear or DequantizeLinear says how",
                help="quantise the model with its inputs, or give --assume-int8",
            )
        value = Value(border.name, TensorType(shape, DType.FLOAT32 if real else DType.INT8, q))
        _check_size(value, where)
        self._tensors.put(border.name, OrderedTensor(value, order))
        return value

    def _extent(self, extent: int | str, where: str) -> int:
        """The extent, or the user's value for a symbolic one."""
        if isinstance(extent, int) and 0 < extent < 2**31:
            return extent
        given = dict(self._reading.dimensions)
        if extent in given:
            return given[str(extent)]
        why = "memory is planned at compile time, so every extent must be known"
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
            raise ModelError(
                "onnx-004",
                f'"{name}" is an output, but nothing writes it',
                where=self._file.name,
                help="the model file is malformed; export the model again",
            )
        return self._tensors.in_order(name, own(len(self._tensors.shape(name))))

    def _node(self, node: FileNode) -> None:
        arrays = [self._constants.numbers(name) for name in node.inputs]
        constant = all(
            found is not None or not name for found, name in zip(arrays, node.inputs, strict=True)
        )
        if constant and (found := folding.folded(node, arrays)) is not None:
            self._constants.put(node.outputs[0], found)
        elif node.name in KNOWN:
            self._move(node, arrays)
        else:
            self._compute(node)

    def _move(self, node: FileNode, arrays: list[Array | None]) -> None:
        """Imports a node that computes nothing."""
        if not node.inputs or not node.outputs:
            raise wrong(node, f"{len(node.inputs)} inputs and {len(node.outputs)} outputs")
        source, target = node.inputs[0], node.outputs[0]
        if source in self._constants:
            self._constants.move(node)
        elif node.name in (QUANTISE, DEQUANTISE):
            self._rescale(source, target)
        elif node.name in SAME:
            self._tensors.same(source, target)
        elif node.name == "Shape":
            shape = folding.shape_slice(node, self._tensors.shape(source))
            self._constants.put(target, np.array(shape, np.int64))
        elif node.name in RESHAPING:
            shape = _new_shape(node, self._tensors.shape(source), arrays)
            self._tensors.reshape(source, target, shape)
        else:
            axes = folding.permutation(node, len(self._tensors.shape(source)))
            self._tensors.transpose(source, target, axes)

    def _rescale(self, source: str, target: str) -> None:
        """Imports QuantizeLinear or DequantizeLinear: an alias if the scale stays the same."""
        wanted = self._scales[target]
        placed = self._tensors.placed(source)
        if placed.value.type.quantisation == wanted:
            self._tensors.same(source, target)
            return
        type = TensorType(placed.value.type.shape, DType.INT8, wanted)
        self._add(Made(Quantize(), (placed.value,), Value(target, type)))
        self._tensors.put(target, OrderedTensor(self._tensors.nodes[-1].output, placed.order))

    def _compute(self, node: FileNode) -> None:
        """Imports a node by its operator file."""
        if not node.outputs:
            raise wrong(node, "it has no output")
        if node.name not in onnx_names():
            raise _not_supported(node, " but for constants")
        presentation, from_onnx = onnx_names()[node.name]
        shown = self._presenter.presented(node, presentation.axes)
        made = tuple(self._with_new_names(each, shown) for each in from_onnx(shown))
        for each in made:
            self._add(each)
        found = {each.output.name: each.output for each in made}
        for name, output in zip(node.outputs, shown.outputs, strict=True):
            if output.name in found:
                self._put(name, found[output.name], shown.order)

    def _add(self, made: Made) -> None:
        inputs = tuple(map(self._uniquely_named, made.inputs))
        node = Node(made.op, inputs, made.output, self._tensors.where)
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
        if value.type.rank > len(order) > 1:
            shape = (*value.type.shape[: len(order) - 1], value.type.shape[-1])
            value = self._tensors.viewed(value, shape, name)
        order = order if value.type.rank == len(order) else own(value.type.rank)
        self._tensors.put(name, OrderedTensor(value, order))


def _new_shape(
    node: FileNode, shape: tuple[int, ...], arrays: list[Array | None]
) -> tuple[int, ...]:
    """The output's shape of a node that reshapes a tensor of `shape`."""
    if node.name == "Flatten":
        return folding.flattened(shape, folding.whole(node, "axis", 1))
    if node.name == "Reshape":
        if len(arrays) < 2 or arrays[1] is None:
            raise wrong(node, "the shape is computed, must be constant")
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
    """The graph whose outputs have the model's names, unless other values have taken them.

    Also returns new names by old names."""
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
