"""exchange_axes: runs parts of a network with rows and columns exchanged.

Cascades run row by row, so a network of wide images keeps few rows, but long ones.  If its images
are exchanged, its columns are rows.  The pass rewrites every connected region of operators that can
be exchanged (`ir/exchange.py`) and that contains an image with more columns than rows:

1. Operators of the region compute exchanged outputs from exchanged operands.
2. An image that enters or leaves the region is converted: in place by `ExchangeAxes`, row by row by
   `Transpose` if the image must survive, or by a view if it has a single row or column.
3. A fully connected layer on all elements of an exchanged image reads them in their new order; its
   weights are permuted instead.

This optional pass yields an alternative that the search compares with the original graph.  It runs
before `accumulate`, which splits reductions for the axes of the images.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from penstock.ir.exchange import (
    Exchangeable,
    exchanged_data,
    exchanged_elements,
    exchanged_entries,
    exchanged_shape,
    exchanged_type,
    is_image,
)
from penstock.ir.graph import Graph, GraphWriter, Node, Value, Values, computes
from penstock.ir.op import Op
from penstock.ir.tensor import MOST_ROWS, Data, TensorType, row_count
from penstock.ops.fully_connected import FullyConnected
from penstock.ops.reshape import Reshape
from penstock.ops.transpose import ExchangeAxes, Transpose
from penstock.passes.cleaning import drop_dead


def exchange_axes(graph: Graph, *, keep_inputs: bool = False) -> Graph | None:
    """Return the graph with wide images exchanged.

    None if there are none, or if the graph has states, whose axes runs agree on.
    keep_inputs: whether the inputs of the graph must survive the run."""
    if graph.kept:
        return None
    exchanged = _wide_regions(graph)
    if not exchanged:
        return None
    return _with_survivors(drop_dead(_Writer(graph, exchanged).graph()), keep_inputs=keep_inputs)


def _with_survivors(graph: Graph, *, keep_inputs: bool) -> Graph:
    readers = graph.consumers()
    kept = {value.name for value in (*graph.outputs, *(graph.inputs if keep_inputs else ()))}

    def by_rows(node: Node) -> bool:
        x = node.inputs[0]
        return isinstance(node.op, ExchangeAxes) and (x.name in kept or len(readers[x.name]) > 1)

    def converted(node: Node) -> Node:
        axes = tuple(range(node.output.rank))
        return replace(node, op=Transpose(exchanged_entries(axes))) if by_rows(node) else node

    return graph.with_nodes(tuple(map(converted, graph.nodes)))


def _wide_regions(graph: Graph) -> Mapping[str, Op]:
    found = {node.name: op for node in graph.nodes if (op := _exchanged_operator(node)) is not None}
    region = {name: name for name in found}
    of_value: dict[str, str] = {}

    def root(name: str) -> str:
        while region[name] != name:
            name = region[name]
        return name

    nodes = [node for node in graph.nodes if node.name in found]
    for node in nodes:
        for value in _images(node):
            region[root(of_value.setdefault(value.name, node.name))] = root(node.name)
    wide = {root(node.name) for node in nodes if any(map(_is_wide, _images(node)))}
    return {name: op for name, op in found.items() if root(name) in wide}


def _exchanged_operator(node: Node) -> Op | None:
    """The operator of a node on exchanged operands; None if there is none."""
    if not all(map(_has_few_columns, _images(node))):
        return None
    if any(value.rank == 2 for value in node.inputs):
        return None
    made = _exchanged_view(node) if isinstance(node.op, Reshape) else _exchanged_layer(node)
    types = (exchanged_type(value.type) for value in node.inputs)
    is_made = made is not None and computes(made, types, exchanged_shape(node.output.shape))
    return made if is_made else None


def _exchanged_layer(node: Node) -> Op | None:
    ranks = {value.rank for value in _images(node)}
    if len(ranks) > 1 or not isinstance(node.op, Exchangeable):
        return None
    return node.op.exchanged(node.output.rank)


def _exchanged_view(node: Node) -> Op | None:
    """The view of the exchanged input that is the exchanged output of a Reshape."""
    # There is one if both have a single row or column, or if only the rank differs.
    x, y = node.inputs[0].shape, node.output.shape
    same = x[-3:] == y[-3:] or (1 in x[-3:-1] and 1 in y[-3:-1])
    return Reshape(exchanged_shape(y)) if same else None


def _images(node: Node) -> Values:
    return (*node.variable_inputs, node.output)


def _has_few_columns(value: Value) -> bool:
    """Whether a value is an image whose columns may be rows."""
    shape = value.shape
    return is_image(shape) and row_count(exchanged_shape(shape)) <= MOST_ROWS


def _is_wide(value: Value) -> bool:
    rows, columns = value.shape[-3:-1]
    return columns > rows


@dataclass(slots=True)
class _Writer(GraphWriter):
    """Writes the nodes of the exchanged graph.

    operators: the operators of the exchanged regions, by the names of their nodes.
    written: names of the values that exist in their original form.
    exchanged: exchanged form of values, by name; `flat`: aliases of exchanged images for fully
        connected layers, by the name of the alias in the model.
    """

    operators: Mapping[str, Op]
    written: set[str] = field(default_factory=set[str])
    exchanged: dict[str, Value] = field(default_factory=dict[str, Value])
    flat: dict[str, Value] = field(default_factory=dict[str, Value])

    def graph(self) -> Graph:
        """The graph; its inputs and outputs are those of the original one."""
        self.written = {value.name for value in self.before.inputs}
        producers = self.before.producers()
        for node in self.before.nodes:
            if node.name in self.operators:
                self._write_exchanged(node)
                continue
            image = self._flattened_image(node, producers)
            if image is None:
                self._write(replace(node, inputs=tuple(map(self._original, node.inputs))))
            else:
                self._write_permuted(node, image)
        for value in self.before.outputs:
            self._original(value)
        return self.before.with_nodes(tuple(self.nodes))

    def _write(self, node: Node) -> Value:
        self.nodes.append(node)
        self.written.add(node.name)
        return node.output

    def _write_exchanged(self, node: Node) -> None:
        inputs = tuple(map(self._exchanged, node.inputs))
        made = self._exchanged_form(node.output)
        self._write(Node(self.operators[node.name], inputs, made, node.origin))
        self.exchanged[node.name] = made

    def _exchanged_form(self, value: Value) -> Value:
        """The value that holds an exchanged image: the same one if it is a single pixel."""
        if value.shape[-3:-1] == (1, 1):
            return value
        return Value(self._free_name(value), exchanged_type(value.type))

    def _original(self, value: Value) -> Value:
        """A value in its original form, converted back if necessary."""
        if value.data is not None or value.name in self.written:
            return value
        source = self.exchanged[value.name]
        return self._write(_conversion(source, value, f'exchanged "{source.name}"'))

    def _exchanged(self, value: Value) -> Value:
        """A value in its exchanged form, converted if necessary."""
        if value.name in self.exchanged:
            return self.exchanged[value.name]
        made = self._constant(value) if value.data is not None else self._exchanged_form(value)
        self.exchanged[value.name] = made
        if value.data is None and made is not value:
            self._write(_conversion(value, made, f'exchanged "{value.name}"'))
        return made

    def _constant(self, value: Value) -> Value:
        assert value.data is not None
        type, data = exchanged_type(value.type), exchanged_data(value.type, value.data)
        if (type, data) == (value.type, value.data):
            return value
        return Value(self._free_name(value), type, data)

    def _flattened_image(self, node: Node, producers: Mapping[str, Node]) -> Value | None:
        """The image in an exchanged region of which a node computes a fully connected layer with
        constant weights; None for other nodes."""
        if not isinstance(node.op, FullyConnected) or node.inputs[1].data is None:
            return None
        for value in _viewed(node.inputs[0], producers):
            if value.name in self.exchanged and is_image(value.shape):
                whole = value.elements == node.inputs[1].shape[-1]
                return value if whole else None
        return None

    def _write_permuted(self, node: Node, image: Value) -> None:
        x, w, *others = node.inputs
        flat = self.flat.get(x.name)
        if flat is None:
            flat = Value(self._free_name(x), x.type)
            self.flat[x.name] = flat
            source = self.exchanged[image.name]
            self._write(Node(Reshape(x.shape), (source,), flat, f'view of "{source.name}"'))
        weights = Value(self._free_name(w), w.type, _permuted(w, image.type))
        self._write(replace(node, inputs=(flat, weights, *others)))

    def _free_name(self, value: Value) -> str:
        return self.fresh(f"{value.name}/exchanged")


def _conversion(source: Value, made: Value, origin: str) -> Node:
    """The node that exchanges an image; a view if the order of its elements stays."""
    shape = made.shape
    return Node(Reshape(shape) if 1 in shape[-3:-1] else ExchangeAxes(), (source,), made, origin)


def _viewed(value: Value, producers: Mapping[str, Node]) -> Iterator[Value]:
    yield value
    producer = producers.get(value.name)
    if producer is not None and producer.op.ALIAS:
        yield from _viewed(producer.inputs[0], producers)


def _permuted(weights: Value, image: TensorType) -> Data:
    """Weights (O, H * W * C) of a layer on an image, for the exchanged image."""
    outputs = weights.shape[0]
    elements = weights.array.reshape(outputs, *image.shape[-3:])
    return Data.of(exchanged_elements(elements))
