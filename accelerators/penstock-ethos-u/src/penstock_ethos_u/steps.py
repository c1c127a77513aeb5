"""steps: operators that several NPU operations compute, one after the other.

A step is an operation on boxes of tensors: of the operator's inputs and output, and of tensors in
scratch (the working memory of a call). Rows of a box are rows of a tensor at a constant distance,
or places within one row of it (`movement.Lines`). A call computes some rows of the output; each
step then computes the rows of its box that lie in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from penstock.uma import StreamRows
from penstock_ethos_u.encoding import NO_SEGMENT, ConstantSegment
from penstock_ethos_u.movement import Lines
from penstock_ethos_u.operation import STEP, TABULATED, Operation
from penstock_ethos_u.tiles import MapTiles, tiles_of

RESULT = -1  # Index of the output. Inputs have indices from 0 on, tensors in scratch those below.
SCRATCH = -2
CONSTANTS = -64  # Index of a tensor of a single row, the bytes that precede the constants of steps.
SCRATCH_BYTES = 4096  # Scratch holds a single row, or as many rows as have this size.


class View(NamedTuple):
    """A box of a tensor.

    tensor: index of the input; RESULT; or, counted down from SCRATCH, index of a tensor in scratch.
    lines: rows of the box. Their distances in bytes are those of the layout of the tensor.
    stride: distance in bytes between columns in NHWC, or between blocks of channels in NHCWB16."""

    tensor: int
    lines: Lines
    stride: int = 0

    def tiles(
        self, rows: StreamRows, lower: int, upper: int, row_bytes: int, *, backwards: bool
    ) -> MapTiles | None:
        """Return rows [lower, upper) of the box as a feature map, or None if they form more than
        two tiles (sequences of rows at a constant pitch).

        rows: addresses of the rows of the tensor.
        backwards: permits a negative pitch."""
        lines = self.lines
        if lines.row_step:
            first = lines.row + lower * lines.row_step - rows.lower
            end = first + (upper - lower) * lines.row_step
            found = rows.offsets[first : end if end >= 0 else None : lines.row_step]
            offsets = [at + lines.offset + k * lines.row_bytes for k, at in enumerate(found, lower)]
        else:
            start = rows.offsets[lines.row - rows.lower] + lines.offset
            offsets = [start + k * lines.row_bytes for k in range(lower, upper)]
        tiles = tiles_of(offsets, row_bytes, backwards=backwards)
        return None if tiles is None else tiles._replace(stride=self.stride)


@dataclass(frozen=True, slots=True)
class Step:
    """An operation on boxes.

    op: the operation that would compute the whole box. Its extents are those of the boxes.
    source, second: the inputs of the operation; its second input may be a scalar.
    target: the output of the operation.
    constants: its look-up table, or its encoded biases and weights; empty if it has none.
    segment: sizes of its biases and weights; empty if it has none.
    whole: whether each call computes all rows of the box, whatever its output rows."""

    op: Operation
    source: View
    target: View
    second: View | None = None
    constants: bytes = b""
    segment: ConstantSegment = NO_SEGMENT
    whole: bool = False

    def rows(self, first: int, end: int) -> tuple[int, int]:
        """Return the rows [lower, upper) of the box that belong to output rows [first, end)."""
        row, step = self.target.lines[:2]
        if self.whole:
            return 0, self.op.out_h
        if not step:
            return (0, self.op.out_h if first <= row < end else 0)
        lower, upper = -((row - first) // step), -((row - end) // step)
        return max(lower, 0), max(min(upper, self.op.out_h), 0)

    def views(self, lower: int, upper: int) -> Iterator[tuple[View, int, int]]:
        """Yield the inputs of rows [lower, upper) of the box, and the rows of their boxes."""
        yield self.source, *self.op.reads(lower, upper)
        if self.second is not None:
            yield self.second, *self.op.second_rows(lower, upper)


class Scratch(NamedTuple):
    """A tensor in scratch.

    row_bytes: size of a row.
    height: number of rows; 0 if its rows correspond to rows of the output."""

    row_bytes: int
    height: int = 0


@dataclass(frozen=True, slots=True)
class Steps:
    """The operations that compute an operator, in order.

    steps: the operations.
    extents: number of rows of each input of the operator.
    row_bytes: size of a row of each input.
    out_h: number of rows of the output.
    scratch: tensors in scratch.
    numbers: bytes that precede the constants of the steps, a multiple of 16."""

    steps: tuple[Step, ...]
    extents: tuple[int, ...]
    row_bytes: tuple[int, ...]
    out_h: int
    scratch: tuple[Scratch, ...] = ()
    numbers: bytes = b""

    @property
    def rows_at_a_time(self) -> int:
        """The number of output rows that all steps compute before the next rows are begun."""
        size = sum(tensor.row_bytes for tensor in self.scratch if not tensor.height)
        return min(self.out_h, max(1, SCRATCH_BYTES // size)) if size else self.out_h

    @property
    def scratch_bytes(self) -> int:
        """Size of the working memory of a call in bytes."""
        return sum(map(self._size, self.scratch))

    @property
    def constants(self) -> bytes:
        """The constants of all steps, in order; equal ones are stored once."""
        return self.numbers + b"".join(dict.fromkeys(step.constants for step in self.steps))

    @property
    def only_tables(self) -> bool:
        """Whether look-up tables are the only constants of steps."""
        return all(step.op.function in TABULATED for step in self.steps if step.constants)

    def constants_offset(self, step: Step) -> int:
        """Return where the constants of a step begin in `constants`."""
        every = list(dict.fromkeys(one.constants for one in self.steps))
        return len(self.numbers) + sum(map(len, every[: every.index(step.constants)]))

    def _size(self, tensor: Scratch) -> int:
        size = tensor.row_bytes * (tensor.height or self.rows_at_a_time)
        return -(-size // STEP) * STEP

    def chunks(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Divide output rows [first, end) into intervals of `rows_at_a_time` rows."""
        most = self.rows_at_a_time
        return ((at, min(at + most, end)) for at in range(first, end, most))

    def scratch_rows(self, base: int, begin: int, tensor: int, first: int, end: int) -> StreamRows:
        """Return the addresses of the rows of a tensor in scratch, in a call for output rows
        [first, end).

        base: number of the memory region.
        begin: offset of scratch in the region.
        tensor: index of the tensor, SCRATCH or below."""
        k = SCRATCH - tensor
        size, height = self.scratch[k]
        at = begin + sum(map(self._size, self.scratch[:k]))
        lower, count = (0, height) if height else (first, end - first)
        return StreamRows(base, lower, range(at, at + count * size, size))

    def rows_read(self, tensor: int, first: int, end: int) -> tuple[int, int]:
        """Return the smallest interval of rows of an input that contains what output rows
        [first, end) depend on; (0, 0) if they depend on none."""
        found = list[int]()
        for step in self.steps:
            lower, upper = step.rows(first, end)
            for view, low, high in step.views(lower, upper) if lower < upper else ():
                if view.tensor == tensor:
                    row, row_step = view.lines[:2]
                    found += [row + row_step * low, row + row_step * (high - 1)]
        return (min(found), max(found) + 1) if found else (0, 0)
