"""Combine candidate cascades into proposals, by dynamic programming over an execution order.

A cascade is an interval of the order.  A proposal divides the whole order into cascades: its peak
memory is the largest peak of its cascades, and its time is the sum of their times.

The state at a position of the order is the memory assignment of the tensors that are live there.
For each position and state, the search keeps the Pareto-optimal (peak, time) divisions of the parts
before the position.  Each such division is extended by the cascades that begin at the position.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.pareto import efficient_pairs
from penstock.scheduling.cascades.candidate import Proposal, ValuedCandidate
from penstock.scheduling.model.memories import MemoryAssignment

Numbers = npt.NDArray[np.int64]
CandidateSource = Callable[[int, Sequence[Iterable[MemoryAssignment]]], Iterable[ValuedCandidate]]
"""Function (upper, states) -> the candidates that end at position `upper`, exclusive.

states[p]: the memory assignments that are reached at position p, for each p < upper.
"""


def proposals(
    order: tuple[int, ...],
    candidates: CandidateSource,
    start: MemoryAssignment,
    inputs_bytes: int,
    limit_bytes: float = math.inf,
) -> Iterator[Proposal]:
    """Yield the Pareto-optimal proposals (peak memory against time) for one execution order.

    A proposal divides the order into cascades.
    order: the execution order, as indices of the parts.
    candidates: function (upper, states) that yields the candidate cascades that end at position
        `upper`, exclusive.  states[p]: the memory assignments of the live tensors with which a
        cascade can begin at position p.
    start, inputs_bytes: memory assignment and live bytes before the first part.
    limit_bytes: cascades with more live bytes at the peak are dropped; by default, none are.
    """
    found: list[Mapping[MemoryAssignment, _Covers]] = [{start: _Covers.empty(inputs_bytes)}]
    for upper in range(1, len(order) + 1):
        into: dict[MemoryAssignment, list[ValuedCandidate]] = {}
        for valued in candidates(upper, found):
            if valued.peak_bytes <= limit_bytes and valued.before in found[valued.candidate.lower]:
                into.setdefault(valued.after, []).append(valued)
        found.append({after: _Covers.extended(found, some) for after, some in into.items()})
    for state, end in found[-1].items():
        for k in range(len(end.peaks)):
            yield Proposal.of(order, _cascades(found, state, k), inputs_bytes)


@dataclass(frozen=True, slots=True, eq=False)
class _Covers:
    """The Pareto-optimal divisions of the parts before one position into cascades, in one state.

    Such a division is called a cover.  The state is the memory assignment of the tensors that are
    live at the position.  Entry k of each field describes cover k.

    peaks, times: live bytes at the peak, and estimated time.
    last: the last cascade.
    before: index of the cover that remains without the last cascade.  The index refers to the
        `_Covers` for the position at which the last cascade begins, and for the state there.
    """

    peaks: Numbers
    times: Numbers
    last: tuple[ValuedCandidate, ...]
    before: Numbers

    @staticmethod
    def empty(inputs_bytes: int) -> _Covers:
        """Return the only division of an empty sequence of parts into cascades.

        It has no cascades and takes no time; only the network inputs are live.
        inputs_bytes: bytes of the network inputs.
        """
        zero = np.zeros(1, np.int64)
        return _Covers(np.array([inputs_bytes], np.int64), zero, (), zero)

    @staticmethod
    def extended(
        found: Sequence[Mapping[MemoryAssignment, _Covers]], cascades: Sequence[ValuedCandidate]
    ) -> _Covers:
        """Return the Pareto-optimal covers whose last cascade is one of `cascades`.

        A cover divides the parts before some position into cascades.  Its state is the memory
        assignment of the tensors that are live at that position.
        found[p]: the covers of the parts before position p, by state.
        cascades: cascades that end at the same position, in the same state.
        """
        heads = [found[valued.candidate.lower][valued.before] for valued in cascades]
        sizes = [len(head.peaks) for head in heads]
        pairs = list(zip(heads, cascades, strict=True))
        peaks = np.concatenate([np.maximum(head.peaks, v.peak_bytes) for head, v in pairs])
        times = np.concatenate([head.times + v.time for head, v in pairs])
        last = np.repeat(np.arange(len(cascades)), sizes)
        before = np.concatenate([np.arange(size) for size in sizes])
        kept = efficient_pairs(peaks, times)
        return _Covers(
            peaks[kept], times[kept], tuple(cascades[k] for k in last[kept]), before[kept]
        )


def _cascades(
    found: Sequence[Mapping[MemoryAssignment, _Covers]], state: MemoryAssignment, k: int
) -> list[ValuedCandidate]:
    """Return the cascades of one cover (division into cascades) of all parts, in execution order.

    found[p]: the covers of the parts before position p, by the memory assignment of the tensors
        that are live at p.
    k: index of the cover in `found[-1][state]`.
    """
    cascades: list[ValuedCandidate] = []
    position = len(found) - 1
    while position:
        covers = found[position][state]
        last = covers.last[k]
        cascades.append(last)
        position, state, k = last.candidate.lower, last.before, int(covers.before[k])
    return cascades[::-1]
