"""streamed_rows: an input that nodes read row by row through a view takes the view's shape.

The caller supplies a streamed input row by row.  A sequence (1, T, C) is a single row; a recurrent
layer views it as the rows (1, T, 1, C).  A spectrogram (1, T * F) may be viewed as (1, T, F, 1).
Condition: the input is a single row, or the shapes differ in axes of extent 1 only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.ir.graph import Graph, Node, Value, Values, free_name
from penstock.ir.tensor import row_count
from penstock.opkit.broadcast import Elementwise
from penstock.ops.reshape import Reshape
from penstock.ops.transpose import Transpose

CHANNELS_LAST = (0, 2, 3, 1)  # The order of a transpose from NCHW to NHWC.


def streamed_rows(graph: Graph) -> Graph:
    """Returns the graph with inputs of as many rows as possible."""
    results = {value.name for value in graph.results}
    for x in graph.inputs:
        shape = _most_rows(graph, x)
        if shape != x.shape and x.name not in results:
            graph = _with_shape(graph, x, shape)
    return graph


def channels_first(graph: Graph) -> Values:
    """Returns the inputs that are images with their channels first, as in ONNX: they are transposed
    before anything but element-wise operators reads them.  Their rows are whole channels."""
    sources = {x.name: x.name for x in graph.inputs}
    moved: set[str] = set()
    for node in graph.nodes:
        source = next((sources.get(value.name) for value in node.variable_inputs), None)
        if source is not None and isinstance(node.op, Elementwise):
            sources[node.name] = source
        elif source is not None and isinstance(node.op, Transpose):
            moved |= {source} if node.op.order == CHANNELS_LAST else set()
    return tuple(x for x in graph.inputs if x.name in moved)


def _most_rows(graph: Graph, x: Value) -> tuple[int, ...]:
    """The shape with the most rows among those of an input and its views."""
    views = {x.name: x.shape}
    single = row_count(x.shape) == 1
    for node in graph.nodes:
        viewed = views.get(node.inputs[0].name) if isinstance(node.op, Reshape) else None
        shape = node.output.shape
        if viewed is not None and (single or _extents(shape) == _extents(viewed)):
            views[node.name] = shape
    return max(views.values(), key=row_count)


def _extents(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The extents that are not 1."""
    return tuple(extent for extent in shape if extent != 1)


def _with_shape(graph: Graph, x: Value, shape: tuple[int, ...]) -> Graph:
    """The graph with another shape of input x, which nodes read through a view."""
    streamed = replace(x, type=x.type.with_shape(shape))
    whole = Value(free_name(f"{x.name}/whole", graph.names()), x.type)
    view = Node(Reshape(x.shape), (streamed,), whole, f'input "{x.name}"')
    renamed: Mapping[str, Value] = {x.name: whole}
    nodes = (node.reading(renamed) for node in graph.nodes)
    inputs = tuple(streamed if v.name == x.name else v for v in graph.inputs)
    return replace(graph, inputs=inputs, nodes=(view, *nodes))
