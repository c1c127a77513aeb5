"""Feature maps: addresses of the elements of an input or output.

A feature map is divided into up to four tiles, each with its own base address. They are quadrants:

    tile 0 | tile 1
    -------+-------
    tile 2 | tile 3

Tiles 1 and 3 begin at column `width_0`. Tile 2 begins at row `height_0`, tile 3 at row `height_1`.

Within a tile, rows are `stride_y` bytes apart. In NHWC, pixels are `stride_x` bytes apart and
channels are adjacent. In NHCWB16, the 16 channels of a channel block are adjacent, pixels follow
each other without gaps, and channel blocks are `stride_c` bytes apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

# Sets of byte addresses, represented by half-open ranges.
#
# A set is an int64 array of shape (n, 2) with the lower and upper bound of each range. Ranges are
# sorted, disjoint and not adjacent. For example, bytes 0 to 3 and byte 8 are [[0, 4], [8, 9]].


Ranges = Any  # An int64 array of shape (n, 2): lower and upper bound of each range.
NONE: Ranges = np.zeros((0, 2), np.int64)  # The empty set.


def span(lower: int, upper: int) -> Ranges:
    """Return the set of bytes [lower, upper)."""
    return np.array([[lower, upper]], np.int64) if upper > lower else NONE


def runs(starts: Any, sizes: Any) -> Ranges:
    """Return the set of all bytes in the ranges [start, start + size), for corresponding elements
    of `starts` and `sizes`. These arrays are broadcast against each other.

    >>> runs(np.array([8, 0, 4]), 4).tolist()
    [[0, 12]]
    """
    lowers, uppers = (x.ravel() for x in np.broadcast_arrays(starts, starts + sizes))
    order = np.argsort(lowers, kind="stable")
    lowers, uppers = lowers[order], np.maximum.accumulate(uppers[order])
    if not len(lowers):
        return NONE
    first = np.flatnonzero(np.r_[True, lowers[1:] > uppers[:-1]])
    last = np.r_[first[1:] - 1, len(lowers) - 1]
    return np.stack([lowers[first], uppers[last]], axis=1)


def union(*sets: Ranges) -> Ranges:
    """Return the union of sets of bytes."""
    joined = np.concatenate([NONE, *sets])
    return runs(joined[:, 0], joined[:, 1] - joined[:, 0])


def first_overlap(one: Ranges, other: Ranges) -> tuple[int, int] | None:
    """Return the first range [lower, upper) of bytes that are in both sets, or None if the sets are
    disjoint.

    >>> first_overlap(span(0, 8), span(6, 20))
    (6, 8)
    """
    if not len(one) or not len(other):
        return None
    first = np.searchsorted(other[:, 1], one[:, 0], side="right")
    inside = np.minimum(first, len(other) - 1)
    hits = np.flatnonzero((first < len(other)) & (other[inside, 0] < one[:, 1]))
    if not len(hits):
        return None
    lower, upper = one[hits[0]]
    other_lower, other_upper = other[inside[hits[0]]]
    return int(max(lower, other_lower)), int(min(upper, other_upper))


def size_bytes(ranges: Ranges) -> int:
    """Return the number of bytes in a set of ranges."""
    return int((ranges[:, 1] - ranges[:, 0]).sum())


BLOCK_CHANNELS = 16  # Number of channels in a channel block of layout NHCWB16.


@dataclass(frozen=True, slots=True)
class ElementBox:
    """A box of elements: half-open intervals of rows, columns and channels."""

    rows: tuple[int, int]
    columns: tuple[int, int]
    channels: tuple[int, int]

    @property
    def sides(self) -> tuple[tuple[int, int], ...]:
        """The intervals of rows, columns and channels."""
        return self.rows, self.columns, self.channels

    @property
    def slices(self) -> tuple[slice, ...]:
        """The box as slices that index an array of shape (height, width, channels)."""
        return tuple(slice(*side) for side in self.sides)


@dataclass(frozen=True, slots=True)
class FeatureMap:
    """A feature map in a memory region, divided into up to four tiles (quadrants).

    name: ifm, ifm2 or ofm (first input, second input, output).
    region: number of the memory region.
    shape: height, width and depth.
    bases: byte offset in the memory region of each tile: upper left, upper right, lower left, lower
        right.
    height_0: first row of the lower left tile.
    height_1: first row of the lower right tile.
    width_0: first column of the right tiles.
    stride_y: distance in bytes between rows.
    stride_x: distance in bytes between columns; unused in NHCWB16.
    stride_c: distance in bytes between blocks of 16 channels; unused in NHWC.
    nhcwb16: whether the layout is NHCWB16 instead of NHWC.
    element_bytes: size of an element in bytes.
    signed: whether elements are signed integers.
    zero_point: the element that represents 0.
    axes: which axis of the elements is stored as rows, as columns and as channels: (1, 0, 2) if
        rows and columns are exchanged in memory. Bases, tiles and strides are those of memory.
    reversed_axis: axis along which elements are stored in reverse order; None for none.
    chained: whether the elements are in the chaining buffer with number `region`, inside the NPU,
        where the next operation of a chain reads them block by block. They have no addresses."""

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
    nhcwb16: bool
    element_bytes: int
    signed: bool
    zero_point: int
    axes: tuple[int, int, int] = (0, 1, 2)
    reversed_axis: int | None = None
    chained: bool = False

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements, such as little-endian int16."""
        return np.dtype(f"<{'i' if self.signed else 'u'}{self.element_bytes}")

    @property
    def whole(self) -> ElementBox:
        height, width, depth = self.shape
        return ElementBox((0, height), (0, width), (0, depth))

    @property
    def stored_shape(self) -> tuple[int, int, int]:
        """Rows, columns and channels in memory."""
        height, width, depth = (self.shape[axis] for axis in self.axes)
        return height, width, depth

    def addresses(self, box: ElementBox | None = None) -> Any:
        """Return the address of each element of a box, as an int64 array in the shape of the box.
        An address is a byte offset in the memory region. Without `box`, all elements are
        included."""
        found = self._stored_addresses(self._stored(box or self.whole))
        found = found.transpose(*np.argsort(self.axes).tolist())
        return found if self.reversed_axis is None else np.flip(found, self.reversed_axis)

    def _stored(self, box: ElementBox) -> ElementBox:
        """The rows, columns and channels in memory that hold the elements of a box."""
        sides = list(box.sides)
        if self.reversed_axis is not None:
            lower, upper = sides[self.reversed_axis]
            size = self.shape[self.reversed_axis]
            sides[self.reversed_axis] = size - upper, size - lower
        return ElementBox(*(sides[axis] for axis in self.axes))

    def _stored_addresses(self, box: ElementBox) -> Any:
        rows, columns, channels = (np.arange(*side, dtype=np.int64) for side in box.sides)
        return self._pixels(rows, columns)[..., None] + self._channel_offsets(channels)

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest half-open interval of byte addresses that contains all elements."""
        # The elements at the corners of tiles and channel blocks have the lowest and the highest
        # addresses.
        height, width, depth = self.stored_shape
        rows = _corners(height, self.height_0, self.height_1)
        columns = _corners(width, self.width_0)
        channels = _corners(depth, BLOCK_CHANNELS, (depth - 1) // BLOCK_CHANNELS * BLOCK_CHANNELS)
        found = self._pixels(rows, columns)[..., None] + self._channel_offsets(channels)
        return int(found.min()), int(found.max()) + self.element_bytes

    def ranges(self, box: ElementBox | None = None) -> Ranges:
        """The byte addresses that the elements of a box occupy; without it, all elements."""
        box = self._stored(box or self.whole)
        lower, upper = box.channels
        step = BLOCK_CHANNELS if self.nhcwb16 else max(upper, 1)
        starts = np.array([lower, *range(lower // step * step + step, upper, step)], np.int64)
        ends = np.append(starts[1:], upper)
        rows, columns = (np.arange(*side, dtype=np.int64) for side in box.sides[:2])
        pixels = self._pixels(rows, columns)[..., None]
        return runs(pixels + self._channel_offsets(starts), (ends - starts) * self.element_bytes)

    def _channel_offsets(self, channels: Any) -> Any:
        """Return, for each channel index in the array `channels`, the distance in bytes from
        channel 0 of a pixel to this channel."""
        if not self.nhcwb16:
            return channels * self.element_bytes
        return (
            channels // BLOCK_CHANNELS * self.stride_c
            + channels % BLOCK_CHANNELS * self.element_bytes
        )

    def _pixels(self, rows: Any, columns: Any) -> Any:
        """An array of shape (len(rows), len(columns)). Its element [i, j] is the byte
        address of channel 0 of the pixel in row `rows[i]` and column `columns[j]`."""
        rows, columns = rows[:, None], columns[None, :]
        right = columns >= self.width_0
        height = np.where(right, self.height_1, self.height_0)
        below = rows >= height
        base = np.array(self.bases, np.int64)[right + 2 * below]
        stride_x = BLOCK_CHANNELS * self.element_bytes if self.nhcwb16 else self.stride_x
        y = rows - np.where(below, height, 0)
        return base + y * self.stride_y + (columns - right * self.width_0) * stride_x


def _corners(size: int, *cuts: int) -> Any:
    """Return the first and last index of each section of an axis, in ascending order. Only elements
    with such indices can have the lowest or the highest address.

    >>> _corners(10, 4).tolist()
    [0, 3, 4, 9]
    """
    ends = {0, size - 1, *cuts, *(cut - 1 for cut in cuts)}
    return np.array(sorted(end for end in ends if 0 <= end < size), np.int64)
