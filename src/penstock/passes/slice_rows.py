"""slice_rows: a Slice of a view slices the viewed tensor, if that tensor has more rows.

A reader of a view with fewer rows reads them all at once, so that no cascade reaches it.  This is
so for the last step of a sequence (1, T, C), a view of the rows (1, T, 1, C) of a recurrent layer.
Conditions:

1. The view differs from the tensor in axes of extent 1 and in its quantisation at most.
2. The tensor has more rows than the view.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.ir.graph import Graph, Node, Value, free_name
from penstock.ir.op import row_count
from penstock.ops.reshape import Reshape
from penstock.ops.slice import Slice

UNCHANGED = (0, 1, 1)  # Start, extent and step of a slice along an axis of extent 1.


def slice_rows(graph: Graph) -> Graph:
    """Returns the graph with slices of views as views of slices."""
    producers, names = graph.producers(), graph.names()
    made = (node for one in graph.nodes for node in _through_views(one, producers, names))
    return graph.with_nodes(tuple(made))


def _through_views(
    node: Node, producers: Mapping[str, Node], names: frozenset[str]
) -> tuple[Node, ...]:
    if not isinstance(node.op, Slice):
        return (node,)
    view = node.inputs[0]
    tensor = _viewed(view, producers)
    if row_count(tensor.shape) <= row_count(view.shape):
        return (node,)
    op = node.op
    triples = zip(op.start, op.shape, op.step, view.shape, strict=True)
    sliced = iter([(start, n, step) for start, n, step, extent in triples if extent != 1])
    axes = [UNCHANGED if extent == 1 else next(sliced) for extent in tensor.shape]
    start, shape, step = (tuple(axis[k] for axis in axes) for k in range(3))
    name = free_name(f"{node.name}/rows", names)
    rows = Value(name, node.output.type.with_shape(shape))
    first = Node(Slice(start, shape, step), (tensor,), rows, node.origin)
    return first, replace(node, op=Reshape(node.output.shape), inputs=(rows,))


def _viewed(view: Value, producers: Mapping[str, Node]) -> Value:
    """The tensor at the end of a chain of views that differ in axes of extent 1."""
    producer = producers.get(view.name)
    if producer is None or not isinstance(producer.op, Reshape):
        return view
    source = producer.inputs[0]
    return _viewed(source, producers) if _extents(source) == _extents(view) else view


def _extents(value: Value) -> tuple[int, ...]:
    """The extents of a value that are not 1."""
    return tuple(extent for extent in value.shape if extent != 1)
