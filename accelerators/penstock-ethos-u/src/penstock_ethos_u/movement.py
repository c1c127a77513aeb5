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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from penstock.uma import Array, Node, Region
from penstock_ethos_u.configurations import MapShape

FILL = -1  # The index of the input of a box that is filled with a constant.
FIRST_INDEX = 1 << 16  # Indices of elements begin here; smaller numbers are constants.
# Output rows, and columns, are also considered with every second, third .. of them as a box.
PERIODS = (1, 2, 3, 4, 8)
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


@lru_cache(maxsize=256)
def _boxes(op: Any, site: Any, extents: tuple[MapShape, ...]) -> tuple[Box, ...]:
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
    planes = _Planes.of(found.reshape(extents[-1]), extents[:-1])
    tried = [planes.boxes(rows, columns) for rows in PERIODS for columns in PERIODS]
    return min(tried, key=lambda every: sum(box.copies for box in every))


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

    def boxes(self, row_period: int, column_period: int) -> tuple[Box, ...]:
        """The boxes, if every `row_period`-th row and every `column_period`-th column may form a
        box."""
        found = list[Box]()
        for (tensor, row, offset), rows, bases in self._kinds():
            plane = _Planes(tensor, row, offset)
            for box in plane._rectangles(column_period):
                found += _over_rows(box, rows, bases, row_period)
                if len(found) > MOST_BOXES:
                    return tuple(found)
        return tuple(found)

    def _kinds(self) -> Iterator[tuple[tuple[Array, Array, Array], list[int], list[int]]]:
        """(plane, output rows, input rows): output rows whose planes differ only in the input row
        at which they begin."""
        kinds = dict[bytes, tuple[tuple[Array, Array, Array], list[int], list[int]]]()
        for r, (tensor, row, offset) in enumerate(
            zip(self.tensor, self.row, self.offset, strict=True)
        ):
            moved = tensor != FILL
            base = int(row[moved][0]) if moved.any() else 0
            relative = np.where(moved, row - base, 0)
            key = tensor.tobytes() + relative.tobytes() + offset.tobytes()
            _, rows, bases = kinds.setdefault(key, ((tensor, relative, offset), [], []))
            rows.append(r)
            bases.append(base)
        yield from kinds.values()

    def _rectangles(self, period: int) -> Iterator[Box]:
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


def _over_rows(box: Box, rows: list[int], bases: list[int], period: int) -> Iterator[Box]:
    """The box in each of several output rows, as few boxes.

    rows, bases: the output rows, and the rows of the input relative to which the box is given."""
    constant = box.tensor == FILL
    for first in range(period):
        every = zip(rows, bases, strict=True)
        pairs = [(r, 0 if constant else q) for r, q in every if r % period == first]
        while pairs:
            (r, q), count, step = pairs[0], 1, (0, 0)
            if box.shape.height == 1 and len(pairs) > 1:
                step = pairs[1][0] - r, pairs[1][1] - q
                count = next(
                    (
                        n
                        for n, pair in enumerate(pairs)
                        if pair != (r + n * step[0], q + n * step[1])
                    ),
                    len(pairs),
                )
            yield replace(
                box,
                shape=box.shape._replace(height=max(count, box.shape.height)),
                target=box.target._replace(row=r, row_step=step[0]),
                source=box.source._replace(
                    row=box.source.row + q, row_step=step[1] or box.source.row_step
                ),
            )
            del pairs[:count]
