"""Queue access: copies for kernels that cannot access the ring buffer of a queue, which keeps the
last rows of a sequence from run to run.

A queue keeps the last rows of a sequence in a ring; each run replaces the oldest rows by new ones.
The kept rows and the new ones together are the window of the queue, and a slice of the window is a
section.  The slot of the window's first row changes from run to run.  Processor kernels that
compute row by row can read and write rings.  Other kernels, including those of accelerators, need a
contiguous copy, and so do nodes that reshape the window.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from penstock.ir.graph import Graph, Node, Queue, Value, free_name
from penstock.ops.registry import COPY
from penstock.scheduling.model.part import Part


def with_queue_access(
    graph: Graph, part: Callable[[Node], Part], streamed: Collection[str]
) -> Graph:
    """Return the graph with copies wherever a node cannot access the ring buffer of a queue.

    part: returns the part of a node, which holds the node's kernels.
    streamed: names of the inputs whose rows the application supplies during the run; it can write
        these rows directly into a ring buffer.
    """
    for queue in graph.queues:
        access = _Access(graph, queue, part, streamed)
        graph = access.with_new_rows_in_ring()
        graph = replace(access, graph=graph).with_copies_for_others()
    return graph


@dataclass(frozen=True, slots=True)
class _Access:
    """Inserts copies for one queue, which keeps the last rows of a sequence in a ring buffer.
    The kept rows and the new rows of a run together are the queue's window; a slice of the window
    is a section.

    graph, queue: the graph so far, and the queue.
    part: returns the part of a node, with its kernels.
    streamed: names of the inputs whose rows the application supplies during the run."""

    graph: Graph
    queue: Queue
    part: Callable[[Node], Part]
    streamed: Collection[str]

    def with_new_rows_in_ring(self) -> Graph:
        """Return the graph in which the new rows of this run are written into the ring.

        If the producer of the new rows cannot write them there directly, a new node copies them
        into the ring."""
        append = self.graph.producers()[self.queue.window.name]
        new = append.inputs[1]
        if self._is_written_into_ring(new):
            return self.graph
        copy = self._copy(new, append.origin)
        appended = replace(append, inputs=(append.inputs[0], copy.output))
        nodes = (
            made
            for node in self.graph.nodes
            for made in ((copy, appended) if node is append else (node,))
        )
        return self.graph.with_nodes(tuple(nodes))

    def with_copies_for_others(self) -> Graph:
        """Return the graph with contiguous copies of the queue's window and of sections of it.

        The window or a section is copied only if some node that reads it cannot read the ring.
        Such nodes read the copy; all others still read the ring."""
        graph = self.graph
        for value in self.queue.views:
            graph = replace(self, graph=graph)._with_copy(value)
        return graph

    def _with_copy(self, value: Value) -> Graph:
        """Return the graph in which the nodes that cannot read the ring read a copy of `value`.

        A new node makes the copy, which is contiguous.  If every node that reads `value` can read
        the ring, the graph is unchanged.

        value: the window or a section, whose rows are in the ring."""
        readers = self.graph.consumers().get(value.name, ())
        unable = {node.name for node in readers if not self._accesses_rings(node)}
        if not unable:
            return self.graph
        copy = self._copy(value, self.graph.producers()[value.name].origin)
        nodes: list[Node] = []
        for node in self.graph.nodes:
            nodes.append(_reading(node, value, copy.output) if node.name in unable else node)
            if node.name == value.name:
                nodes.append(copy)
        return self.graph.with_nodes(tuple(nodes))

    def _is_written_into_ring(self, new: Value) -> bool:
        """Return whether the producer of `new` can write it directly into the ring.

        The producer must be a node that can write ring buffers, or the application, which supplies
        the rows of a streamed input.  The rows are then stored only in this ring.  So all other
        nodes that read `new` must be able to read ring buffers, and none may append it to another
        queue.

        new: the rows that this run appends to the queue.
        """
        windows = {queue.window.name for queue in self.graph.queues}
        views = {value.name for queue in self.graph.queues for value in queue.views}
        readers = self.graph.consumers()[new.name]
        others = [node for node in readers if node.name not in windows]
        maker = self.graph.producers().get(new.name)
        if maker is None:
            written = new.name in self.streamed
        else:
            written = maker.name not in views and self._accesses_rings(maker)
        return (
            written and len(readers) == len(others) + 1 and all(map(self._accesses_rings, others))
        )

    def _accesses_rings(self, node: Node) -> bool:
        """Return whether all kernels of a node can access ring buffers.

        The result is False for reshapes and other aliases, which need contiguous bytes.  It is
        True for the nodes that define the window or a section of the queue, because no kernel runs
        for them.
        """
        if node.op.ALIAS:
            return False
        if node.name in (value.name for value in self.queue.views):
            return True
        part = self.part(node)
        kernels = (part.kernel, *((part.fallback,) if part.fallback is not None else ()))
        return all(
            kernel.by_rows and kernel.body is None and kernel.alignment_bytes == 1
            for kernel in kernels
        )

    def _copy(self, value: Value, origin: str) -> Node:
        """Return a node that copies `value` to a new contiguous tensor.

        origin: the position in the model file that messages about the copy quote."""
        name = free_name(f"{value.name}/copy", self.graph.names())
        return Node(COPY, (value,), Value(name, value.type), origin)


def _reading(node: Node, value: Value, other: Value) -> Node:
    """Return `node` with `other` in place of its input `value`."""
    return replace(node, inputs=tuple(other if v == value else v for v in node.inputs))
