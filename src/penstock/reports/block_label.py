"""Labels inside the blocks of the memory figure: text, font size, orientation and position.

Positions are in data coordinates (columns, bytes). Lengths are in points where the name or
docstring says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Protocol

_SIZES = (8.5, 7.5, 6.5)  # points, largest first
# Mean advance and line height in ems of a sans-serif face as wide as DejaVu Sans.
_ADVANCE, _LINE = 0.6, 1.3
_PADDING = 3.0  # points, both sides together
# Candidate label positions as fractions of the free space in a block, the centre first.
_SHARES = sorted(
    product((0.5, 0.25, 0.75, 0.0, 1.0), repeat=2),
    key=lambda place: abs(place[0] - 0.5) + abs(place[1] - 0.5),
)


@dataclass(frozen=True, slots=True)
class PlotScale:
    """Length in points of one column and of one byte."""

    column_points: float
    byte_points: float


@dataclass(frozen=True, slots=True)
class Rectangle:
    """Columns [left, right) and bytes [lower, upper) of a block."""

    left: float
    right: float
    lower: float
    upper: float


class Curve(Protocol):
    """A continuous curve over all columns."""

    def between(self, left: float, right: float) -> tuple[float, float]:
        """Return the minimum and maximum of the curve over the columns [left, right)."""
        ...


@dataclass(frozen=True, slots=True)
class BlockLabel:
    """A label: text, font size in points, orientation and centre. `clear` is True if the curve of
    live bytes does not cross it."""

    text: str
    points: float
    upwards: bool
    x: float = 0.0
    y: float = 0.0
    clear: bool = False

    @property
    def width(self) -> float:
        """Extent along the columns, in points."""
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
    block: Rectangle, name: str, note: str, scale: PlotScale, curve: Curve
) -> BlockLabel | None:
    """Return the best label that fits into a block, or None if none fits.

    The label is at the first candidate position that the curve does not cross.
    """
    width = (block.right - block.left) * scale.column_points
    height = (block.upper - block.lower) * scale.byte_points
    for label in _choices(name, note):
        if label.width <= width and label.height <= height:
            return _placed(label, block, scale, curve)
    return None


def _choices(name: str, note: str) -> Iterator[BlockLabel]:
    """Yield candidates in order of preference: name and note, name alone, both rotated, name
    rotated, note alone; for each text, larger fonts first."""
    both = f"{name}\n{note}"
    for text, ways in ((both, (False,)), (name, (False,)), (both, (True,)), (name, (True,))):
        yield from (BlockLabel(text, points, way) for way in ways for points in _SIZES)
    yield from (BlockLabel(note, points, way) for way in (False, True) for points in _SIZES[1:])


def _placed(label: BlockLabel, block: Rectangle, scale: PlotScale, curve: Curve) -> BlockLabel:
    """Return the label at its first candidate position clear of the curve, or else at the
    centre."""
    half_x = label.width / 2 / scale.column_points
    half_y = label.height / 2 / scale.byte_points
    left, right = block.left + half_x, block.right - half_x
    low, high = block.lower + half_y, block.upper - half_y
    for share_x, share_y in _SHARES:
        x, y = left + share_x * (right - left), low + share_y * (high - low)
        least, most = curve.between(x - half_x, x + half_x)
        if least >= y + half_y or most <= y - half_y:
            return replace(label, x=x, y=y, clear=True)
    return replace(label, x=(left + right) / 2, y=(low + high) / 2)
