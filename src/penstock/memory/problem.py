"""Problem: rectangles, alive in time, to be placed in address space; Placement: where they are.

    address
      ^    +-----+
      |    |  b  +--------+      a Buffer is as wide as its life, [lower, upper),
      | +--+-----+   c    |      and as high as its bytes, [offset, offset + size_bytes);
      | |   a    +--------+      no two may overlap; the height of it all is to be least
      +-+--------+------------> time

Time is in ticks, which mean whatever the caller means by them. A tensor, a ring and a single row
of a tensor are each one Buffer here, so problems of several thousand buffers are normal.

Rows that have to lie in a row are *tied* to the first of them, their anchor: they live and die one
by one, but keep their distances. A Buffer and all that is tied to it are a *shape*:

    address
      ^       +----------+    r2, tied to r0 at distance 2 * pitch
      |    +--+----------+    r1, tied to r0 at distance pitch
      | +--+-------------+    r0, the anchor
      +------------------> time
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from penstock.brief import Brief
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
    anchor: str | None = None  # name of the buffer above whose offset it lies by exactly ..
    distance_bytes: int = 0

    def __post_init__(self) -> None:
        wrong = (
            "it must live for at least one tick" if self.lower >= self.upper else
            "it must have at least one byte" if self.size_bytes < 1 else
            "its alignment must be at least 1" if self.alignment < 1 else
            "its fixed offset must not be negative" if (self.fixed_offset or 0) < 0 else
            "its fixed offset must be aligned" if (self.fixed_offset or 0) % self.alignment else
            "its distance must not be negative" if self.distance_bytes < 0 else
            "its distance must be aligned" if self.distance_bytes % self.alignment else
            "without an anchor it has no distance" if self.distance_bytes and not self.tied else
            "it is either tied or fixed" if self.tied and self.fixed_offset is not None else
            ""
        )  # fmt: skip
        if wrong:
            raise InternalError("memory-001", f"malformed buffer: {self}", why=wrong)

    @property
    def tied(self) -> bool:
        """Whether it lies at a fixed distance above another."""
        return self.anchor is not None

    def meets(self, other: Buffer) -> bool:
        """Whether both are alive at some tick."""
        return self.lower < other.upper and other.lower < self.upper


@dataclass(frozen=True, slots=True, repr=False)
class Problem(Brief):
    """Buffers to be placed, in at most `capacity_bytes` where that is given."""

    buffers: tuple[Buffer, ...]
    capacity_bytes: int | None = None

    def __post_init__(self) -> None:
        if len({buffer.name for buffer in self.buffers}) < len(self.buffers):
            raise InternalError("memory-002", "two buffers of a problem have the same name")
        _refuse_bad_anchors(self.buffers)
        for shape in shapes(self.buffers):
            if clash := _clash([(buffer.distance_bytes, buffer) for buffer in shape]):
                raise InternalError("memory-008", f"buffers of one shape overlap: {clash}")
        if clash := _clash(list(_fixed(self.buffers))):
            raise InternalError("memory-003", f"fixed buffers overlap: {clash}")


@dataclass(frozen=True, slots=True, repr=False)
class Placement(Brief):
    """The offset of every buffer, in the problem's order, and what is known of their quality."""

    offsets: tuple[tuple[str, int], ...]
    height_bytes: int
    bound_bytes: int  # proven: no placement is lower than this
    method: str
    nodes: int = 0  # work that the search spent: attempts if exact, comparisons if by rows

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
    return max(_stacked(sizes, alignments), _reach(buffers))


def live_peak(problem: Problem) -> Peak:
    """The tick of greatest need; the earliest of equals. An empty problem peaks at 0."""
    buffers = problem.buffers
    if not buffers:
        return Peak(0, 0, ())
    lower, upper, sizes, alignments = columns(buffers)
    ticks = np.unique(lower)
    # The need lies between the plain sum and that of sizes rounded up, and mostly is both.
    needs = _live_sums(ticks, lower, upper, sizes)
    most = _live_sums(ticks, lower, upper, sizes + -sizes % alignments)
    for i in np.flatnonzero(most > needs).tolist():
        if most[i] >= needs.max():
            live = (lower <= ticks[i]) & (ticks[i] < upper)
            needs[i] = _stacked(sizes[live], alignments[live])
    peak = int(needs.argmax())
    live = (lower <= ticks[peak]) & (ticks[peak] < upper)
    names = tuple(buffers[i].name for i in np.flatnonzero(live).tolist())
    return Peak(int(ticks[peak]), int(needs[peak]), names)


def peak_live_bytes(problem: Problem) -> int:
    """No placement is lower: live bytes at the peak, or where fixed or tied buffers reach to."""
    return max(live_peak(problem).size_bytes, _reach(problem.buffers))


def shapes(buffers: tuple[Buffer, ...]) -> tuple[tuple[Buffer, ...], ...]:
    """Buffers by what keeps its distances: each untied one, followed by those tied to it."""
    found = {buffer.name: [buffer] for buffer in buffers if buffer.anchor is None}
    for buffer in buffers:
        if buffer.anchor is not None:
            found[buffer.anchor].append(buffer)
    return tuple(tuple(shape) for shape in found.values())


def refuse_ties(problem: Problem, who: str) -> None:
    """Raises InternalError where a buffer is tied: `who` would not heed it."""
    tied = next((buffer for buffer in problem.buffers if buffer.tied), None)
    if tied is not None:
        raise InternalError("memory-009", f"{who} takes no tied buffers, as {tied.name} is")


def _refuse_bad_anchors(buffers: tuple[Buffer, ...]) -> None:
    untied = {buffer.name for buffer in buffers if not buffer.tied}
    for buffer in buffers:
        if buffer.anchor is not None and buffer.anchor not in untied:
            raise InternalError(
                "memory-007",
                f"{buffer.name} is tied to {buffer.anchor}",
                why="an anchor is a buffer of the problem, and not tied itself",
            )


def _clash(placed: list[tuple[int, Buffer]]) -> str:
    """The names of two buffers that overlap, the lower one first; empty if none do."""
    placed.sort(key=lambda pair: pair[0])
    for i, (at, low) in enumerate(placed):
        for above, high in placed[i + 1 :]:
            if above >= at + low.size_bytes:
                break  # and so are all that follow
            if low.meets(high):
                return f"{low.name}, {high.name}"
    return ""


def _fixed(buffers: tuple[Buffer, ...]) -> Iterator[tuple[int, Buffer]]:
    """Buffers whose offsets are given, by themselves or by their anchors, and these offsets."""
    given = {b.name: b.fixed_offset for b in buffers if b.fixed_offset is not None}
    for buffer in buffers:
        base = given.get(buffer.anchor or buffer.name)
        if base is not None:
            yield base + buffer.distance_bytes, buffer


def _live_sums(ticks: Column, lower: Column, upper: Column, values: Column) -> Column:
    """At each tick, the sum of the values of those alive."""

    def before(ends: Column) -> Column:
        order = ends.argsort()
        sums = np.concatenate(([0], values[order].cumsum()))
        return sums[np.searchsorted(ends[order], ticks, side="right")]

    return before(lower) - before(upper)


def _stacked(sizes: Column, alignments: Column) -> int:
    grain = int(np.gcd.reduce(alignments))
    padding = -sizes % grain
    return int(sizes.sum() + padding.sum() - padding.max())


def _reach(buffers: tuple[Buffer, ...]) -> int:
    """The least end of the topmost of what is fixed or tied, wherever the rest lies."""
    fixed = (at + buffer.size_bytes for at, buffer in _fixed(buffers))
    tied = (buffer.distance_bytes + buffer.size_bytes for buffer in buffers if buffer.tied)
    return max(chain(fixed, tied), default=0)


def columns(buffers: tuple[Buffer, ...]) -> tuple[Column, Column, Column, Column]:
    """The buffers' lowers, uppers, sizes and alignments."""
    rows = [(b.lower, b.upper, b.size_bytes, b.alignment) for b in buffers]
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return table[:, 0], table[:, 1], table[:, 2], table[:, 3]
