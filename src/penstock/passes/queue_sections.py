"""queue_sections: lets slices of the window of a queue be read from its ring (`Queue.sections`).

Conditions:

1. The slice takes consecutive rows of the window or of another section, with step 1 along all axes.
2. The elements that it takes of each row are consecutive.
3. The slice is not an output of the graph.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.ir.graph import Graph, Node, Queue, QueueSection
from penstock.ir.op import row_axis
from penstock.ops.slice import Slice


def queue_sections(graph: Graph) -> Graph:
    """Returns the graph with the sections of its queues."""
    return replace(graph, queues=tuple(_with_sections(queue, graph) for queue in graph.queues))


def _with_sections(queue: Queue, graph: Graph) -> Queue:
    outputs = {value.name for value in graph.outputs}
    found = {queue.window.name: QueueSection(queue.window, 0, 0)}
    for node in graph.nodes:
        whole = found.get(node.inputs[0].name) if node.inputs else None
        if whole is not None and node.name not in outputs and _is_section(node):
            found[node.name] = _section(node, whole)
    return replace(queue, sections=tuple(found.values())[1:])


def _is_section(node: Node) -> bool:
    """Whether a node takes consecutive rows, and consecutive elements of each."""
    op, x, y = node.op, node.inputs[0].type.shape, node.output.type.shape
    if not isinstance(op, Slice) or len(x) < 2:
        return False
    columns = y[row_axis(len(x)) + 1 : -1]
    return set(op.step) == {1} and (y[-1] == x[-1] or set(columns) <= {1})


def _section(node: Node, whole: QueueSection) -> QueueSection:
    """The section that a node takes of another one."""
    assert isinstance(node.op, Slice)
    type, axis = node.inputs[0].type, row_axis(node.inputs[0].type.rank)
    elements = 0
    for start, extent in zip(node.op.start[axis + 1 :], type.shape[axis + 1 :], strict=True):
        elements = elements * extent + start
    first_byte = whole.first_byte + elements * type.dtype.size_bytes
    return QueueSection(node.output, whole.first_row + node.op.start[axis], first_byte)
