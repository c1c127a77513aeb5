"""operation: an operator in terms of the NPU's parameters. A kernel call computes some rows of its
output. Scratch is the working memory of a call; a segment holds the weights and biases of
consecutive output channels.

An `Operation` describes the computation of a whole output tensor. Its methods return the work, the
padding and the input rows for any interval of output rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from math import inf

from penstock_ethos_u.blocks import ComputeKind, Extent, NpuWork, depth_step
from penstock_ethos_u.configurations import BLOCK_CHANNELS, EthosUConfiguration, MapShape
from penstock_ethos_u.performance import Block, Cycles, fastest_block_and_cycles
from penstock_ethos_u.tiles import MOST_SCATTERED_ROWS

STEP = 16  # Alignment of encoded constants, in bytes.


class NpuFunction(IntEnum):
    """The function that an operation computes. MAXIMUM and AVERAGE are those of a window. LOOKUP
    replaces each element by its entry in a table. COPY copies the input, for example to some
    channels of the output of a concatenation. LARGER and SMALLER select one of two elements.
    LOOKUP_DIFFERENCE replaces a difference by its entry in a table; CHANNEL_SUM is the sum of the
    channels of a pixel, LEADING_ZEROS the number of those of an element of 32 bits."""

    CONVOLUTION = 0
    DEPTHWISE = 1
    MAXIMUM = 2
    AVERAGE = 3
    LOOKUP = 4
    ADD = 5
    SUBTRACT = 6
    MULTIPLY = 7
    COPY = 8
    LARGER = 9
    SMALLER = 10
    LOOKUP_DIFFERENCE = 11
    CHANNEL_SUM = 12
    LEADING_ZEROS = 13
    SHIFT_LEFT = 14
    SHIFT_RIGHT = 15


# How the NPU computes each function.
KINDS = {
    NpuFunction.CONVOLUTION: ComputeKind.CONVOLUTION,
    NpuFunction.DEPTHWISE: ComputeKind.DEPTHWISE,
    NpuFunction.MAXIMUM: ComputeKind.POOLING,
    NpuFunction.AVERAGE: ComputeKind.POOLING,
    NpuFunction.LOOKUP: ComputeKind.POOLING,
    NpuFunction.ADD: ComputeKind.ELEMENTWISE,
    NpuFunction.SUBTRACT: ComputeKind.ELEMENTWISE,
    NpuFunction.MULTIPLY: ComputeKind.ELEMENTWISE,
    NpuFunction.COPY: ComputeKind.POOLING,
    NpuFunction.LARGER: ComputeKind.ELEMENTWISE,
    NpuFunction.SMALLER: ComputeKind.ELEMENTWISE,
    NpuFunction.LOOKUP_DIFFERENCE: ComputeKind.ELEMENTWISE,
    NpuFunction.CHANNEL_SUM: ComputeKind.POOLING,
    NpuFunction.LEADING_ZEROS: ComputeKind.ELEMENTWISE,
    NpuFunction.SHIFT_LEFT: ComputeKind.ELEMENTWISE,
    NpuFunction.SHIFT_RIGHT: ComputeKind.ELEMENTWISE,
}
# Maximum rows or columns of a window whose elements Ethos-U85 counts to compute an average.
COUNTED_WINDOW = 8
UNSIGNED = 128  # Difference of a uint8 element and the int8 element of the same real number.
# Functions that replace elements by entries of a table.
TABULATED = (NpuFunction.LOOKUP, NpuFunction.LOOKUP_DIFFERENCE)


@dataclass(frozen=True, slots=True)
class SecondInput:
    """The second input of an element-wise operation: a tensor, or a scalar (a constant with a
    single element).

    shape: rows, columns and channels. The input is broadcast along axes where its extent is 1.
    zero: zero point.
    packed: whether the layout is NHCWB16 instead of NHWC.
    scalar: the value of a scalar; None for a tensor.
    is_left: whether the input is the left operand, which matters for a difference."""

    shape: MapShape
    zero: int = 0
    packed: bool = False
    scalar: int | None = None
    is_left: bool = False

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of the tensor."""
        return row_bytes(self.shape.width, self.shape.depth, self.packed)


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of the NPU on tensors of int8, or of int32 in NHWC.

    configuration: the hardware configuration.
    function: the function that is computed, such as a convolution or a sum.
    in_h, in_w, in_c, out_h, out_w, out_c: rows, columns and channels of the input and of the
        output.
    kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w: taps, stride and dilation of the
        window in rows and columns.
    pad_top, pad_left: rows and columns of padding before the input.
    in_zero, out_zero: zero points.
    least, most: limits to which output elements are clamped.
    packed_in, packed_out: whether the layout is NHCWB16 instead of NHWC.
    second: the second input of an element-wise operation.
    multiplier0, shift0, multiplier1, shift1, out_multiplier, out_shift: TFLite's multipliers and
        shifts of the first input, the second input and the output of an element-wise operation.
    part_kernel: True if weights are encoded part kernel first (several taps of few channels at a
        time), False if depth first (one tap of many channels at a time).
    block_depth: number of output channels that the NPU computes at a time; 0 if not fixed.
    channels_per_segment: number of output channels of a segment (channels whose constants are
        stored together), except that the last segment may have fewer; 0 for a single segment.
    constant_bytes: size of encoded weights and biases, or of a constant second input.
    buffer_bytes: size of a buffer in scratch, into which the call copies a segment before it uses
        the segment. Prefetched segments are not copied again. If the size is 0, there are no
        buffers: the call reads segments where they are stored.
    segment_bytes: size of the encoded constants of each segment; () if they are not encoded yet.
    prefetched_segments: number of segments, counted from the first, that an earlier call has copied
        to the memory that holds tensors.
    prefetched_biases: whether an earlier call has copied all biases to the memory that holds
        tensors.
    upscale: `upscale - 1` rows and columns of zeros are inserted after each input row and column,
        as in a transposed convolution; 1 for none.
    in_bytes, out_bytes: bytes of an element of the inputs and of the output: 1 or 4.
    unsigned_in, unsigned_out: whether the elements of the first input or of the output are uint8:
        they exceed the int8 elements, to which zero points and limits refer, by 128."""

    configuration: EthosUConfiguration
    function: NpuFunction
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
    packed_in: bool = False
    packed_out: bool = False
    second: SecondInput | None = None
    multiplier0: int = 0
    shift0: int = 0
    multiplier1: int = 0
    shift1: int = 0
    out_multiplier: int = 0
    out_shift: int = 0
    part_kernel: bool = False
    block_depth: int = 0
    channels_per_segment: int = 0
    constant_bytes: int = 0
    buffer_bytes: int = 0
    segment_bytes: tuple[int, ...] = ()
    prefetched_segments: int = 0
    prefetched_biases: bool = False
    upscale: int = 1
    in_bytes: int = 1
    out_bytes: int = 1
    unsigned_in: bool = False
    unsigned_out: bool = False

    @property
    def kind(self) -> ComputeKind:
        """The kind of the computation: convolution, depthwise convolution, pooling (also for
        look-ups and copies) or element-wise."""
        return KINDS[self.function]

    @property
    def weighted(self) -> bool:
        """Whether the operation has weights: it is a convolution or a depthwise convolution. This
        includes means and sums over axes, which are computed as convolutions with weights of 1."""
        return self.kind in (ComputeKind.CONVOLUTION, ComputeKind.DEPTHWISE)

    @property
    def scales_sum(self) -> bool:
        """Whether an average is a sum that is multiplied by the reciprocal of the elements of its
        window: Ethos-U85 only counts the elements of small windows."""
        return self.rounds_average_once and max(self.kernel_h, self.kernel_w) > COUNTED_WINDOW

    @property
    def rounds_average_once(self) -> bool:
        """Whether the operation is an average that is rounded to nearest, ties upwards, which
        Ethos-U85 does for averages."""
        return self.function is NpuFunction.AVERAGE and self.configuration.memories is not None

    @property
    def constants_in_sram(self) -> bool:
        """Whether constants are stored in the memory that holds tensors, as in memory mode
        sram_only."""
        return self.configuration.constants is self.configuration.features

    @property
    def second_tensor(self) -> SecondInput | None:
        """The second input if it is a tensor, otherwise None."""
        return self.second if self.second is not None and self.second.scalar is None else None

    @property
    def segment_channels(self) -> tuple[int, ...]:
        """The number of output channels of each segment, such as (16, 16, 8)."""
        return _divided_channels(self.out_c, self.channels_per_segment or self.out_c)

    @property
    def buffers(self) -> int:
        """The number of buffers into which a call copies segments: 0, 1 or 2. With two buffers, one
        segment is copied while another is used."""
        return min(2, len(self.buffered))

    @property
    def buffered(self) -> range:
        """Indices of the segments that a call copies into buffers before use."""
        segments = range(self.prefetched_segments, len(self.segment_channels))
        return segments if self.buffer_bytes else range(0)

    @property
    def prefetched(self) -> bool:
        """Whether an earlier call has copied any of the constants."""
        return self.prefetched_segments > 0 or self.prefetched_biases

    def reads_copy(self, segment: int) -> bool:
        """Return whether the operation reads a segment from a copy in the memory that holds
        tensors. Either the call itself copies the segment to a buffer, or an earlier call did.

        segment: index of the segment."""
        return bool(self.buffer_bytes) or segment < self.prefetched_segments

    @property
    def gather_bytes(self) -> int:
        """Size in bytes of the scratch to which the input rows of one window are copied if they are
        scattered; 0 if the NPU can read every window in place."""
        rows = -(-self.reach_h // self.upscale)
        return rows * self.in_row_bytes if rows > MOST_SCATTERED_ROWS and self.out_h > 1 else 0

    @property
    def buffer_sizes(self) -> tuple[int, ...]:
        """Size in bytes of each buffer. Segment k is copied to buffer k modulo their number."""
        sizes = self.segment_bytes or (self.buffer_bytes,) * len(self.segment_channels)
        count = self.buffers
        return tuple(
            max(sizes[k] for k in self.buffered if k % count == slot) for slot in range(count)
        )

    @property
    def scratch_bytes(self) -> int:
        """Size in bytes of the scratch of a call whose input rows are not scattered in memory: the
        buffers for segments."""
        return sum(self.buffer_sizes)

    @property
    def gather_offset(self) -> int:
        """Offset in scratch of the copied input rows of a window, which follow the buffers."""
        return -(-self.scratch_bytes // STEP) * STEP

    @property
    def reach_h(self) -> int:
        """Rows that a window spans, including dilation."""
        return (self.kernel_h - 1) * self.dilation_h + 1

    @property
    def reach_w(self) -> int:
        """Columns that a window spans, including dilation."""
        return (self.kernel_w - 1) * self.dilation_w + 1

    @property
    def in_row_bytes(self) -> int:
        """Bytes of a row of the first input."""
        return row_bytes(self.in_w, self.in_c, self.packed_in)

    @property
    def read_w(self) -> int:
        """Number of input columns that the windows cover, not counting padding."""
        columns = (self.out_w - 1) * self.stride_w + self.reach_w - self.pad_left
        return min(self.in_w, -(-columns // self.upscale))

    @property
    def out_row_bytes(self) -> int:
        """Bytes of a row of the output."""
        return row_bytes(self.out_w, self.out_c, self.packed_out)

    def reads(self, first: int, end: int) -> tuple[int, int]:
        """Return the input rows [lower, upper) that output rows [first, end) depend on."""
        lower, upper = self._upscaled_rows(first, end)
        return max(-(-lower // self.upscale), 0), min(-(-upper // self.upscale), self.in_h)

    def padding(self, first: int, end: int) -> tuple[int, int, int, int]:
        """Return the number of padding rows and columns (top, left, bottom, right) that the windows
        of output rows [first, end) contain. If the windows begin with rows of zeros that upscaling
        has inserted, these rows count as padding at the top."""
        lower, upper = self._upscaled_rows(first, end)
        top = self.upscale * self.reads(first, end)[0] - lower
        bottom = upper - self.upscale * self.in_h
        columns = (self.out_w - 1) * self.stride_w + self.reach_w - self.pad_left
        return top, self.pad_left, max(0, bottom), max(0, columns - self.upscale * self.in_w)

    def second_rows(self, first: int, end: int) -> tuple[int, int]:
        """Return the rows [lower, upper) of the second input that output rows [first, end) depend
        on: (first, end), or (0, 1) if a single row is broadcast."""
        second = self.second_tensor
        return (first, end) if second is None or second.shape.height == self.out_h else (0, 1)

    def position(self, first: int, end: int) -> tuple[int, ...]:
        """Return a cache key for output rows [first, end). Two intervals of rows with equal keys
        and equal lengths read the same number of input rows and have equal padding.

        The key is (first, end) if the windows of the rows contain padding, otherwise (k,). Here, k
        is 0 if the first window begins at an input row. Upscaling inserts rows of zeros after each
        input row; k is 1 if the first window begins at the first of these, 2 at the second."""
        lower, upper = self._upscaled_rows(first, end)
        if lower >= 0 and upper <= self.upscale * self.in_h:
            return (lower % self.upscale,)
        return first, end

    def _upscaled_rows(self, first: int, end: int) -> tuple[int, int]:
        """The rows [lower, upper) of the upscaled input that the windows of output rows
        [first, end) cover, including padding: `lower` is negative if they cover padding at the top.
        """
        # The upscaled input has `upscale - 1` rows of zeros after each input row.
        upper = (end - 1) * self.stride_h + self.reach_h
        return first * self.stride_h - self.pad_top, upper - self.pad_top

    def work(
        self,
        rows: int,
        segment: int = 0,
        *,
        read: int | None = None,
        constant_bytes: int | None = None,
    ) -> NpuWork:
        """Return the properties from which the performance model estimates the cycles of computing
        `rows` output rows for the output channels of one segment.

        segment: index of the segment.
        constant_bytes: bytes of constants that are read. The default for weights and biases is a
            fraction of their total size, in proportion to the output channels of the segment. The
            default for a constant second input is the size of the rows that are read."""
        rows = min(rows, self.out_h)
        channels = self.segment_channels[segment]
        if read is None:
            seen = (rows - 1) * self.stride_h + self.reach_h
            read = min(self.in_h, -(-seen // self.upscale))
        if constant_bytes is None:
            constant_bytes = self._constant_bytes(rows, channels)
        chip = self.configuration
        return NpuWork(
            chip.in_sram if self.reads_copy(segment) else chip,
            self.kind,
            MapShape(
                read,
                self.read_w,
                self.in_c if self.mixes_channels else channels,
            ),
            MapShape(rows, self.out_w, channels),
            self._rate,
            Extent(self.kernel_h, self.kernel_w),
            Extent(self.stride_h, self.stride_w),
            Extent(self.dilation_h, self.dilation_w),
            self.upscale,
            binary=self.second_tensor is not None,
            second_elements=self._second_elements(rows),
            lookup=self.function in TABULATED,
            part_kernel=self.part_kernel,
            packed_input=self.packed_in,
            packed_output=self.packed_out,
            constant_bytes=constant_bytes,
            biases_in_tensor_memory=self.prefetched_biases,
            element_bytes=self.in_bytes,
        )

    @property
    def mixes_channels(self) -> bool:
        """Whether an output channel depends on all input channels."""
        return self.kind is ComputeKind.CONVOLUTION or self.function is NpuFunction.CHANNEL_SUM

    def _constant_bytes(self, rows: int, channels: int) -> int:
        """The size in bytes of the constants that are needed to compute `rows` rows of
        `channels` output channels: a constant second input, or weights and biases."""
        if self.second_tensor is not None and self.constant_bytes:
            height, width, depth = self.second_tensor.shape
            return min(rows, height) * width * depth
        return self.constant_bytes * channels // self.out_c

    def _second_elements(self, rows: int) -> int | None:
        second = self.second_tensor
        if second is not None and self.constant_bytes:
            return 0
        if second is None or second.shape == (self.out_h, self.out_w, self.out_c):
            return None
        height, width, depth = second.shape
        return min(rows, height) * width * depth

    def fastest_block_and_cycles(self, work: NpuWork) -> tuple[Block, Cycles] | None:
        """Return the block size (rows, columns, channels) with which `work` takes the fewest
        cycles, and these cycles, or None if no block size fits the NPU's internal memory.

        work: the part of the operation to compute, as returned by the method `work`."""
        # Blocks have `block_depth` channels or, if these are fewer, all output channels of `work`,
        # rounded up to whole micro blocks.  A `block_depth` of 0 permits any number of channels.
        if not self.block_depth:
            return fastest_block_and_cycles(work)
        step = depth_step(work)
        return fastest_block_and_cycles(
            work, min(self.block_depth, -(-work.output.depth // step) * step)
        )

    @property
    def _rate(self) -> float:
        """Cycles per output element in the output unit, which scales and writes results."""
        rates = self.configuration.rates
        own = {
            NpuFunction.MAXIMUM: rates.maximum,
            NpuFunction.COPY: rates.maximum,
            NpuFunction.LOOKUP: max(rates.maximum, rates.lookup),
            NpuFunction.ADD: rates.add,
            NpuFunction.SUBTRACT: rates.add,
            NpuFunction.MULTIPLY: rates.multiply,
            NpuFunction.LOOKUP_DIFFERENCE: max(rates.add, rates.lookup),
        }.get(self.function, rates.other)
        if max(self.in_bytes, self.out_bytes) > 1:
            own = max(own, rates.wide)
        limited = self.least > -128 or self.most < 127
        limited = limited or (self.out_bytes > 1 and self.function not in TABULATED)
        return max(own, rates.clamp) if limited else own


@lru_cache
def _divided_channels(channels: int, step: int) -> tuple[int, ...]:
    """The numbers of channels of the segments into which `channels` output channels are
    divided: `step` each, and the rest in the last one. For 40 channels and step 16: (16, 16, 8)."""
    return tuple(min(step, channels - k) for k in range(0, channels, step))


@lru_cache(maxsize=4096)
def fastest_copy(op: Operation) -> Operation:
    """Return the faster of two operations that copy: `op`, a maximum over windows of one element,
    and the maximum of each element and the least one."""
    least = SecondInput(MapShape(1, 1, 1), scalar=-128)
    other = replace(op, function=NpuFunction.LARGER, second=least)
    return min(op, other, key=_whole_cycles)


@lru_cache(maxsize=4096)
def fastest_lookup(op: Operation) -> Operation:
    """Return the faster of two operations that look elements up in a table: `op`, in a maximum over
    windows of one element, and their differences from 0."""
    zero = SecondInput(MapShape(1, 1, 1), scalar=0)
    other = replace(op, function=NpuFunction.LOOKUP_DIFFERENCE, second=zero)
    return min(op, other, key=_whole_cycles)


def _whole_cycles(op: Operation) -> float:
    found = op.fastest_block_and_cycles(op.work(op.out_h))
    return inf if found is None else float(found[1].total[0])


def row_bytes(width: int, channels: int, packed: bool) -> int:
    """Return the size in bytes of a row of `width` columns of int8 elements. If `packed`, channels
    are rounded up to a multiple of 16, as in layout NHCWB16."""
    depth = -(-channels // BLOCK_CHANNELS) * BLOCK_CHANNELS if packed else channels
    return width * depth


def reciprocal(count: int, *, scales_sum: bool) -> tuple[int, int]:
    """Return (scale, shift) such that `scale` / 2 ** `shift` is the reciprocal by which the NPU
    multiplies the sum of `count` elements to compute an average.

    scales_sum: whether the factor is that of a sum, `Operation.scales_sum`, which has 31 bits."""
    more, bits = (count - 1).bit_length(), 30 if scales_sum else 31
    return ((1 << (bits + more)) + (1 << more)) // count, bits + more


# Prefetches and copies of an operation's segments of constants. A segment holds the
# weights and biases of consecutive output channels.


def with_prefetched_segments(op: Operation, count: int) -> Operation:
    """Return a variant of `op` whose first `count` segments are prefetched: an earlier call has
    copied them, and the operation reads the copies."""
    # The operation still copies the remaining segments itself, into its own buffers.  If all
    # segments are prefetched, it has no buffers.
    buffer = op.buffer_bytes if count < len(op.segment_channels) else 0
    return replace(op, prefetched_segments=count, buffer_bytes=buffer)


def prefetch_choices(op: Operation) -> tuple[int, ...]:
    """Return the numbers of segments of `op` that a prefetch may contain: 1, a quarter, half and
    all of them, in ascending order without duplicates. For 8 segments, the result is (1, 2, 4,
    8)."""
    count = len(op.segment_channels)
    return tuple(sorted({1, max(1, count // 4), max(1, count // 2), count}))


def copied_before(op: Operation, segment: int) -> int:
    """Return when a call copies a segment into a buffer: the result is the index of the segment
    before whose operations the copy is issued.

    segment: index of the copied segment.

    There are two buffers. The first copy is issued at the start of the call. The second one is,
    too, if the NPU runs two copies at a time, or if no operation runs before the first copy is
    complete; otherwise it follows the first operation, which would else wait until it can be
    issued. Each later copy is issued as soon as the operations that read its buffer have been
    issued. If no segments are prefetched, the results for segments 0 to 4 are 0, 0, 1, 2 and 3:
    segments 0 and 1 are copied before the operations of segment 0, segment 2 before the operations
    of segment 1, and so on."""
    first = op.prefetched_segments
    if segment == first + 1 and op.configuration.most_copies == 1:
        return min(first, 1)
    return 0 if segment <= first + 1 else segment - 1
