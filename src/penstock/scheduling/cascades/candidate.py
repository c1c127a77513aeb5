"""Candidate and Proposal: ways to run a network's parts that the search compares.

A part is one or more nodes that run as a unit.  The parts of a cascade run interleaved, a few
output rows at a time.

    Candidate    consecutive parts of an execution order, run as one cascade
    Proposal     candidates that together contain each part of an execution order once
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.scheduling.model.memories import MemoryAssignment
from penstock.scheduling.model.prefetch import Prefetch


@dataclass(frozen=True, slots=True)
class Chain:
    """Parts of a cascade that run as a single part, whose intermediate tensors are recomputed.

    parts: indices in `Parts.parts`, in execution order.
    columns: number of columns of a band; each call computes its rows band by band.
    keeps_halos: whether a band keeps its columns that the next band also needs; if not, both bands
        compute them.
    """

    parts: tuple[int, ...]
    columns: int
    keeps_halos: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible cascade: the parts at positions [lower, upper) of an order, run interleaved.

    stripe: maximum number of output rows per kernel call; `execution.WHOLE` for all rows.
    nearest_first: which input is produced first if several inputs of a part lack rows: the one with
        the smallest advance if True, the one with the largest if False.  The advance of a tensor is
        high if its first rows require many rows of the network's inputs.
    memory: memory assignment of the tensors that the cascade computes.
    prefetches: copies of constants to other memory regions, made for this cascade.
    scratch_bytes: size of the scratch buffer that the parts use one after the other.
    band_columns: number of columns of a band, if the cascade runs in bands of columns.
    chains: parts that run as a single part of the cascade, whose intermediate tensors are
        recomputed.
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
        """Whether some parts run in bands of columns."""
        return self.band_columns is not None or bool(self.chains)

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
    """A division of an execution order into cascades, whose parts run interleaved.

    The `Proposal` of TVM RFC 0037: disjoint plans that cover the graph.

    order: the execution order, as indices of the parts.
    peak_bytes: live bytes at the peak, including scratch memory and prefetched constants.
    tensors_bytes: live bytes at the peak, without scratch memory and prefetched constants.
    time: sum of `ValuedCandidate.time` over the cascades; in cycles from `UniformSearch`, in units
        of 1/1024 cycle from `RegionSearch`.
    cascades: the cascades, in execution order.
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
        """Return the proposal that runs the given cascades one after the other.

        order: the execution order, as indices of the parts.  The cascades cover it without gaps.
        inputs_bytes: live bytes before the first cascade.
        """
        return Proposal(
            order,
            max((inputs_bytes, *(valued.peak_bytes for valued in cascades))),
            max((inputs_bytes, *(valued.tensors_bytes for valued in cascades))),
            sum(valued.time for valued in cascades),
            tuple(valued.candidate for valued in cascades),
        )
