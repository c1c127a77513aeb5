"""movement: decomposition of an operator that only moves elements into copies of boxes.

What an operator moves is found by evaluating its reference on indices instead of elements. So the
decomposition knows no operator: it applies to slices, padding, concatenation, transposition,
repetition, and nearest-neighbour resizing alike.

A box has rows, columns and channels, and lies in the output and in an input. Channels are adjacent
in memory; columns are a constant number of bytes apart; rows of the box are rows of the tensor, or
places at a constant distance within one row. A transposition is a set of such boxes, because rows
and columns of a box need not be rows and columns of the tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import gcd, prod
from typing import Any, NamedTuple

import numpy as np

from penstock.uma import Array, Node, Region
from penstock_ethos_u.configurations import MapShape

FILL = -1  # The index of the input of a box that is filled with a constant.
FIRST_INDEX = 1 << 16  # Indices of elements begin here; smaller numbers are constants.
# Every second, third .. output row and column may form a box: pairs of periods that are considered.
PERIODS = tuple(product((1, 2, 3, 4, 8), repeat=2))[1:]
MOST_BOXES = 64  # The most boxes of an operator.


class Lines(NamedTuple):
    """Where the rows and columns of a box lie in a tensor.

    row: row of the tensor that contains row 0 of the box.
    row_step: distance in rows of the tensor between the rows of the box.
    offset: offset in bytes of the box within a row of the tensor in NHWC.
    row_bytes: distance in bytes, within one row of the tensor, between the rows of the box.
    pixel_bytes: distance in bytes between the columns of the box.

    If `row_step` and `row_bytes` are 0, all rows of the box are the same; likewise columns."""

    row: int
    row_step: int
    offset: int
    row_bytes: int
    pixel_bytes: int


@dataclass(frozen=True, slots=True)
class Box:
    """A part of the output, and where its elements come from.

    shape: rows, columns and channels.
    target: place in the output.
    source: place in the input; if `tensor` is FILL, the field `offset` is the constant.
    tensor: index of the input; FILL if the box is filled with a constant.
    one_channel: whether all channels of the box are the same channel of the input."""

    shape: MapShape
    target: Lines
    source: Lines
    tensor: int
    one_channel: bool = False

    @property
    def is_broadcast(self) -> bool:
        """Whether an element of the input occurs several times in the box."""
        if self.tensor == FILL:
            return False
        rows = self.shape.height > 1 and not (self.source.row_step or self.source.row_bytes)
        columns = self.shape.width > 1 and not self.source.pixel_bytes
        return self.one_channel or rows or columns

    @property
    def copies(self) -> int:
        """The number of operations that write the box."""
        return 2 if self.is_broadcast else 1


def boxes(node: Node, extents: tuple[MapShape, ...]) -> tuple[Box, ...]:
    """Return the boxes of an operator that only moves elements. Their channels are bytes.

    extents: rows, columns and bytes of channels of each input, and of the output."""
    return _boxes(node.op, node.site.bare, extents)


class Selection(NamedTuple):
    """An operator that selects channels of each pixel.

    image: rows, columns and channels of the input; its rows are those of the tensor.
    channels: for each channel of the output, the channel of the input."""

    image: MapShape
    channels: tuple[int, ...]


def selection(node: Node, extents: tuple[MapShape, ...]) -> Selection | None:
    """Return what an operator selects, with pixels of as few bytes as possible; None if it moves
    elements to other pixels, or adds elements.

    extents: rows, columns and bytes of channels of each input, and of the output."""
    (height, *pixel), target = extents[0], extents[-1]
    size, count = prod(pixel), target.width * target.depth
    if len(extents) > 2 or target.height != height:
        return None
    rows = _indices(node.op, node.site.bare).reshape(height, count) - FIRST_INDEX
    line = rows[0]
    if (rows != line + size * np.arange(height)[:, None]).any():
        return None
    for width in range(gcd(size, count), 0, -1):
        depth, rest = divmod(size, width)
        if rest or count % width:
            continue
        channels = line[: count // width]
        same = line.reshape(width, -1) == channels + depth * np.arange(width)[:, None]
        if same.all() and channels.min() >= 0 and channels.max() < depth:
            return Selection(MapShape(height, width, depth), tuple(channels.tolist()))
    return None


@lru_cache(maxsize=256)
def _indices(op: Any, site: Any) -> Array:
    """The index of each byte of the output among those of all inputs, from FIRST_INDEX on, or a
    constant; in the shape of the output, with bytes of an element as a further axis."""
    inputs = list[Array]()
    begin = FIRST_INDEX
    for type in site.inputs:
        inputs.append(np.arange(begin, begin + type.elements, dtype=np.int64).reshape(type.shape))
        begin += type.elements
    found = op.evaluate(site, tuple(inputs), Region.whole(site.output.shape))
    size = site.output.dtype.size_bytes
    if size > 1:  # elements of several bytes
        moved = (found[..., None] - FIRST_INDEX) * size + np.arange(size) + FIRST_INDEX
        found = np.where(found[..., None] < FIRST_INDEX, found[..., None], moved)
    return found


@lru_cache(maxsize=256)
def _boxes(op: object, site: object, extents: tuple[MapShape, ...]) -> tuple[Box, ...]:
    found = _indices(op, site)
    kinds = list(_kinds(_Planes.of(found.reshape(extents[-1]), extents[:-1])))
    best = _boxes_of(kinds, 1, 1, MOST_BOXES)
    for rows, columns in PERIODS:
        fewest = sum(box.copies for box in best)
        found = _boxes_of(kinds, rows, columns, fewest)
        if sum(box.copies for box in found) < fewest:
            best = found
    return best


@dataclass(frozen=True, slots=True)
class _Planes:
    """For each element of the output: the index of its input (or FILL), the row of this input, and
    the offset in this row (or the constant). Arrays of shape (rows, columns, channels)."""

    tensor: Array
    row: Array
    offset: Array

    @staticmethod
    def of(indices: Array, extents: Sequence[MapShape]) -> _Planes:
        tensor, row, offset = np.full(indices.shape, FILL), np.zeros_like(indices), indices.copy()
        begin = FIRST_INDEX
        for k, (height, width, depth) in enumerate(extents):
            inside = (indices >= begin) & (indices < begin + height * width * depth)
            tensor[inside] = k
            row[inside], offset[inside] = np.divmod(indices[inside] - begin, width * depth)
            begin += height * width * depth
        return _Planes(tensor, row, offset)

    def rectangles(self, period: int) -> Iterator[Box]:
        """The boxes of one output row; their rows of the input are relative."""
        columns, channels = self.tensor.shape
        left = np.ones((columns, channels), np.bool_)
        for first in range(min(period, columns)):
            for w in range(first, columns, period):
                while left[w].any():
                    c = int(left[w].argmax())
                    yield self._rectangle(w, c, period, left)

    def _rectangle(self, w: int, c: int, period: int, left: Array) -> Box:
        """The box that begins at a column and channel. Its elements are removed from `left`, a
        bool array with the elements that belong to no box yet."""
        count, along = _run(self._line(w, slice(c, None)), left[w, c:])
        channels = slice(c, c + count)
        line = self._line(w, channels)
        wide, across = 1, (0, 0)
        for at in range(w + period, self.tensor.shape[0], period):
            moved = _distance(self._line(at, channels), line) if left[at, channels].all() else None
            if moved is None or (wide > 1 and moved != (wide * across[0], wide * across[1])):
                break
            if (moved[0] and along[0]) or (moved[1] < 0 and not moved[0]):
                break
            wide, across = wide + 1, moved if wide == 1 else across
        left[w : w + period * (wide - 1) + 1 : period, channels] = False
        tensor, row, offset = (int(x[0]) for x in line)
        depth = self.tensor.shape[1]
        return _box(
            tensor,
            (count, along, wide, across),
            (row, offset),
            (w * depth + c, period * depth),
        )

    def _line(self, w: int, channels: slice) -> tuple[Array, Array, Array]:
        return self.tensor[w, channels], self.row[w, channels], self.offset[w, channels]


Line = tuple[Array, Array, Array]  # The arrays of `_Planes`, for channels of one column.


class _Kind(NamedTuple):
    """Output rows that contain the same elements, but for the row of the input, and the offset in
    it, at which they begin.

    plane: one row, relative to its begin.
    rows: indices of the output rows.
    begins: row and offset at which each begins."""

    plane: _Planes
    rows: list[int]
    begins: list[tuple[int, int]]


def _kinds(planes: _Planes) -> Iterable[_Kind]:
    kinds = dict[bytes, _Kind]()
    for r, line in enumerate(zip(planes.tensor, planes.row, planes.offset, strict=True)):
        tensor, row, offset = line
        moved = tensor != FILL
        begin = 0, 0
        if moved.any():
            first = np.unravel_index(int(moved.argmax()), moved.shape)
            begin = int(row[first]), int(offset[first])
            row = np.where(moved, row - begin[0], 0)
            offset = np.where(moved, offset - begin[1], offset)
        key = tensor.tobytes() + row.tobytes() + offset.tobytes()
        kind = kinds.setdefault(key, _Kind(_Planes(tensor, row, offset), [], []))
        kind.rows.append(r)
        kind.begins.append(begin)
    return kinds.values()


def _boxes_of(
    kinds: Iterable[_Kind], row_period: int, column_period: int, most: int
) -> tuple[Box, ...]:
    """The boxes, if every `row_period`-th row and every `column_period`-th column may form a box;
    the first ones if there are more than `most`."""
    found = list[Box]()
    for plane, rows, begins in kinds:
        for box in plane.rectangles(column_period):
            found += _over_rows(box, rows, begins, row_period)
            if len(found) > most:
                return tuple(found)
    return tuple(found)


def _box(
    tensor: int,
    extents: tuple[int, tuple[int, int], int, tuple[int, int]],
    origin: tuple[int, int],
    place: tuple[int, int],
) -> Box:
    """The box of a rectangle of channels and columns of one output row.

    extents: number of channels, and the steps in rows and bytes of the input between them; the same
        of columns.
    origin: row and offset of the first element in the input.
    place: offset of the first element in the output row; distance between columns."""
    count, (row_step, step), wide, (next_row, next_step) = extents
    (row, offset), (start, pitch) = origin, place
    channels_are = "channels"
    if row_step:
        channels_are = "rows"
    elif count > 1 and step not in (0, 1):
        channels_are = "columns"
    if tensor == FILL:
        shape, target = MapShape(1, wide, count), Lines(0, 0, start, 0, pitch)
        source = Lines(0, 0, offset, 0, 0)
    elif channels_are == "rows":
        shape, target = MapShape(count, wide, 1), Lines(0, 0, start, 1, pitch)
        source = Lines(row, row_step, offset, step, next_step)
    elif channels_are == "columns":
        shape, target = MapShape(wide, count, 1), Lines(0, 0, start, pitch, 1)
        source = Lines(row, next_row, offset, next_step, step)
    elif next_row:  # rows of the input are columns of the output
        shape, target = MapShape(wide, 1, count), Lines(0, 0, start, pitch, 0)
        source = Lines(row, next_row, offset, next_step, 0)
    else:
        shape, target = MapShape(1, wide, count), Lines(0, 0, start, 0, pitch)
        source = Lines(row, 0, offset, 0, next_step)
    if shape.height == 1:
        target, source = target._replace(row_bytes=0), source._replace(row_bytes=0)
    return Box(shape, target, source, tensor, tensor != FILL and count > 1 and step == 0)


def _run(line: Line, left: Array) -> tuple[int, tuple[int, int]]:
    """The number of elements of a line that form a run, and the steps in rows and bytes between
    them: adjacent elements of a row, or elements at a constant distance."""
    tensor, row, offset = line
    steps = np.stack([np.diff(row), np.diff(offset)])
    same = (tensor[1:] == tensor[:-1]) & left[1:]
    if not len(same) or not same[0]:
        return 1, (0, 1)
    step = int(steps[0, 0]), int(steps[1, 0])
    if step[1] < 0 and not step[0]:  # columns are read forwards
        return 1, (0, 1)
    alike = same & (steps == steps[:, :1]).all(axis=0)
    count = len(alike) + 1 if alike.all() else int(alike.argmin()) + 1
    return count, step


def _distance(one: Line, other: Line) -> tuple[int, int] | None:
    """How many rows and bytes line `one` is after line `other`; None if that differs."""
    if (one[0] != other[0]).any():
        return None
    rows, bytes = one[1] - other[1], one[2] - other[2]
    if (rows != rows[0]).any() or (bytes != bytes[0]).any():
        return None
    return int(rows[0]), int(bytes[0])


def _over_rows(
    box: Box, rows: list[int], begins: list[tuple[int, int]], period: int
) -> Iterator[Box]:
    """The box in each of several output rows, as few boxes.

    rows: the output rows.
    begins: row and offset of the input, relative to which the box is given."""
    constant = box.tensor == FILL
    every = [(r, *((0, 0) if constant else b)) for r, b in zip(rows, begins, strict=True)]
    runs = [
        run
        for first in range(period)
        for run in _progressions([x for x in every if x[0] % period == first])
    ]
    height = box.shape.height
    if height > 1 and len(every) <= height * len(runs):
        for r, row, offset in every:  # its rows are within one output row
            target = box.target._replace(row=r)
            source = box.source._replace(
                row=box.source.row + row, offset=box.source.offset + offset
            )
            yield replace(box, target=target, source=source)
        return
    for k in range(height):
        source, target = box.source, box.target
        begin = source.row + k * source.row_step, source.offset + k * source.row_bytes
        for (r, row, offset), count, (step, row_step, row_bytes) in runs:
            place = target.offset + k * target.row_bytes
            yield replace(
                box,
                shape=box.shape._replace(height=count),
                target=Lines(r, step, place, 0, target.pixel_bytes),
                source=Lines(
                    begin[0] + row, row_step, begin[1] + offset, row_bytes, source.pixel_bytes
                ),
            )


Row = tuple[int, int, int]  # An output row, and the row and offset of the input at which it begins.


def _progressions(rows: list[Row]) -> Iterator[tuple[Row, int, Row]]:
    """(first, count, step) of the arithmetic progressions of which the rows consist."""
    begin = 0
    while begin < len(rows):
        first, count, step = rows[begin], 1, (0, 0, 0)
        if begin + 1 < len(rows):
            a, b, c = (y - x for x, y in zip(first, rows[begin + 1], strict=True))
            step = a, b, c
            count = 2
            while begin + count < len(rows) and rows[begin + count] == (
                first[0] + count * a,
                first[1] + count * b,
                first[2] + count * c,
            ):
                count += 1
        yield first, count, step
        begin += count
