"""scratch: with how much scratch a cascade may run, and what having no more costs.

The parts of a cascade use one scratch, one after the other.  So where there is room for so many
bytes, each part whose fast kernel needs no more runs that kernel, and the others their lean ones;
and of the rooms that a cascade may have, those between two needs do no good.  The search takes it
that a call of either kernel adds the same; costs of whole schedules are exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from penstock.scheduling.cost import CostModel
from penstock.scheduling.part import Part, Parts
from penstock.scheduling.proposals import Candidate, Valued


@dataclass(frozen=True, slots=True)
class Rooms:
    """By position in an order: scratch that its part cannot do without, what its fast kernel needs,
    and the cycles that the lean one takes more."""

    least: tuple[int, ...]
    fast: tuple[int, ...]
    slower: tuple[int, ...]

    @staticmethod
    def of(parts: Parts, order: tuple[int, ...], model: CostModel) -> Rooms:
        steps = [parts.parts[k] for k in order]
        return Rooms(
            tuple(part.least_scratch_bytes for part in steps),
            tuple(part.kernel.scratch_bytes for part in steps),
            tuple(_slower(part, model) for part in steps),
        )

    def valued(
        self, cascade: Candidate, peak_bytes: int, time: int, fine: int = 1
    ) -> Iterator[Valued]:
        """A cascade with each room for scratch; given peak and time, in 1/`fine` cycles, of the one
        with the least room and fast kernels."""
        inside = slice(cascade.lower, cascade.upper)
        least, fast = max(self.least[inside]), self.fast[inside]
        if max(fast) <= least == cascade.scratch_bytes:  # as almost all are
            yield Valued(cascade, peak_bytes, time)
            return
        for room in sorted({least, *(n for n in fast if n > least)}):
            pairs = zip(fast, self.slower[inside], strict=True)
            more = sum(slower for needed, slower in pairs if needed > room)
            yield Valued(
                replace(cascade, scratch_bytes=room), peak_bytes + room - least, time + more * fine
            )


def _slower(part: Part, model: CostModel) -> int:
    if part.lean is None:
        return 0
    return model.work_cycles(part.within(0)) - model.work_cycles(part)
