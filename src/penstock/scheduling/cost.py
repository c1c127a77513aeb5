"""Cost: what running something takes; the one measure of search and report.  CostModel: who knows.

Bytes moved are region bytes per kernel call, not load instructions; multiply-accumulates are
nominal, padding taps included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from penstock.ir.region import Region
from penstock.scheduling.part import Part


@dataclass(frozen=True, slots=True)
class Cost:
    """Cycles, nominal multiply-accumulates, and bytes of regions read and written."""

    cycles: int = 0
    macs: int = 0
    read_bytes: int = 0
    written_bytes: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.cycles + other.cycles,
            self.macs + other.macs,
            self.read_bytes + other.read_bytes,
            self.written_bytes + other.written_bytes,
        )


class CostModel(Protocol):
    """An engine's word on what its parts cost."""

    def cycles(self, part: Part, out: Region) -> int:
        """Cycles that computing region `out` of the part's output takes."""
        ...


def cost_of(part: Part, out: Region, model: CostModel) -> Cost:
    """Cost of computing region `out` of the part's output in one call."""
    node = part.nodes[-1]
    needed = node.op.needs(node.site, out)
    sizes = (
        need.elements * value.type.dtype.size_bytes
        for need, value in zip(needed, node.inputs, strict=True)
    )
    return Cost(
        cycles=model.cycles(part, out),
        macs=node.op.work(node.site, out).macs,
        read_bytes=sum(sizes),
        written_bytes=out.elements * part.output.type.dtype.size_bytes,
    )
