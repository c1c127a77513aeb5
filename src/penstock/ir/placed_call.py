"""PlacedCall: a kernel call whose tensors have addresses, as cost models see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.ir.breakdown import Breakdown


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


@dataclass(frozen=True, slots=True)
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


PlacedCost = Callable[[PlacedCall], Breakdown]
"""Cost model of a placed call: its exact cycles, derived from the commands that it emits."""


class Filling(NamedTuple):
    """A copy of constants by a call without addresses; `own`: the call itself reads the copy."""

    size_bytes: int
    own: bool


FilledCost = Callable[[int, tuple[Filling, ...]], Breakdown]
"""Cost model of a call that also copies constants, by its number of output rows."""
