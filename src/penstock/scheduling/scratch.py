"""scratch: with how much scratch a cascade may run, and what having no more costs.

The parts of a cascade use one scratch, one after the other.  So where there is room for so many
bytes, each part whose fast kernel needs no more runs that kernel, and the others their lean ones;
and of the rooms that a cascade may have, those between two needs do no good.  A part alone may have
constants fetched, too.  The search takes it that a call of a fast or a lean kernel adds the same,
and that whatever is fetched is waited for; costs of whole schedules are exact (`ahead`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from penstock.ir.op import row_count
from penstock.scheduling.cost import CostModel
from penstock.scheduling.part import Part, Parts
from penstock.scheduling.proposals import Candidate, Valued


class Fetching(NamedTuple):
    """A kernel for which constants are fetched: their bytes and its scratch, and the cycles that
    the part takes more with it, and each call of it."""

    fetched_bytes: int
    scratch_bytes: int
    more: int
    more_a_call: int


@dataclass(frozen=True, slots=True)
class Rooms:
    """By position in an order: scratch that its part cannot do without, what its fast kernel needs,
    the cycles that the lean one takes more, those for which constants are fetched, and rows."""

    least: tuple[int, ...]
    fast: tuple[int, ...]
    slower: tuple[int, ...]
    fetching: tuple[tuple[Fetching, ...], ...]
    rows: tuple[int, ...]

    @staticmethod
    def of(parts: Parts, order: tuple[int, ...], model: CostModel) -> Rooms:
        steps = [parts.parts[k] for k in order]
        return Rooms(
            tuple(part.least_scratch_bytes for part in steps),
            tuple(part.kernel.scratch_bytes for part in steps),
            tuple(_slower(part, model) for part in steps),
            tuple(_fetching(part, model) for part in steps),
            tuple(row_count(part.output.type.shape) for part in steps),
        )

    def valued(
        self, cascade: Candidate, peak_bytes: int, time: int, fine: int = 1
    ) -> Iterator[Valued]:
        """A cascade with each room for scratch; given peak and time, in 1/`fine` cycles, of the one
        with the least room and fast kernels."""
        inside = slice(cascade.lower, cascade.upper)
        least, fast = max(self.least[inside]), self.fast[inside]
        if cascade.upper - cascade.lower == 1:
            yield from self._fetched(cascade, peak_bytes - least, time, fine)
        if max(fast) <= least == cascade.scratch_bytes:  # as almost all are
            yield Valued(cascade, peak_bytes, time)
            return
        for room in sorted({least, *(n for n in fast if n > least)}):
            pairs = zip(fast, self.slower[inside], strict=True)
            more = sum(slower for needed, slower in pairs if needed > room)
            candidate = cascade if room == cascade.scratch_bytes else cascade.within(room)
            yield Valued(candidate, peak_bytes + room - least, time + more * fine)

    def _fetched(self, alone: Candidate, rest_bytes: int, time: int, fine: int) -> Iterator[Valued]:
        """A part alone with each choice of what is fetched for it; what else is alive."""
        position, rows = alone.lower, self.rows[alone.lower]
        calls = -(-rows // min(rows, alone.stripe))
        for number, of in enumerate(self.fetching[position]):
            more = of.more + calls * of.more_a_call
            cascade = replace(alone, scratch_bytes=of.scratch_bytes, fetched=((position, number),))
            peak = rest_bytes + of.scratch_bytes + of.fetched_bytes
            yield Valued(cascade, peak, time + more * fine, fetched_bytes=of.fetched_bytes)


def _fetching(part: Part, model: CostModel) -> tuple[Fetching, ...]:
    found: list[Fetching] = []
    for kernel in part.fetching:
        assert kernel.fetch is not None
        other = part.by(kernel)
        work = model.work_cycles(other) - model.work_cycles(part) + round(kernel.fetch.cycles)
        calls = model.call_cycles(other) - model.call_cycles(part)
        found.append(Fetching(kernel.fetch.size_bytes, kernel.scratch_bytes, work, calls))
    return tuple(found)


def _slower(part: Part, model: CostModel) -> int:
    if part.lean is None:
        return 0
    return model.work_cycles(part.within(0)) - model.work_cycles(part)
