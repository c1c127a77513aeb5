"""Cost: what running something takes; the one measure of search and report.  CostModel: who knows.

Bytes moved are region bytes per kernel call, not load instructions; multiply-accumulates are
nominal, padding taps included, without those of channels that a kernel need not compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.scheduling.part import Part

Bytes = tuple[tuple[str, int], ...]
"""Bytes by name of a memory, sorted; memories without any are left out."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Cycles, kernel calls, nominal multiply-accumulates, and bytes of regions read and written.

    `constant_macs`: multiply-accumulates not executed, since their results are constant."""

    cycles: int = 0
    calls: int = 0
    macs: int = 0
    read_bytes: Bytes = ()
    written_bytes: Bytes = ()
    constant_macs: int = 0

    @property
    def nominal_macs(self) -> int:
        """Multiply-accumulates as if every channel were computed."""
        return self.macs + self.constant_macs

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.cycles + other.cycles,
            self.calls + other.calls,
            self.macs + other.macs,
            added(self.read_bytes, other.read_bytes),
            added(self.written_bytes, other.written_bytes),
            self.constant_macs + other.constant_macs,
        )


NOTHING = Cost()


Around = tuple[str, ...]
"""Where the tensors of a part live: (), or, for each of its inputs and for its output, the name of
a memory, "" for the first one, and for what is constant."""


class CostModel(Protocol):
    """An engine's word on what its parts cost, in cycles, by where their tensors live."""

    def work_cycles(self, part: Part, around: Around = ()) -> int:
        """What computing the part's whole output takes, in however many calls."""
        ...

    def call_cycles(self, part: Part, around: Around = ()) -> int:
        """What each call adds."""
        ...

    def cycles(self, part: Part, stripes: Sequence[int], around: Around = ()) -> int:
        """What calls take that compute so many rows each, and together the whole output."""
        ...


def added(one: Bytes, other: Bytes) -> Bytes:
    """The sum, memory by memory."""
    if not one or not other:
        return one or other
    found = dict(one)
    for memory, size in other:
        found[memory] = found.get(memory, 0) + size
    return tuple(sorted(found.items()))


def total(sizes: Bytes) -> int:
    """Bytes of all memories."""
    return sum(size for _, size in sizes)
