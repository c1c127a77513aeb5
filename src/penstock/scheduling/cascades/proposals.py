"""Candidates and proposals, and the dynamic programme that makes one from the other.

    Candidate    an interval of an execution order, whose parts run as one cascade
    Proposal     candidates that together contain each part of the order once

The peak memory of a proposal is the largest peak of its cascades, its time the sum of their times.
The state at a position of the order is the memory assignment of the tensors that are live there.
For each position and state, `proposals` keeps the Pareto-optimal (peak, time) divisions of the
parts before the position, and extends each by the cascades that begin there.

Source: the `Plan`s and `Proposal`s of TVM RFC 0037.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.pareto import efficient_pairs
from penstock.scheduling.model.cost import CostModel
from penstock.scheduling.model.memories import MemoryAssignment, MemorySystem
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.prefetch import Prefetch
from penstock.scheduling.options import Options
from penstock.scheduling.simulate.walk import WHOLE

Numbers = npt.NDArray[np.int64]
PartOrder = tuple[int, ...]
"""Indices of the parts, in execution order."""


@dataclass(frozen=True, slots=True)
class CascadeProblem:
    """What a search divides into cascades: parts with their costs, memories and options."""

    parts: Parts
    model: CostModel
    memories: MemorySystem
    options: Options

    @property
    def inputs_bytes(self) -> int:
        """Bytes that are live before the first part runs."""
        rows = self.parts.rows
        return sum(rows.storages[k].size_bytes for k in rows.inputs)

    @property
    def work_cycles(self) -> int:
        """Cycles of all parts with their preferred kernels, which `Proposal.time` leaves out."""
        return sum(map(self.model.work_cycles, self.parts.parts))


@dataclass(frozen=True, slots=True)
class Chain:
    """Parts of a cascade that run as a single part, whose intermediate tensors are recomputed.

    parts: indices in `Parts.parts`, in execution order; in the search, positions in the order.
    columns: number of columns of a band; each call computes its rows band by band.
    keeps_halos: whether a band keeps columns that the next one needs, or both compute them.
    """

    parts: tuple[int, ...]
    columns: int
    keeps_halos: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible cascade: the parts at positions [lower, upper) of an order, run interleaved.

    stripe: maximum number of output rows per kernel call; `walk.WHOLE` for all rows.
    memory: memory assignment of the tensors that the cascade computes.
    prefetches: copies of constants to other memory regions, made for this cascade.
    scratch_bytes: size of the scratch buffer that the parts use one after the other.
    band_columns: number of columns of a band, if the whole cascade runs in bands.
    """

    lower: int
    upper: int
    stripe: int
    nearest_first: bool
    memory: MemoryAssignment
    prefetches: tuple[Prefetch, ...] = ()
    scratch_bytes: int = 0
    band_columns: int | None = None
    chains: tuple[Chain, ...] = ()

    @property
    def in_bands(self) -> bool:
        return self.band_columns is not None or bool(self.chains)

    def plan(self, order: PartOrder) -> Plan:
        stripe = None if self.stripe == WHOLE else self.stripe
        parts, scratch = order[self.lower : self.upper], self.scratch_bytes
        return Plan(parts, stripe, self.nearest_first, (), self.prefetches, scratch_bytes=scratch)

    def with_scratch(self, scratch_bytes: int) -> Candidate:
        # called very often, and faster than `dataclasses.replace`
        return Candidate(
            self.lower,
            self.upper,
            self.stripe,
            self.nearest_first,
            self.memory,
            self.prefetches,
            scratch_bytes,
            self.band_columns,
            self.chains,
        )


@dataclass(frozen=True, slots=True)
class ValuedCandidate:
    """A candidate cascade with its estimated cost.

    peak_bytes: live bytes at the peak, in the default memory region.
    time: estimated time beyond the computing time of the parts with their preferred kernels and all
        operands in the default region: call overhead, access times of slow memories, and stalls.
        If other kernels or regions change the computing time, `time` includes the change, so it may
        be negative.  Units: cycles in `UniformSearch`, 1/1024 cycle (1/`FINE`) in `RegionSearch`.
    before, after: memory assignments of the tensors that are live when the cascade begins, and when
        it ends.
    prefetched_bytes: bytes of prefetched constants in the default region.
    """

    candidate: Candidate
    peak_bytes: int
    time: int  # without the computing time, whose sum over all parts is the same in every proposal
    before: MemoryAssignment
    after: MemoryAssignment
    prefetched_bytes: int = 0

    @property
    def tensors_bytes(self) -> int:
        """`peak_bytes` without the bytes of scratch memory and of prefetched constants."""
        return self.peak_bytes - self.candidate.scratch_bytes - self.prefetched_bytes


@dataclass(frozen=True, slots=True)
class Proposal:
    """A division of an execution order into cascades.

    peak_bytes: live bytes at the peak, including scratch memory and prefetched constants.
    tensors_bytes: the same without them.
    time: sum of `ValuedCandidate.time`, in its units.
    """

    order: PartOrder
    peak_bytes: int
    tensors_bytes: int
    time: int
    cascades: tuple[Candidate, ...]

    @staticmethod
    def of(order: PartOrder, cascades: Sequence[ValuedCandidate], inputs_bytes: int) -> Proposal:
        """Run cascades that cover the order; `inputs_bytes` are live before the first one."""
        return Proposal(
            order,
            max((inputs_bytes, *(valued.peak_bytes for valued in cascades))),
            max((inputs_bytes, *(valued.tensors_bytes for valued in cascades))),
            sum(valued.time for valued in cascades),
            tuple(valued.candidate for valued in cascades),
        )


CandidateSource = Callable[[int, Sequence[Iterable[MemoryAssignment]]], Iterable[ValuedCandidate]]
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
    """The Pareto-optimal divisions (covers) of the parts before one position, in one state."""

    peaks: Numbers  # live bytes at the peak of each cover
    times: Numbers
    last: tuple[ValuedCandidate, ...]  # cascades
    # Index of each cover without its last cascade, in the `_Covers` for the position at which this
    # cascade begins, and for the state there.
    before: Numbers

    @staticmethod
    def empty(inputs_bytes: int) -> _Covers:
        zero = np.zeros(1, np.int64)
        return _Covers(np.array([inputs_bytes], np.int64), zero, (), zero)

    @staticmethod
    def extended(
        found: Sequence[Mapping[MemoryAssignment, _Covers]], cascades: Sequence[ValuedCandidate]
    ) -> _Covers:
        """The covers whose last cascade is one of `cascades`, all of one end and one state there.

        found[p]: those of the parts before position p, by state.
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
    cascades: list[ValuedCandidate] = []
    position = len(found) - 1
    while position:
        covers = found[position][state]
        last = covers.last[k]
        cascades.append(last)
        position, state, k = last.candidate.lower, last.before, int(covers.before[k])
    return cascades[::-1]
