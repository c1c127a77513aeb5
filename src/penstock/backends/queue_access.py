"""Queue access: copies between rings and the kernels that cannot access them.

The rows of a queue are in a ring whose first slot changes from run to run.  Kernels of the
processor that work by rows read and write rings.  Other kernels, those of accelerators among them,
and views of the window in another shape need a contiguous copy.
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
    """Return the graph with the copies that its queues need.

    part: returns the part of a node, with its kernels.
    streamed: names of the inputs whose rows the caller supplies during the run; these are written
        into rings directly.
    """
    for queue in graph.queues:
        access = _Access(graph, queue, part, streamed)
        graph = access.with_new_rows_in_ring()
        graph = replace(access, graph=graph).with_copies_for_others()
    return graph


@dataclass(frozen=True, slots=True)
class _Access:
    """How the nodes of a graph access a queue; fields as the arguments of `with_queue_access`."""

    graph: Graph
    queue: Queue
    part: Callable[[Node], Part]
    streamed: Collection[str]

    def with_new_rows_in_ring(self) -> Graph:
        """Return the graph with a copy of the new rows, unless they are written into the ring."""
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
        """Return the graph with contiguous copies of the window and its sections for the nodes that
        need them."""
        graph = self.graph
        for value in self.queue.views:
            graph = replace(self, graph=graph)._with_copy(value)
        return graph

    def _with_copy(self, value: Value) -> Graph:
        """Return the graph with a contiguous copy of a value in the ring, if a node needs one."""
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
        """Return whether the node that computes the new rows writes them into the ring.

        All nodes that read them must be able to read the ring, and no other queue receives them.
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
        """Return whether all kernels of a node access rings; False for aliases.

        Also True for sections of the queue, which no kernel computes.
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
        """Return a node that copies a value."""
        name = free_name(f"{value.name}/copy", self.graph.names())
        return Node(COPY, (value,), Value(name, value.type), origin)


def _reading(node: Node, value: Value, other: Value) -> Node:
    """Return a node that reads `other` instead of `value`."""
    return replace(node, inputs=tuple(other if v == value else v for v in node.inputs))
