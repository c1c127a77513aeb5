"""Feature maps: addresses of the elements of an input or output.

A map of height, width and depth consists of up to four tiles, each with its own base address.
Columns from `width_0` on are to the right, in tiles 1 and 3. Rows from `height_0` (left) or
`height_1` (right) on are below, in tiles 2 and 3. Within a tile, rows are `stride_y` apart. In
NHWC, pixels are `stride_x` apart and channels are adjacent. In NHCWB16, the 16 channels of a block
of one pixel are followed by those of the next pixel, and channel blocks are `stride_c` apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.accelerators.ethos_u.interpreter.ranges import Ranges, runs

BRICK = 16


@dataclass(frozen=True, slots=True)
class ElementBox:
    """Half-open ranges of rows, columns and channels."""

    rows: tuple[int, int]
    columns: tuple[int, int]
    channels: tuple[int, int]

    @property
    def sides(self) -> tuple[tuple[int, int], ...]:
        """The ranges of rows, columns and channels."""
        return self.rows, self.columns, self.channels

    @property
    def slices(self) -> tuple[slice, ...]:
        """The box as an array index."""
        return tuple(slice(*side) for side in self.sides)


@dataclass(frozen=True, slots=True)
class FeatureMap:
    """A feature map. `name` is ifm, ifm2 or ofm; strides are in bytes; `shape` is height, width,
    depth."""

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
        """Type of its elements."""
        return np.dtype(f"<{'i' if self.signed else 'u'}{self.element_bytes}")

    @property
    def whole(self) -> ElementBox:
        """The box of all elements."""
        height, width, depth = self.shape
        return ElementBox((0, height), (0, width), (0, depth))

    def addresses(self, box: ElementBox | None = None) -> Any:
        """Return the addresses of the elements of a box, as int64 in its shape."""
        box = box or self.whole
        rows, columns, channels = (np.arange(*side, dtype=np.int64) for side in box.sides)
        return self._pixels(rows, columns)[..., None] + self._within(channels)

    @property
    def limits(self) -> tuple[int, int]:
        """Return the lowest byte, and one past the highest; both are at corners of tiles and
        channel blocks."""
        height, width, depth = self.shape
        rows = _corners(height, self.height_0, self.height_1)
        columns = _corners(width, self.width_0)
        channels = _corners(depth, BRICK, (depth - 1) // BRICK * BRICK)
        found = self._pixels(rows, columns)[..., None] + self._within(channels)
        return int(found.min()), int(found.max()) + self.element_bytes

    def ranges(self, box: ElementBox | None = None) -> Ranges:
        """Return the bytes of a box."""
        box = box or self.whole
        lower, upper = box.channels
        step = BRICK if self.bricks else max(upper, 1)
        starts = np.array([lower, *range(lower // step * step + step, upper, step)], np.int64)
        ends = np.append(starts[1:], upper)
        rows, columns = (np.arange(*side, dtype=np.int64) for side in box.sides[:2])
        pixels = self._pixels(rows, columns)[..., None]
        return runs(pixels + self._within(starts), (ends - starts) * self.element_bytes)

    def _within(self, channels: Any) -> Any:
        """Return the offsets of channels relative to channel 0 of their pixel."""
        if not self.bricks:
            return channels * self.element_bytes
        return channels // BRICK * self.stride_c + channels % BRICK * self.element_bytes

    def _pixels(self, rows: Any, columns: Any) -> Any:
        """Return the addresses of channel 0 of pixels given by rows and columns."""
        rows, columns = rows[:, None], columns[None, :]
        right = columns >= self.width_0
        height = np.where(right, self.height_1, self.height_0)
        below = rows >= height
        base = np.array(self.bases, np.int64)[right + 2 * below]
        stride_x = BRICK * self.element_bytes if self.bricks else self.stride_x
        y = rows - np.where(below, height, 0)
        return base + y * self.stride_y + (columns - right * self.width_0) * stride_x


def _corners(size: int, *cuts: int) -> Any:
    """Return the first and last index of each section of an axis that is divided at `cuts`."""
    ends = {0, size - 1, *cuts, *(cut - 1 for cut in cuts)}
    return np.array(sorted(end for end in ends if 0 <= end < size), np.int64)
