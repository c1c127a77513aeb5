"""Problem: rectangles, alive in time, to be placed in address space; Placement: where they are.

    address
      ^    +-----+
      |    |  b  +--------+      a Buffer is as wide as its life, [lower, upper),
      | +--+-----+   c    |      and as high as its bytes, [offset, offset + size_bytes);
      | |   a    +--------+      no two may overlap; the height of it all is to be least
      +-+--------+------------> time

Time is in ticks, which mean whatever the caller means by them. A tensor, a ring and a single row
of a tensor are each one Buffer here, so problems of several thousand buffers are normal.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from penstock.errors import InternalError

Column = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Buffer:
    """Bytes that are alive in the half-open interval [lower, upper) of ticks."""

    name: str
    lower: int
    upper: int
    size_bytes: int
    alignment: int = 1
    fixed_offset: int | None = None

    def __post_init__(self) -> None:
        wrong = (
            "it must live for at least one tick" if self.lower >= self.upper else
            "it must have at least one byte" if self.size_bytes < 1 else
            "its alignment must be at least 1" if self.alignment < 1 else
            "its fixed offset must not be negative" if (self.fixed_offset or 0) < 0 else
            "its fixed offset must be aligned" if (self.fixed_offset or 0) % self.alignment else
            ""
        )  # fmt: skip
        if wrong:
            raise InternalError("memory-001", f"malformed buffer: {self}", why=wrong)

    def meets(self, other: Buffer) -> bool:
        """Whether both are alive at some tick."""
        return self.lower < other.upper and other.lower < self.upper


@dataclass(frozen=True, slots=True)
class Problem:
    """Buffers to be placed, in at most `capacity_bytes` where that is given."""

    buffers: tuple[Buffer, ...]
    capacity_bytes: int | None = None

    def __post_init__(self) -> None:
        if len({buffer.name for buffer in self.buffers}) < len(self.buffers):
            raise InternalError("memory-002", "two buffers of a problem have the same name")
        fixed = [buffer for buffer in self.buffers if buffer.fixed_offset is not None]
        for a, b in combinations(fixed, 2):
            low, high = sorted((a, b), key=lambda buffer: buffer.fixed_offset or 0)
            if a.meets(b) and (low.fixed_offset or 0) + low.size_bytes > (high.fixed_offset or 0):
                raise InternalError("memory-003", f"fixed buffers overlap: {low.name}, {high.name}")


@dataclass(frozen=True, slots=True)
class Placement:
    """The offset of every buffer, in the problem's order, and what is known of their quality."""

    offsets: tuple[tuple[str, int], ...]
    height_bytes: int
    bound_bytes: int  # proven: no placement is lower than this
    method: str
    nodes: int = 0  # work that the exact search spent

    @property
    def optimal(self) -> bool:
        """Whether it is proven that no placement is lower."""
        return self.height_bytes == self.bound_bytes

    @property
    def gap(self) -> float:
        """0.0 where proven optimal, else how far the height is above the bound, as a fraction."""
        return (self.height_bytes - self.bound_bytes) / max(self.bound_bytes, 1)


@dataclass(frozen=True, slots=True)
class Peak:
    """The tick at which the live buffers need most, what they need, and who they are."""

    tick: int
    size_bytes: int
    names: tuple[str, ...]


def round_up(value: int, multiple: int) -> int:
    """The least multiple of `multiple` that is not below `value`."""
    return -(-value // multiple) * multiple


def stacked_bytes(buffers: tuple[Buffer, ...]) -> int:
    """Least height of buffers that are all alive at one tick: a lower bound.

    All offsets are multiples of g, the greatest common divisor of the alignments, so every buffer
    but the topmost fills whole multiples of g. The bound lets the one that gains most be topmost.
    """
    if not buffers:
        return 0
    alignments = np.array([buffer.alignment for buffer in buffers])
    sizes = np.array([buffer.size_bytes for buffer in buffers])
    return max(_stacked(sizes, alignments), _fixed_height(buffers))


def live_peak(problem: Problem) -> Peak:
    """The tick of greatest need; the earliest of equals. An empty problem peaks at 0."""
    buffers = problem.buffers
    lower, upper, sizes, alignments = columns(buffers)
    best = Peak(0, 0, ())
    for tick in sorted({buffer.lower for buffer in buffers}):
        live = (lower <= tick) & (tick < upper)
        need = _stacked(sizes[live], alignments[live])
        if need > best.size_bytes:
            names = tuple(buffers[i].name for i in np.flatnonzero(live))
            best = Peak(tick, need, names)
    return best


def peak_live_bytes(problem: Problem) -> int:
    """No placement is lower than this: live bytes at the peak, or where fixed buffers reach to."""
    return max(live_peak(problem).size_bytes, _fixed_height(problem.buffers))


def _stacked(sizes: Column, alignments: Column) -> int:
    grain = int(np.gcd.reduce(alignments))
    padding = -sizes % grain
    return int(sizes.sum() + padding.sum() - padding.max())


def _fixed_height(buffers: tuple[Buffer, ...]) -> int:
    fixed = (b.fixed_offset + b.size_bytes for b in buffers if b.fixed_offset is not None)
    return max(fixed, default=0)


def columns(buffers: tuple[Buffer, ...]) -> tuple[Column, Column, Column, Column]:
    """The buffers' lowers, uppers, sizes and alignments."""
    rows = [(b.lower, b.upper, b.size_bytes, b.alignment) for b in buffers]
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return table[:, 0], table[:, 1], table[:, 2], table[:, 3]
