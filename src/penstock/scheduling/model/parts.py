"""Parts: a graph split into parts, in the graph's order.

A tensor's *storage* is the memory block that holds it.  An alias (the same bytes under another
shape) shares the storage of the tensor that it views, so nodes that only create aliases are not
parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from penstock.brief import Brief
from penstock.ir.graph import Graph, Node, Value
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.row_reads import row_parts
from penstock.scheduling.model.rows import RowParts


@dataclass(frozen=True, slots=True, repr=False)
class CpuFallback(Brief):
    """A node that no accelerator runs: the reason, and its estimated cycles on the processor."""

    node: Node
    reason: str
    cycles: int


@dataclass(frozen=True, repr=False)
class Parts(Brief):
    """A graph split into parts, in the graph's order.

    accelerators: names of the engines besides the processor.
    left: where there are accelerators, the nodes that run on the processor instead.
    """

    graph: Graph
    parts: tuple[Part, ...]
    accelerators: tuple[str, ...] = ()
    left: tuple[CpuFallback, ...] = ()

    @property
    def inputs(self) -> tuple[Value, ...]:
        """Graph inputs that are in memory before the first part runs (streamed ones are not)."""
        streamed = {part.name for part in self.parts if part.streamed_input is not None}
        return tuple(v for v in self.graph.inputs if v.name not in streamed)

    @cached_property
    def can_prefetch(self) -> bool:
        """Whether any part has a kernel that reads prefetched constants."""
        return any(part.prefetching for part in self.parts)

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of the graph's values, which are not available for other buffers."""
        return self.graph.names()

    @cached_property
    def rows(self) -> RowParts:
        """Row dependences of every part."""
        return row_parts(self.graph, self.parts, self.inputs, self.owners)

    @cached_property
    def owners(self) -> Mapping[str, str]:
        """Storage of each computed value or input: the name of the value that owns it."""
        found = {value.name: value.name for value in self.graph.variables()}
        for node in self.graph.nodes:
            if node.op.ALIAS and node.inputs[0].data is None:
                found[node.output.name] = found[node.inputs[0].name]
        return found
