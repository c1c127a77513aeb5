"""FeatureMap: where the elements of an input or output lie.

A map of height, width and depth lies in up to four tiles, each with its own base address: columns
from `width_0` on are on the right, in tiles 1 and 3, rows from `height_0` (on the left) or
`height_1` (on the right) on are below, in tiles 2 and 3.  Within a tile rows are `stride_y` apart,
and either pixels `stride_x`, channels beside each other, or, in bricks, 16 channels of a pixel lie
beside the same of the next one, and bricks of channels are `stride_c` apart (NHCWB16).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.accelerators.ethos_u.interpreter.ranges import Ranges, runs

BRICK = 16


@dataclass(frozen=True, slots=True)
class Box:
    """Rows, columns and channels, half-open."""

    rows: tuple[int, int]
    columns: tuple[int, int]
    channels: tuple[int, int]

    @property
    def sides(self) -> tuple[tuple[int, int], ...]:
        """Rows, columns, channels."""
        return self.rows, self.columns, self.channels

    @property
    def slices(self) -> tuple[slice, ...]:
        """It, as an index."""
        return tuple(slice(*side) for side in self.sides)


@dataclass(frozen=True, slots=True)
class FeatureMap:
    """`name` is ifm, ifm2 or ofm; strides in bytes; `shape` is height, width, depth."""

    name: str
    region: int
    shape: tuple[int, int, int]
    bases: tuple[int, int, int, int]
    height_0: int
    height_1: int
    width_0: int
    stride_y: int
    stride_x: int
    stride_c: int
    bricks: bool
    element_bytes: int
    signed: bool
    zero_point: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of its elements."""
        return np.dtype(f"<{'i' if self.signed else 'u'}{self.element_bytes}")

    @property
    def whole(self) -> Box:
        """All of it."""
        height, width, depth = self.shape
        return Box((0, height), (0, width), (0, depth))

    def addresses(self, box: Box | None = None) -> Any:
        """Of the elements of a box: int64, of its shape."""
        box = box or self.whole
        rows, columns, channels = (np.arange(*side, dtype=np.int64) for side in box.sides)
        return self._pixels(rows, columns)[..., None] + self._within(channels)

    @property
    def limits(self) -> tuple[int, int]:
        """The lowest byte, and one past the highest: those of the corners of tiles and bricks."""
        height, width, depth = self.shape
        rows = _corners(height, self.height_0, self.height_1)
        columns = _corners(width, self.width_0)
        channels = _corners(depth, BRICK, (depth - 1) // BRICK * BRICK)
        found = self._pixels(rows, columns)[..., None] + self._within(channels)
        return int(found.min()), int(found.max()) + self.element_bytes

    def ranges(self, box: Box | None = None) -> Ranges:
        """The bytes of a box."""
        box = box or self.whole
        lower, upper = box.channels
        step = BRICK if self.bricks else max(upper, 1)
        starts = np.array([lower, *range(lower // step * step + step, upper, step)], np.int64)
        ends = np.append(starts[1:], upper)
        rows, columns = (np.arange(*side, dtype=np.int64) for side in box.sides[:2])
        pixels = self._pixels(rows, columns)[..., None]
        return runs(pixels + self._within(starts), (ends - starts) * self.element_bytes)

    def _within(self, channels: Any) -> Any:
        """Offset of channels from the first one of their pixel."""
        if not self.bricks:
            return channels * self.element_bytes
        return channels // BRICK * self.stride_c + channels % BRICK * self.element_bytes

    def _pixels(self, rows: Any, columns: Any) -> Any:
        """Addresses of channel 0 of the pixels of some rows and columns."""
        rows, columns = rows[:, None], columns[None, :]
        right = columns >= self.width_0
        height = np.where(right, self.height_1, self.height_0)
        below = rows >= height
        base = np.array(self.bases, np.int64)[right + 2 * below]
        stride_x = BRICK * self.element_bytes if self.bricks else self.stride_x
        y = rows - np.where(below, height, 0)
        return base + y * self.stride_y + (columns - right * self.width_0) * stride_x


def _corners(size: int, *cuts: int) -> Any:
    """The first and last of each part of an axis that is cut."""
    ends = {0, size - 1, *cuts, *(cut - 1 for cut in cuts)}
    return np.array(sorted(end for end in ends if 0 <= end < size), np.int64)
