"""PlacementProblem: buffers with live ranges, to be placed in memory.  Placement: their offsets.

    address
      ^    +-----+
      |    |  b  +--------+      a LiveBuffer is a rectangle: its width is its live range
      | +--+-----+   c    |      [lower, upper), its height its bytes [offset, offset + size);
      | |   a    +--------+      no two may overlap, and the total height is minimised
      +-+--------+------------> time

Time is in ticks, whose meaning is up to the caller.  A tensor, a ring buffer and a single row of a
tensor are each one LiveBuffer, so problems of several thousand buffers are normal.

Rows that must be contiguous are *tied* to the first of them, their anchor: they have separate live
ranges, but fixed distances.  A LiveBuffer and all buffers tied to it form a *shape*:

    address
      ^       +----------+    r2, tied to r0 at distance 2 * pitch
      |    +--+----------+    r1, tied to r0 at distance pitch
      | +--+-------------+    r0, the anchor
      +------------------> time
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from penstock.brief import Brief
from penstock.errors import InternalError
from penstock.frozen import frozen

Column = npt.NDArray[np.int64]


@frozen
class LiveBuffer:
    """Bytes that are live in the half-open interval [lower, upper) of ticks.

    alignment: the offset is a multiple of it.
    anchor: name of the buffer that it is tied to, if any; it lies `distance_bytes` above it.
    """

    name: str
    lower: int
    upper: int
    size_bytes: int
    alignment: int = 1
    anchor: str | None = None
    distance_bytes: int = 0

    def __post_init__(self) -> None:
        wrong = (
            "it must live for at least one tick" if self.lower >= self.upper else
            "it must have at least one byte" if self.size_bytes < 1 else
            "its alignment must be at least 1" if self.alignment < 1 else
            "its distance must not be negative" if self.distance_bytes < 0 else
            "its distance must be aligned" if self.distance_bytes % self.alignment else
            "without an anchor it has no distance" if self.distance_bytes and not self.tied else
            ""
        )  # fmt: skip
        if wrong:
            raise InternalError("memory-001", f"malformed buffer: {self}", why=wrong)

    @property
    def tied(self) -> bool:
        """Whether the buffer lies at a fixed distance above another one."""
        return self.anchor is not None

    def meets(self, other: LiveBuffer) -> bool:
        """Return whether both buffers are live at some tick."""
        return self.lower < other.upper and other.lower < self.upper


@frozen(repr=False)
class PlacementProblem(Brief):
    """Buffers to be placed, within `capacity_bytes` if given."""

    buffers: tuple[LiveBuffer, ...]
    capacity_bytes: int | None = None

    def __post_init__(self) -> None:
        if len({buffer.name for buffer in self.buffers}) < len(self.buffers):
            raise InternalError("memory-002", "two buffers of a problem have the same name")
        _refuse_bad_anchors(self.buffers)
        for shape in shapes(self.buffers):
            if len(shape) > 1 and (clash := _clash([(b.distance_bytes, b) for b in shape])):
                raise InternalError("memory-008", f"buffers of one shape overlap: {clash}")


@frozen(repr=False)
class Placement(Brief):
    """The offset of every buffer, in the problem's order.

    height_bytes: highest end of a buffer.
    bound_bytes: proven lower bound of the height of any placement.
    method: name of the algorithm that found it.
    nodes: work spent: attempts (exact placement) or comparisons (row placement).
    """

    offsets: tuple[tuple[str, int], ...]
    height_bytes: int
    bound_bytes: int
    method: str
    nodes: int = 0

    @property
    def optimal(self) -> bool:
        """Whether the height is proven optimal."""
        return self.height_bytes == self.bound_bytes

    @property
    def gap(self) -> float:
        """Optimality gap: how far the height lies above the bound, as a fraction; 0.0 if proven
        optimal.
        """
        return (self.height_bytes - self.bound_bytes) / max(self.bound_bytes, 1)


@frozen
class Peak:
    """The tick with the largest need, its bytes, and the names of the live buffers."""

    tick: int
    size_bytes: int
    names: tuple[str, ...]


def round_up(value: int, multiple: int) -> int:
    """Return the least multiple of `multiple` that is not below `value`."""
    return -(-value // multiple) * multiple


def live_peak(problem: PlacementProblem) -> Peak:
    """Return the tick with the largest need, the earliest of equals; an empty problem needs 0
    bytes.
    """
    buffers = problem.buffers
    if not buffers:
        return Peak(0, 0, ())
    lower, upper, sizes, alignments = columns(buffers)
    ticks = np.unique(lower)
    # The need lies between the sum of sizes and that of rounded sizes; usually they are equal.
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


def peak_live_bytes(problem: PlacementProblem) -> int:
    """Return a lower bound of the height: live bytes at the peak, and the reach of tied buffers."""
    return max(live_peak(problem).size_bytes, _reach(problem.buffers))


def shapes(buffers: tuple[LiveBuffer, ...]) -> tuple[tuple[LiveBuffer, ...], ...]:
    """Return the shapes: each untied buffer, followed by the buffers tied to it."""
    found = {buffer.name: [buffer] for buffer in buffers if buffer.anchor is None}
    for buffer in buffers:
        if buffer.anchor is not None:
            found[buffer.anchor].append(buffer)
    return tuple(tuple(shape) for shape in found.values())


def refuse_ties(problem: PlacementProblem, who: str) -> None:
    """Raise InternalError if a buffer is tied; `who` is the algorithm that ignores ties."""
    tied = next((buffer for buffer in problem.buffers if buffer.tied), None)
    if tied is not None:
        raise InternalError("memory-009", f"{who} takes no tied buffers, as {tied.name} is")


def _refuse_bad_anchors(buffers: tuple[LiveBuffer, ...]) -> None:
    untied = {buffer.name for buffer in buffers if not buffer.tied}
    for buffer in buffers:
        if buffer.anchor is not None and buffer.anchor not in untied:
            raise InternalError(
                "memory-007",
                f"{buffer.name} is tied to {buffer.anchor}",
                why="an anchor is a buffer of the problem, and not tied itself",
            )


def _clash(placed: list[tuple[int, LiveBuffer]]) -> str:
    """Return the names of two overlapping buffers, the lower one first; "" if there are none."""
    placed.sort(key=lambda pair: pair[0])
    for i, (at, low) in enumerate(placed):
        for above, high in placed[i + 1 :]:
            if above >= at + low.size_bytes:
                break  # and so are all that follow
            if low.meets(high):
                return f"{low.name}, {high.name}"
    return ""


def _live_sums(ticks: Column, lower: Column, upper: Column, values: Column) -> Column:
    """Return, for each tick, the sum of `values` over the buffers that are live."""

    def before(ends: Column) -> Column:
        order = ends.argsort()
        sums = np.concatenate(([0], values[order].cumsum()))
        return sums[np.searchsorted(ends[order], ticks, side="right")]

    return before(lower) - before(upper)


def _stacked(sizes: Column, alignments: Column) -> int:
    """Return a lower bound of the height of buffers that are all live at one tick.

    All offsets are multiples of the greatest common divisor of the alignments, so every buffer but
    the topmost occupies a multiple of it.  The bound assumes the best choice of the topmost buffer.
    """
    grain = int(np.gcd.reduce(alignments))
    padding = -sizes % grain
    return int(sizes.sum() + padding.sum() - padding.max())


def _reach(buffers: tuple[LiveBuffer, ...]) -> int:
    """Return a lower bound of the highest end of tied buffers."""
    return max((b.distance_bytes + b.size_bytes for b in buffers if b.tied), default=0)


def columns(buffers: tuple[LiveBuffer, ...]) -> tuple[Column, Column, Column, Column]:
    """Return the buffers' lower and upper ticks, sizes and alignments as arrays."""
    rows = [(b.lower, b.upper, b.size_bytes, b.alignment) for b in buffers]
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return table[:, 0], table[:, 1], table[:, 2], table[:, 3]


def in_whole_banks(problem: PlacementProblem, bank_bytes: int) -> PlacementProblem:
    """Return the placement problem in which each buffer occupies whole banks.

    bank_bytes: the size of a bank.

    Tied buffers remain as they are; they are at fixed distances from another buffer.
    """
    return PlacementProblem(
        tuple(
            buffer
            if buffer.tied
            else replace(
                buffer,
                size_bytes=whole_banks(buffer.size_bytes, bank_bytes),
                alignment=bank_bytes,
            )
            for buffer in problem.buffers
        )
    )


def whole_banks(size_bytes: int, bank_bytes: int) -> int:
    """Return a size rounded up to whole banks; unchanged if `bank_bytes` is 0.

    >>> whole_banks(5000, 4096), whole_banks(5000, 0)
    (8192, 5000)
    """
    return -(-size_bytes // bank_bytes) * bank_bytes if bank_bytes else size_bytes
