"""Candidate: an interval of an execution order of parts, run as one cascade.

The parts of a cascade run interleaved, stripe by stripe.

Proposal: candidates that together cover the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.scheduling.model.memory_assignment import MemoryAssignment
from penstock.scheduling.model.prefetch import Prefetch


@dataclass(frozen=True, slots=True)
class Candidate:
    """Positions [lower, upper) of an execution order as one cascade; becomes a `Plan` when costed.

    stripe: maximum number of output rows per call; `execution.WHOLE` for all rows.
    nearest_first: which missing input of a part is produced first: the one that requires the rows
        of the network's inputs least (True) or most (False) in advance.
    memory: memory assignment of the tensors that the cascade computes.
    prefetches: copies of constants for this cascade.
    scratch_bytes: size of the scratch buffer that the parts share.
    """

    lower: int
    upper: int
    stripe: int
    nearest_first: bool
    memory: MemoryAssignment
    prefetches: tuple[Prefetch, ...] = ()
    scratch_bytes: int = 0

    def with_scratch(self, scratch_bytes: int) -> Candidate:
        """Return a copy with another `scratch_bytes`; faster than `dataclasses.replace`."""
        return Candidate(
            self.lower,
            self.upper,
            self.stripe,
            self.nearest_first,
            self.memory,
            self.prefetches,
            scratch_bytes,
        )


@dataclass(frozen=True, slots=True)
class ValuedCandidate:
    """A candidate with its estimated cost.

    peak_bytes: live bytes at the peak, in the default memory region.
    time: the time that depends on the choice of cascades: call overhead, access times of slow
        memories, stalls, and differences in speed between kernels.  `UniformSearch` computes it in
        cycles, `RegionSearch` in units of 1/`memories.FINE` cycle.
    before, after: memory assignments of the tensors that are live when the cascade begins, and
        when it ends.
    prefetched_bytes: bytes of prefetched constants in the default region.
    """

    candidate: Candidate
    peak_bytes: int
    time: int
    before: MemoryAssignment
    after: MemoryAssignment
    prefetched_bytes: int = 0

    @property
    def tensors_bytes(self) -> int:
        """Live bytes at the peak, minus those of scratch memory and prefetched constants."""
        return self.peak_bytes - self.candidate.scratch_bytes - self.prefetched_bytes


@dataclass(frozen=True, slots=True)
class Proposal:
    """Cascades that cover an execution order.

    order: the execution order, as indices of the parts.
    peak_bytes: maximum, over the cascades, of the live bytes of all buffers.
    tensors_bytes: the same without scratch memory and prefetched constants.
    time: sum of the times of the cascades, in the unit of `ValuedCandidate.time`.
    """

    order: tuple[int, ...]
    peak_bytes: int
    tensors_bytes: int
    time: int
    cascades: tuple[Candidate, ...]

    @staticmethod
    def of(
        order: tuple[int, ...], cascades: Sequence[ValuedCandidate], inputs_bytes: int
    ) -> Proposal:
        """Return the proposal that consists of consecutive cascades, which cover `order`.

        inputs_bytes: live bytes before the first cascade.
        """
        return Proposal(
            order,
            max((inputs_bytes, *(valued.peak_bytes for valued in cascades))),
            max((inputs_bytes, *(valued.tensors_bytes for valued in cascades))),
            sum(valued.time for valued in cascades),
            tuple(valued.candidate for valued in cascades),
        )
