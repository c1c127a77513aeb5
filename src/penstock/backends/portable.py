"""Parts that run C kernels on a processor, and their cycles by a linear model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.backends.cores.registry import core_family
from penstock.backends.cores.selection import select_kernels
from penstock.backends.operator_types import check_element_types
from penstock.hardware.target import CALLER, Engine, Target
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node, whole_work
from penstock.scheduling.model.memory_assignment import MemoryAssignment
from penstock.scheduling.model.part import PULL, Part
from penstock.scheduling.model.parts import Parts


@dataclass(frozen=True, slots=True)
class Processor:
    """A processor's word on what its parts cost; it waits for memories by itself (`Memories`)."""

    engine: Engine

    def work_cycles(self, part: Part, memory: MemoryAssignment | None = None) -> int:
        """Cycles of the part's whole output: linear in products, elements and loops."""
        if not part.nodes:
            return 0
        if part.kernel.work_cycles is not None:
            return part.kernel.work_cycles
        work = whole_work(part.nodes[-1])
        engine = self.engine
        return round(
            work.macs * engine.cycles_per_mac
            + work.elements * engine.cycles_per_element
            + work.loops * engine.cycles_per_loop
        )

    def call_cycles(self, part: Part, memory: MemoryAssignment | None = None) -> int:
        """Cycles that each call adds, at most."""
        return self._call_cycles(part) + part.kernel.odd_cycles

    def cycles(
        self, part: Part, stripes: Sequence[int], memory: MemoryAssignment | None = None
    ) -> int:
        """Cycles of calls, given the number of rows that each computes."""
        odd = sum(rows % 2 for rows in stripes) * part.kernel.odd_cycles
        return self.work_cycles(part) + len(stripes) * self._call_cycles(part) + odd

    def _call_cycles(self, part: Part) -> int:
        """Cycles that a call of an even number of rows adds."""
        known = part.kernel.call_cycles
        return round(self.engine.cycles_per_call) if known is None else known


def assign(graph: Graph, target: Target, *, stream_input: bool = False) -> Parts:
    """One part per computing node, on the accelerator that claims it or the target's first engine.

    With `stream_input`, the first parts stand for the caller, which supplies the inputs row by
    row."""
    engine = target.engines[0]
    pulled = graph.inputs if stream_input else ()
    parts = [part_of(node, engine) for node in graph.nodes if not node.op.ALIAS]
    return Parts(
        graph,
        (*(Part((), CALLER, PULL, value) for value in pulled), *parts),
    )


def part_of(node: Node, processor: Engine) -> Part:
    """The part of one node: its kernels and the engine that runs it.

    Raises ModelError if no kernel computes the node's element types."""
    op, site = node.op, node.site
    if isinstance(op, Composite):
        return Part((node,), op.engine, op.kernel(site), fallback=op.lean, prefetching=op.fetching)
    check_element_types(node)
    selected = select_kernels(op, site, core_family(processor.kernels))
    return Part((node,), processor.name, selected.kernel, fallback=selected.fallback)
