"""proposals: dynamic programming over the positions of an order.

A proposal covers an order with cascades: its peak is the largest of theirs, its cycles are their
sum.  So for each position, and each state in which things may be there, the efficient proposals of
what stands before it are kept, and extended by the cascades that begin there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
Away = tuple[tuple[int, int], ...]
"""(storage, memory) of storages that live in another memory than the first, by number, sorted."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Positions [lower, upper) of an order as one cascade with so much scratch, see Plan; `away`:
    what it computes that lives in another memory than the first; `copied`: (constant, bytes,
    memory) that it copies; `fetched`: (position, number of the kernel of its part) where constants
    are fetched."""

    lower: int
    upper: int
    stripe: int
    nearest_first: bool
    away: Away = ()
    copied: tuple[tuple[str, int, int], ...] = ()
    scratch_bytes: int = 0
    fetched: tuple[tuple[int, int], ...] = ()

    def within(self, scratch_bytes: int) -> Candidate:
        """The same with so much scratch; as `replace`, which takes longer."""
        return Candidate(
            self.lower,
            self.upper,
            self.stripe,
            self.nearest_first,
            self.away,
            self.copied,
            scratch_bytes,
            self.fetched,
        )


@dataclass(frozen=True, slots=True)
class Valued:
    """A candidate with live bytes at its peak, in the first memory, and the time that its calls
    add; it leads from a state to a state: homes of what lives at its ends."""

    candidate: Candidate
    peak_bytes: int
    time: int
    before: Away = ()
    after: Away = ()
    fetched_bytes: int = 0

    @property
    def tensors_bytes(self) -> int:
        """The live bytes but scratch and what is fetched."""
        return self.peak_bytes - self.candidate.scratch_bytes - self.fetched_bytes


@dataclass(frozen=True, slots=True)
class Proposal:
    """Cascades that cover an order: live bytes at the peak, of all and of tensors alone, and the
    time that calls add."""

    order: tuple[int, ...]
    peak_bytes: int
    tensors_bytes: int
    time: int
    cascades: tuple[Candidate, ...]

    @staticmethod
    def of(order: tuple[int, ...], every: Sequence[Valued], inputs_bytes: int) -> Proposal:
        """What these are together; `inputs_bytes` are there before them."""
        return Proposal(
            order,
            max((inputs_bytes, *(valued.peak_bytes for valued in every))),
            max((inputs_bytes, *(valued.tensors_bytes for valued in every))),
            sum(valued.time for valued in every),
            tuple(valued.candidate for valued in every),
        )


Plans = Callable[[int, Sequence[Iterable[Away]]], Iterable[Valued]]
"""(position, states at each position before it) -> the candidates that end there."""


UNLIMITED = 1 << 60
"""More bytes than there are."""


def proposals(
    order: tuple[int, ...], plans: Plans, inputs_bytes: int, limit_bytes: int = UNLIMITED
) -> Iterator[Proposal]:
    """The efficient proposals for an order, but those that need more than the limit;
    `inputs_bytes`: what the caller writes before it."""
    found: list[Mapping[Away, _Kept]] = [{(): _Kept.start(inputs_bytes)}]
    for upper in range(1, len(order) + 1):
        into: dict[Away, list[Valued]] = {}
        for plan in plans(upper, found):
            if plan.peak_bytes <= limit_bytes and plan.before in found[plan.candidate.lower]:
                into.setdefault(plan.after, []).append(plan)
        found.append({after: _Kept.efficient(found, some) for after, some in into.items()})
    for state, end in found[-1].items():
        for k in range(len(end.peaks)):
            yield Proposal.of(order, _chain(found, state, k), inputs_bytes)


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    """The efficient proposals for what stands before a position, in one state: peak and time of
    each, its last cascade, and which of the proposals before that cascade it extends."""

    peaks: Numbers
    times: Numbers
    last: tuple[Valued, ...]
    before: Numbers

    @staticmethod
    def start(inputs_bytes: int) -> _Kept:
        """Nothing has run, in no time; the inputs are there, those that nobody reads, too."""
        zero = np.zeros(1, np.int64)
        return _Kept(np.array([inputs_bytes], np.int64), zero, (), zero)

    @staticmethod
    def efficient(found: Sequence[Mapping[Away, _Kept]], plans: Sequence[Valued]) -> _Kept:
        """The efficient ones of all that the plans make of the proposals before them."""
        heads = [found[plan.candidate.lower][plan.before] for plan in plans]
        sizes = [len(head.peaks) for head in heads]
        pairs = list(zip(heads, plans, strict=True))
        peaks = np.concatenate([np.maximum(head.peaks, p.peak_bytes) for head, p in pairs])
        times = np.concatenate([head.times + p.time for head, p in pairs])
        of = np.repeat(np.arange(len(plans)), sizes)
        before = np.concatenate([np.arange(size) for size in sizes])
        ranked = np.lexsort((of, times, peaks))
        least = np.minimum.accumulate(times[ranked])
        kept = ranked[np.append(True, times[ranked][1:] < least[:-1])]
        return _Kept(peaks[kept], times[kept], tuple(plans[k] for k in of[kept]), before[kept])


def _chain(found: Sequence[Mapping[Away, _Kept]], state: Away, k: int) -> list[Valued]:
    """The cascades of proposal k of the last position in a state, in order."""
    cascades: list[Valued] = []
    position = len(found) - 1
    while position:
        kept = found[position][state]
        last = kept.last[k]
        cascades.append(last)
        position, state, k = last.candidate.lower, last.before, int(kept.before[k])
    return cascades[::-1]
