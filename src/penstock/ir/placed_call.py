"""PlacedCall: a call of a kernel whose tensors have addresses."""

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
    """Where each row of a tensor begins: addresses in memory number `memory`."""

    memory: int
    addresses: npt.NDArray[np.int64]

    @cached_property
    def steps(self) -> npt.NDArray[np.int64]:
        """From each row to the next one, in bytes."""
        return np.diff(self.addresses)


class Fill(NamedTuple):
    """Constants that a call copies for a later use: their address in the memory of `scratch`, and
    how many bytes."""

    address: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class PlacedCall:
    """Rows [first, end) of the output are computed.

    `inputs`: the node's, None for constants.  `scratch`, `fetched`: addresses of working memory and
    of constants that were fetched before, in memory number `beside`, as those of `fills`, what this
    call fetches."""

    first: int
    end: int
    inputs: tuple[PlacedRows | None, ...]
    output: PlacedRows
    beside: int
    scratch: int | None
    fetched: int | None
    fills: tuple[Fill, ...] = ()


PlacedCost = Callable[[PlacedCall], Breakdown]
"""What a call takes, to the cycle, as its commands are made."""


class Filling(NamedTuple):
    """Constants that a call copies: how many bytes, and whether the call itself reads them."""

    size_bytes: int
    own: bool


FilledCost = Callable[[int, tuple[Filling, ...]], Breakdown]
"""Cycles of a call that also copies constants, by its number of rows."""
