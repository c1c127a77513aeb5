"""C kernels on a processor: portable ones take every operator; cycles by a linear model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.backends.cortex_m.figures import priced
from penstock.backends.cortex_m.variants import kernels_for
from penstock.hardware.target import Engine, Target
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node, whole_work
from penstock.scheduling.cost import Around
from penstock.scheduling.part import PULL, Part, Parts

CALLER = "caller"
"""The engine of what the caller does."""


@dataclass(frozen=True, slots=True)
class Processor:
    """A processor's word on what its parts cost; it waits for memories by itself (`Memories`)."""

    engine: Engine

    def work_cycles(self, part: Part, around: Around = ()) -> int:
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

    def call_cycles(self, part: Part, around: Around = ()) -> int:
        """Cycles that each call adds, at most."""
        return self._call_cycles(part) + part.kernel.odd_cycles

    def cycles(self, part: Part, stripes: Sequence[int], around: Around = ()) -> int:
        """Cycles of calls, given the number of rows that each computes."""
        odd = sum(rows % 2 for rows in stripes) * part.kernel.odd_cycles
        return self.work_cycles(part) + len(stripes) * self._call_cycles(part) + odd

    def _call_cycles(self, part: Part) -> int:
        """Cycles that a call of an even number of rows adds."""
        known = part.kernel.call_cycles
        return round(self.engine.cycles_per_call) if known is None else known


def assign(graph: Graph, target: Target, *, stream_input: bool = False) -> Parts:
    """Every node that computes, as a part of its own, on the accelerator that claims it or on the
    target's first engine; and before them, with `stream_input`, the caller who hands over the
    inputs row by row."""
    engine = target.engines[0]
    pulled = graph.inputs if stream_input else ()
    parts = [part_of(node, engine) for node in graph.nodes if not node.op.ALIAS]
    return Parts(
        graph,
        (*(Part((), CALLER, PULL, value) for value in pulled), *parts),
    )


def part_of(node: Node, processor: Engine) -> Part:
    """A node with the kernels that serve it, on the engine that runs it."""
    op, site = node.op, node.site
    if isinstance(op, Composite):
        return Part((node,), op.engine, op.kernel(site), lean=op.lean, fetching=op.fetching)
    kernel, lean = kernels_for(op, site, processor.kernels)
    kernel = priced(op, site, kernel, processor.kernels)
    lean = lean and priced(op, site, lean, processor.kernels)
    return Part((node,), processor.name, kernel, lean=lean)
