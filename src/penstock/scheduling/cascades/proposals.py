"""Candidates and proposals, and the dynamic programme that makes one from the other.

    Candidate    a plan of an interval of an execution order, with its estimated cost
    Proposal     plans that together run each part of the order once

The peak memory of a proposal is the largest peak of its cascades, its time the sum of their times.
The state at a position of the order is the memory assignment of the tensors that are live there.
For each position and state, `proposals` keeps the Pareto-optimal (peak, time) divisions of the
parts before the position, and extends each by the cascades that begin there.

Source: the `Plan`s and `Proposal`s of TVM RFC 0037.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from penstock.frozen import frozen
from penstock.pareto import efficient_pairs
from penstock.scheduling.model.cost import CostModel
from penstock.scheduling.model.memories import MemoryAssignment, MemorySystem
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.options import Options

Numbers = npt.NDArray[np.int64]
PartOrder = tuple[int, ...]
"""Indices of the parts, in execution order."""


@frozen
class CascadeProblem:
    """What a search divides into cascades: parts with their costs, memories and options."""

    parts: Parts
    model: CostModel
    memories: MemorySystem
    options: Options

    @property
    def work_cycles(self) -> int:
        """Cycles of all parts with their preferred kernels, which `Proposal.time` leaves out."""
        return sum(map(self.model.work_cycles, self.parts.parts))


@frozen
class Candidate:
    """A possible cascade, with its estimated cost.

    lower, upper: it runs the parts at positions [lower, upper) of the order.
    plan: how it runs them, without costs.
    memory: memory assignment of the tensors that the cascade computes.
    peak_bytes: live bytes at the peak, in the default memory region.
    time: estimated time beyond the computing time of the parts with their preferred kernels and all
        operands in the default region: call overhead, access times of slow memories, and stalls.
        If other kernels or regions change the computing time, `time` includes the change, so it may
        be negative.  Units: cycles in `UniformSearch`, 1/1024 cycle (1/`FINE`) in `RegionSearch`.
    before, after: memory assignments of the tensors that are live when the cascade begins, and when
        it ends.
    prefetched_bytes: bytes of prefetched constants in the default region.
    """

    lower: int
    upper: int
    plan: Plan
    memory: MemoryAssignment
    peak_bytes: int
    time: int  # without the computing time, whose sum over all parts is the same in every proposal
    before: MemoryAssignment
    after: MemoryAssignment
    prefetched_bytes: int = 0

    @property
    def tensors_bytes(self) -> int:
        """`peak_bytes` without the bytes of scratch memory and of prefetched constants."""
        return self.peak_bytes - self.plan.scratch_bytes - self.prefetched_bytes


@frozen
class Proposal:
    """A division of an execution order into cascades.

    peak_bytes: live bytes at the peak, including scratch memory and prefetched constants.
    tensors_bytes: the same without them.
    time: sum of `Candidate.time`, in its units.
    memory: memory assignment of all tensors.
    """

    order: PartOrder
    peak_bytes: int
    tensors_bytes: int
    time: int
    plans: tuple[Plan, ...]
    memory: MemoryAssignment

    @staticmethod
    def of(
        order: PartOrder,
        cascades: Sequence[Candidate],
        memory: MemoryAssignment,
        inputs_bytes: int,
    ) -> Proposal:
        """Run cascades that cover the order; `inputs_bytes` are live before the first one."""
        return Proposal(
            order,
            max((inputs_bytes, *(cascade.peak_bytes for cascade in cascades))),
            max((inputs_bytes, *(cascade.tensors_bytes for cascade in cascades))),
            sum(cascade.time for cascade in cascades),
            tuple(cascade.plan for cascade in cascades),
            memory,
        )


CandidateSource = Callable[[int, Sequence[Iterable[MemoryAssignment]]], Iterable[Candidate]]
"""Function (upper, states) -> the candidates that end at position `upper`, exclusive.

states[p]: the memory assignments that are reached at position p, for each p < upper.
"""


def proposals(
    order: PartOrder,
    candidates: CandidateSource,
    start: MemoryAssignment,
    inputs_bytes: int,
    limit_bytes: float = math.inf,
) -> Iterator[Proposal]:
    """Yield the Pareto-optimal proposals (peak memory against time) for one execution order.

    start, inputs_bytes: memory assignment and live bytes before the first part.
    limit_bytes: cascades with more live bytes at the peak are dropped.
    """
    found: list[Mapping[MemoryAssignment, _Covers]] = [{start: _Covers.empty(inputs_bytes)}]
    for upper in range(1, len(order) + 1):
        into: dict[MemoryAssignment, list[tuple[_Covers, Candidate]]] = {}
        for valued in candidates(upper, found):
            head = found[valued.lower].get(valued.before)
            if head is not None and valued.peak_bytes <= limit_bytes:
                into.setdefault(valued.after, []).append((head, valued))
        found.append({after: _Covers.extended(pairs) for after, pairs in into.items()})
    for state, end in found[-1].items():
        for k in range(len(end.peaks)):
            cascades = _cascades(found, state, k)
            memory = start.extended(pair for c in cascades for pair in c.memory.exceptions)
            yield Proposal.of(order, cascades, memory, inputs_bytes)


@frozen(eq=False)
class _Covers:
    """The Pareto-optimal divisions (covers) of the parts before one position, in one state."""

    peaks: Numbers  # live bytes at the peak of each cover
    times: Numbers
    last: tuple[Candidate, ...]  # cascades
    # Index of each cover without its last cascade, in the `_Covers` for the position at which this
    # cascade begins, and for the state there.
    before: Numbers

    @staticmethod
    def empty(inputs_bytes: int) -> _Covers:
        zero = np.zeros(1, np.int64)
        return _Covers(np.array([inputs_bytes], np.int64), zero, (), zero)

    @staticmethod
    def extended(pairs: Sequence[tuple[_Covers, Candidate]]) -> _Covers:
        """The covers that end with a cascade after those before it, all of one end and one state
        there."""
        heads, cascades = zip(*pairs, strict=True)
        sizes = [len(head.peaks) for head in heads]
        begins = np.cumsum([0, *sizes])
        own_peaks = np.repeat([cascade.peak_bytes for cascade in cascades], sizes)
        own_times = np.repeat([cascade.time for cascade in cascades], sizes)
        peaks = np.maximum(np.concatenate([head.peaks for head in heads]), own_peaks)
        times = np.concatenate([head.times for head in heads]) + own_times
        kept = efficient_pairs(peaks, times)
        last = np.searchsorted(begins, kept, side="right") - 1
        ends = tuple(cascades[k] for k in last)
        return _Covers(peaks[kept], times[kept], ends, kept - begins[last])


def _cascades(
    found: Sequence[Mapping[MemoryAssignment, _Covers]], state: MemoryAssignment, k: int
) -> list[Candidate]:
    cascades: list[Candidate] = []
    position = len(found) - 1
    while position:
        covers = found[position][state]
        last = covers.last[k]
        cascades.append(last)
        position, state, k = last.lower, last.before, int(covers.before[k])
    return cascades[::-1]
