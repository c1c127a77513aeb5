"""Breakdown: cycles of accelerator calls, in total and by hardware resource."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.frozen import frozen

# The name under which a breakdown lists the cycles of cold starts among its resources.
COLD_START = "cold start"


@frozen
class Breakdown:
    """Cycles of one or more calls.

    cycles: elapsed cycles in total.
    by_resource: busy cycles of each resource by name; resources work in parallel, so that the busy
        cycles of one may be hidden by those of another.
    macs_per_cycle: peak multiply-accumulates per cycle; None if the multipliers are not used.
    cold_start: further cycles if the command before the first of these calls does not run on the
        accelerator, so that nothing has been prefetched for the call.
    memory_bytes: bytes that pass through the port of main memory, if the accelerator states them.

    >>> once = Breakdown(12, {"multipliers": 10, "memory": 7}, 64)
    >>> (once + once).cycles, once.limit, once.utilisation(320, 10)
    (24, 'multipliers', 0.5)
    """

    cycles: float
    by_resource: Mapping[str, float] = field(default_factory=dict)
    macs_per_cycle: float | None = None
    cold_start: float = 0.0
    memory_bytes: float = 0.0

    def __add__(self, other: Breakdown) -> Breakdown:
        """The breakdown of both, executed one after the other on the same multipliers."""
        names = dict.fromkeys((*self.by_resource, *other.by_resource))
        mine, others = self.by_resource, other.by_resource
        return Breakdown(
            self.cycles + other.cycles,
            {name: mine.get(name, 0) + others.get(name, 0) for name in names},
            self.macs_per_cycle,
            self.cold_start,
            self.memory_bytes + other.memory_bytes,
        )

    @property
    def cold(self) -> Breakdown:
        """The breakdown of the same calls after a command of another engine."""
        if not self.cold_start:
            return self
        named = {**self.by_resource, COLD_START: self.cold_start}
        return replace(
            self, cycles=self.cycles + self.cold_start, by_resource=named, cold_start=0.0
        )

    @property
    def limit(self) -> str | None:
        """The resource with the most busy cycles (the first of several); None if there is none."""
        return max(self.by_resource, key=self.by_resource.__getitem__, default=None)

    def utilisation(self, macs: int, cycles: float) -> float | None:
        """Utilisation of the multipliers, in [0, 1], by `macs` multiply-accumulates in `cycles`
        cycles; None if they are not used."""
        if self.macs_per_cycle is None or not cycles:
            return None
        return macs / (cycles * self.macs_per_cycle)


# PlacedCall: a kernel call whose tensors have addresses, as cost models see it.


@dataclass(frozen=True)
class PlacedRows:
    """The address of each row of a tensor, in the memory with index `memory`."""

    memory: int
    addresses: npt.NDArray[np.int64]

    @cached_property
    def steps(self) -> npt.NDArray[np.int64]:
        """The distance from each row to the next one, in bytes."""
        return np.diff(self.addresses)


class Fill(NamedTuple):
    """A copy of constants that a call makes for a later call.

    The target is `address` in the memory of `PlacedCall.scratch`; the size is in bytes."""

    address: int
    size_bytes: int


@frozen
class PlacedCall:
    """A call that computes rows [first, end) of its output.

    inputs: rows of the node's inputs; None for constants.
    beside: index of the memory that holds scratch, prefetched constants and copies.
    scratch: address of the working memory, if there is any.
    prefetched: address of constants that an earlier call has prefetched for this one, if any.
    fills: copies of constants that this call makes."""

    first: int
    end: int
    inputs: tuple[PlacedRows | None, ...]
    output: PlacedRows
    beside: int
    scratch: int | None
    prefetched: int | None
    fills: tuple[Fill, ...] = ()


# Cost model of a placed call: its exact cycles, derived from the commands that it emits.
PlacedCost = Callable[[PlacedCall], Breakdown]


class Filling(NamedTuple):
    """A copy of constants by a call without addresses; `own`: the call itself reads the copy."""

    size_bytes: int
    own: bool


# Cost model of a call that also copies constants, by its number of output rows.
FilledCost = Callable[[int, tuple[Filling, ...]], Breakdown]
