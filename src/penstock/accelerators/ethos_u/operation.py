"""operation: an operator on the NPU, as whole numbers, which commands of a call can hold.

Of some rows of its output it says the work, the block in which they are computed and the padding.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

from penstock.accelerators.ethos_u.configurations import (
    BRICK,
    CONFIGURATIONS,
    Configuration,
    Shape,
)
from penstock.accelerators.ethos_u.performance import Block, Cycles, soonest
from penstock.accelerators.ethos_u.tiles import ANYWHERE
from penstock.accelerators.ethos_u.work import Extent, Kind, Work

STEP = 16
"""Bytes to a multiple of which constants are filled up."""

NAMES = tuple(CONFIGURATIONS)
"""Configurations by their numbers."""
BINARY, WITH_SCALAR = 1, 2
"""`second`: a tensor, whose extents are the output's or 1, or one number; 0 for operations of one
input."""


class Function(IntEnum):
    """What an operation computes."""

    CONVOLUTION = 0
    DEPTHWISE = 1
    MAXIMUM = 2
    AVERAGE = 3
    LOOKUP = 4
    ADD = 5
    SUBTRACT = 6
    MULTIPLY = 7
    COPY = 8


KINDS = {
    Function.CONVOLUTION: Kind.CONVOLUTION,
    Function.DEPTHWISE: Kind.DEPTHWISE,
    Function.MAXIMUM: Kind.POOLING,
    Function.AVERAGE: Kind.POOLING,
    Function.LOOKUP: Kind.POOLING,
    Function.ADD: Kind.ELEMENTWISE,
    Function.SUBTRACT: Kind.ELEMENTWISE,
    Function.MULTIPLY: Kind.ELEMENTWISE,
    Function.COPY: Kind.POOLING,
}


@dataclass(frozen=True, slots=True)
class Operation:
    """Shapes and window; zero points and limits; layouts, NHCWB16 where `packed`; of the second
    input its extents and zero point, that number where it is one, and whether it is the left one;
    multipliers and shifts as TFLite has them.

    `part_kernel`, `block_depth`: in which order weights are encoded, `constant_bytes` of them with
    biases (or of a second input that is constant), in segments of `slice_channels` output channels.
    The first segments, `ahead` of them, have been fetched before the call, or all biases.  Where
    `buffer_bytes` is not 0, each of the others is copied into one of `buffers` of so many bytes
    before it is used.

    `upscale`: windows see so many rows and columns for each of the input, those between zeros."""

    chip: int
    sram_only: int
    function: int
    in_h: int
    in_w: int
    in_c: int
    out_h: int
    out_w: int
    out_c: int
    kernel_h: int = 1
    kernel_w: int = 1
    stride_h: int = 1
    stride_w: int = 1
    dilation_h: int = 1
    dilation_w: int = 1
    pad_top: int = 0
    pad_left: int = 0
    in_zero: int = 0
    out_zero: int = 0
    least: int = -128
    most: int = 127
    packed_in: int = 0
    packed_second: int = 0
    packed_out: int = 0
    second: int = 0
    second_h: int = 0
    second_w: int = 0
    second_c: int = 0
    second_zero: int = 0
    scalar: int = 0
    second_first: int = 0
    multiplier0: int = 0
    shift0: int = 0
    multiplier1: int = 0
    shift1: int = 0
    out_multiplier: int = 0
    out_shift: int = 0
    part_kernel: int = 0
    block_depth: int = 0
    slice_channels: int = 0
    constant_bytes: int = 0
    buffer_bytes: int = 0
    ahead: int = 0
    biases_ahead: int = 0
    upscale: int = 1

    @property
    def configuration(self) -> Configuration:
        found = CONFIGURATIONS[NAMES[self.chip]]
        return found.in_sram if self.sram_only else found

    @property
    def kind(self) -> Kind:
        return KINDS[Function(self.function)]

    @property
    def weighted(self) -> bool:
        """Whether it has weights."""
        return self.kind in (Kind.CONVOLUTION, Kind.DEPTHWISE)

    @property
    def slices(self) -> tuple[int, ...]:
        """Output channels of each segment."""
        return _slices(self.out_c, self.slice_channels or self.out_c)

    @property
    def buffers(self) -> int:
        """While one segment is used, the next one is copied."""
        return min(2, len(self.buffered))

    @property
    def buffered(self) -> range:
        """Segments that are copied in the call."""
        return range(self.ahead, len(self.slices)) if self.buffer_bytes else range(0)

    @property
    def fetched(self) -> bool:
        """Whether any constants have been fetched before the call."""
        return bool(self.ahead or self.biases_ahead)

    def near(self, segment: int) -> bool:
        """Whether the constants of a segment are read in the memory of tensors."""
        return bool(self.buffer_bytes) or segment < self.ahead

    @property
    def gather_bytes(self) -> int:
        """Working memory for the rows of a window, which may lie in more than two pieces."""
        rows = -(-self.reach_h // self.upscale)
        return rows * self.in_row_bytes if rows > ANYWHERE and self.out_h > 1 else 0

    @property
    def scratch_bytes(self) -> int:
        """All working memory: gathered rows, then buffers."""
        return -(-self.gather_bytes // STEP) * STEP + self.buffers * self.buffer_bytes

    @property
    def reach_h(self) -> int:
        """Rows from the first to the last tap of a window."""
        return (self.kernel_h - 1) * self.dilation_h + 1

    @property
    def in_row_bytes(self) -> int:
        return row_bytes(self.in_w, self.in_c, bool(self.packed_in))

    @property
    def read_w(self) -> int:
        """Columns of the input that the windows see."""
        reach = (self.kernel_w - 1) * self.dilation_w + 1
        columns = (self.out_w - 1) * self.stride_w + reach - self.pad_left
        return min(self.in_w, -(-columns // self.upscale))

    @property
    def second_row_bytes(self) -> int:
        return row_bytes(self.second_w, self.second_c, bool(self.packed_second))

    @property
    def out_row_bytes(self) -> int:
        return row_bytes(self.out_w, self.out_c, bool(self.packed_out))

    def reads(self, first: int, end: int) -> tuple[int, int]:
        """Rows of the input under the windows of rows [first, end) of the output."""
        lower, upper = self._under(first, end)
        return max(-(-lower // self.upscale), 0), min(-(-upper // self.upscale), self.in_h)

    def padding(self, first: int, end: int) -> tuple[int, int, int, int]:
        """Rows above and below, columns left and right of what these rows read, that the windows
        see and that are not there: top, left, bottom, right."""
        lower, upper = self._under(first, end)
        top = self.upscale * self.reads(first, end)[0] - lower
        bottom = upper - self.upscale * self.in_h
        reach_w = (self.kernel_w - 1) * self.dilation_w + 1
        columns = (self.out_w - 1) * self.stride_w + reach_w - self.pad_left
        return top, self.pad_left, max(0, bottom), max(0, columns - self.upscale * self.in_w)

    def second_rows(self, first: int, end: int) -> tuple[int, int]:
        """Rows of the second input for rows [first, end) of the output."""
        return (first, end) if self.second_h == self.out_h else (0, 1)

    def position(self, first: int, end: int) -> tuple[int, ...]:
        """What calls for as many rows have in common that read and pad alike: where the first row
        lies between zeros, or which row it is where windows reach over the tensor's edge."""
        lower, upper = self._under(first, end)
        if lower >= 0 and upper <= self.upscale * self.in_h:
            return (lower % self.upscale,)
        return first, end

    def _under(self, first: int, end: int) -> tuple[int, int]:
        """Rows that windows see, those that are not there too, counted as they see them."""
        upper = (end - 1) * self.stride_h + self.reach_h
        return first * self.stride_h - self.pad_top, upper - self.pad_top

    def work(
        self,
        rows: int,
        segment: int = 0,
        *,
        read: int | None = None,
        constant_bytes: int | None = None,
    ) -> Work:
        """Of so many rows and the output channels of a segment.

        `read`: rows of the input that the windows see, as many as in the middle of the tensor
        unless said.  `constant_bytes`: of the segment, its share of all unless said."""
        rows = min(rows, self.out_h)
        channels = self.slices[segment]
        if read is None:
            seen = (rows - 1) * self.stride_h + self.reach_h
            read = min(self.in_h, -(-seen // self.upscale))
        if constant_bytes is None:
            constant_bytes = self._constant_bytes(rows, channels)
        chip = self.configuration
        return Work(
            chip.in_sram if self.near(segment) else chip,
            self.kind,
            Shape(read, self.read_w, channels if self.kind is not Kind.CONVOLUTION else self.in_c),
            Shape(rows, self.out_w, channels),
            self._rate,
            Extent(self.kernel_h, self.kernel_w),
            Extent(self.stride_h, self.stride_w),
            Extent(self.dilation_h, self.dilation_w),
            self.upscale,
            binary=self.second == BINARY,
            second_elements=self._second_elements(rows),
            lookup=self.function == Function.LOOKUP,
            part_kernel=bool(self.part_kernel),
            packed_input=bool(self.packed_in),
            packed_output=bool(self.packed_out),
            constant_bytes=constant_bytes,
            biases_near=bool(self.biases_ahead),
        )

    def _constant_bytes(self, rows: int, channels: int) -> int:
        """Of so many rows and channels: weights and biases, or elements of a constant input."""
        if self.second == BINARY and self.constant_bytes:
            return min(rows, self.second_h) * self.second_w * self.second_c
        return self.constant_bytes * channels // self.out_c

    def _second_elements(self, rows: int) -> int | None:
        """Of the second input in the memory of tensors, where they are not as many as the
        output's."""
        if self.second == BINARY and self.constant_bytes:
            return 0
        extents = self.second_h, self.second_w, self.second_c
        if self.second != BINARY or extents == (self.out_h, self.out_w, self.out_c):
            return None
        return min(rows, self.second_h) * self.second_w * self.second_c

    def soonest(self, work: Work) -> tuple[Block, Cycles] | None:
        """In which block work of the operation is done soonest, and how long it takes; None where
        none fits."""
        if not self.block_depth:
            return soonest(work)
        step = self.configuration.micro_block.depth
        return soonest(work, min(self.block_depth, -(-work.output.depth // step) * step))

    @property
    def _rate(self) -> float:
        """Cycles for each element behind the multipliers."""
        rates = self.configuration.rates
        own = {
            Function.MAXIMUM: rates.maximum,
            Function.COPY: rates.maximum,
            Function.LOOKUP: max(rates.maximum, rates.lookup),
            Function.ADD: rates.add,
            Function.SUBTRACT: rates.add,
            Function.MULTIPLY: rates.multiply,
        }.get(Function(self.function), rates.other)
        limited = self.least > -128 or self.most < 127
        return max(own, rates.clamp) if limited else own


@lru_cache
def _slices(channels: int, step: int) -> tuple[int, ...]:
    """So many channels in steps."""
    return tuple(min(step, channels - k) for k in range(0, channels, step))


def row_bytes(width: int, channels: int, packed: bool) -> int:
    """Bytes of a row of int8 elements."""
    return width * (-(-channels // BRICK) * BRICK if packed else channels)
