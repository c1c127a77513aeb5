"""BlockLabel: what is written inside a block of the memory picture, how and where, if it fits.

Places are in data coordinates (steps, bytes); lengths in points where they are called so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, floor

from penstock.reports.occupancy import Occupancy
from penstock.reports.report import Span

_SIZES = (8.5, 7.5, 6.5)  # points, largest first
# A sans-serif face as wide as DejaVu Sans: mean advance and line height, in ems.
_ADVANCE, _LINE = 0.6, 1.3
_PADDING = 3.0  # points, both sides together
# Where in a block a label may stand, as shares of the room that it leaves; the middle first.
_SHARES = sorted(
    product((0.5, 0.25, 0.75, 0.0, 1.0), repeat=2),
    key=lambda place: abs(place[0] - 0.5) + abs(place[1] - 0.5),
)


@dataclass(frozen=True, slots=True)
class Scale:
    """Points of a step and of a byte."""

    step_points: float
    byte_points: float


@dataclass(frozen=True, slots=True)
class BlockLabel:
    """Text, its size in points, whether it runs upwards, its centre, and whether the curve of live
    bytes passes beside it."""

    text: str
    points: float
    upwards: bool
    x: float = 0.0
    y: float = 0.0
    clear: bool = False

    @property
    def width(self) -> float:
        """Extent along the steps, in points."""
        return self._height if self.upwards else self._length

    @property
    def height(self) -> float:
        """Extent along the bytes, in points."""
        return self._length if self.upwards else self._height

    @property
    def _length(self) -> float:
        return max(map(len, self.text.split("\n"))) * _ADVANCE * self.points + _PADDING

    @property
    def _height(self) -> float:
        return len(self.text.split("\n")) * _LINE * self.points + 1.0


def block_label(
    span: Span, name: str, note: str, scale: Scale, use: Occupancy
) -> BlockLabel | None:
    """The best label for a block, in the first place where the curve of live bytes does not cross
    it; None where not even the smallest fits."""
    width = (span.last_step + 1 - span.first_step) * scale.step_points
    height = (span.upper_byte - span.lower_byte) * scale.byte_points
    for label in _choices(name, note):
        if label.width <= width and label.height <= height:
            return _placed(label, span, scale, use)
    return None


def _choices(name: str, note: str) -> Iterator[BlockLabel]:
    """Name over note, else the name, else either upwards, else the note; large before small."""
    both = f"{name}\n{note}"
    for text, ways in ((both, (False,)), (name, (False,)), (both, (True,)), (name, (True,))):
        yield from (BlockLabel(text, points, way) for way in ways for points in _SIZES)
    yield from (BlockLabel(note, points, way) for way in (False, True) for points in _SIZES[1:])


def _placed(label: BlockLabel, span: Span, scale: Scale, use: Occupancy) -> BlockLabel:
    """The label in its first place that the curve does not cross, else in the middle."""
    half_x = label.width / 2 / scale.step_points
    half_y = label.height / 2 / scale.byte_points
    left, right = span.first_step + half_x, span.last_step + 1 - half_x
    low, high = span.lower_byte + half_y, span.upper_byte - half_y
    for share_x, share_y in _SHARES:
        x, y = left + share_x * (right - left), low + share_y * (high - low)
        if not _crosses(use, (x - half_x, x + half_x), (y - half_y, y + half_y)):
            return replace(label, x=x, y=y, clear=True)
    return replace(label, x=(left + right) / 2, y=(low + high) / 2)


def _crosses(use: Occupancy, xs: tuple[float, float], ys: tuple[float, float]) -> bool:
    """Whether the curve meets a box.  It has no gaps, so above an interval of steps it takes every
    value between its least and its greatest there."""
    columns = use.live_bytes[floor(xs[0]) + 1 : ceil(xs[1]) + 1]
    return min(columns) < ys[1] and max(columns) > ys[0]
