"""Parts: a graph split into parts (nodes with engine and kernels), in the graph's order.

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
    """A node that no accelerator claims: the reason, and its estimated cycles on the processor."""

    node: Node
    reason: str
    cycles: int


@dataclass(frozen=True, repr=False)
class Parts(Brief):
    """A graph split into parts (nodes with engine and kernels), in the graph's order.

    parts: one per node that computes something, and one per streamed input (a network input whose
        rows the caller supplies during the run).
    accelerators: names of the accelerators.
    cpu_fallbacks: the nodes that no accelerator claims; empty without accelerators.
    """

    graph: Graph
    parts: tuple[Part, ...]
    accelerators: tuple[str, ...] = ()
    cpu_fallbacks: tuple[CpuFallback, ...] = ()

    @property
    def inputs(self) -> tuple[Value, ...]:
        """Graph inputs that are in memory before the first part runs.

        Streamed inputs, whose rows the caller supplies during the run, are left out.
        """
        streamed = {part.name for part in self.parts if part.streamed_input is not None}
        return tuple(v for v in self.graph.inputs if v.name not in streamed)

    @cached_property
    def can_prefetch(self) -> bool:
        """Whether any part has a kernel that reads prefetched constants."""
        return any(part.prefetching for part in self.parts)

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of all values of the graph; no other buffer may have one of them."""
        return self.graph.names()

    @cached_property
    def rows(self) -> RowParts:
        """Which rows of its inputs every part reads to compute the rows of its output."""
        return row_parts(self.graph, self.parts, self.inputs, self.owners)

    @cached_property
    def owners(self) -> Mapping[str, str]:
        """Name of the storage (memory block) of each value that is not a constant, by value name.

        A storage has the name of the tensor that owns it.  Aliases share the storage: if `y` is a
        reshaped view of `x`, both have the entry "x".
        """
        found = {value.name: value.name for value in self.graph.variables()}
        for node in self.graph.nodes:
            if node.op.ALIAS and node.inputs[0].data is None:
                found[node.output.name] = found[node.inputs[0].name]
        return found
