"""Portable C kernels on a processor: takes every operator; cycles by a linear model."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.hardware.target import Engine, Target
from penstock.ir.graph import Graph
from penstock.ir.region import Region
from penstock.scheduling.part import Part, Parts


@dataclass(frozen=True, slots=True)
class Processor:
    """A processor's word on what its parts cost."""

    engine: Engine

    def cycles(self, part: Part, out: Region) -> int:
        """Cycles that computing region `out` takes: linear in products, elements and calls."""
        node = part.nodes[-1]
        work = node.op.work(node.site, out)
        engine = self.engine
        return round(
            work.macs * engine.cycles_per_mac
            + work.elements * engine.cycles_per_element
            + work.loops * engine.cycles_per_loop
            + engine.cycles_per_call
        )


def assign(graph: Graph, target: Target) -> Parts:
    """Every node that computes, as a part of its own on the target's first engine."""
    engine = target.engines[0]
    return Parts(
        graph,
        tuple(
            Part((node,), engine.name, node.op.kernel(node.site))
            for node in graph.nodes
            if not node.op.ALIAS
        ),
    )
