"""sizes: the sizes of a task, and the bytes that its hardware layers transfer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from penstock_nvdla.configurations import NvdlaConfiguration
from penstock_nvdla.cut import Convolution
from penstock_nvdla.layer import ConvolutionLayer, Padding, Surface
from penstock_nvdla.pdp import PoolingLayer
from penstock_nvdla.sdp import SdpLayer

# The work that the accelerator executes between two starts.
HardwareLayer = ConvolutionLayer | SdpLayer | PoolingLayer


@dataclass(frozen=True, slots=True)
class LayerTraffic:
    """The bytes that a hardware layer transfers to and from memory.

    features, weights: the bytes of the (first) input and of the weights that are read.
    table: the bytes of SDP's operands of channels.
    second: the bytes of other tensors whose elements SDP reads as operands.
    output: the bytes of the output that are written.

    >>> (LayerTraffic(features=64, output=8) + LayerTraffic(features=8)).total
    80
    """

    features: int = 0
    weights: int = 0
    table: int = 0
    second: int = 0
    output: int = 0

    def __add__(self, other: LayerTraffic) -> LayerTraffic:
        return LayerTraffic(
            self.features + other.features,
            self.weights + other.weights,
            self.table + other.table,
            self.second + other.second,
            self.output + other.output,
        )

    @property
    def total(self) -> int:
        """The number of bytes read and written: the sum of all fields."""
        return self.features + self.weights + self.table + self.second + self.output


def traffic_of_convolution(layer: ConvolutionLayer, atom_bytes: int) -> LayerTraffic:
    """Return the bytes of features and weights that a convolution transfers to and from memory.

    atom_bytes: the size in bytes of a memory atom."""
    rows = 0 if layer.reuse.data else layer.fetched_rows
    return LayerTraffic(
        features=packed_bytes(rows, layer.width, layer.channels, atom_bytes),
        weights=layer.fetched_weight_bytes,
        output=packed_bytes(layer.out_height, layer.out_width, layer.kernels, atom_bytes),
    )


def packed_bytes(rows: int, columns: int, channels: int, atom_bytes: int) -> int:
    """Return the size in bytes of int8 features that are stored in packs of `atom_bytes` channels,
    where the last pack is padded.

    >>> packed_bytes(2, 3, channels=9, atom_bytes=8)
    96
    """
    return rows * columns * -(-channels // atom_bytes) * atom_bytes


@dataclass(frozen=True, slots=True)
class TaskSizes:
    """The sizes of a task, which computes the whole output of an operator, or copies one input of a
    concatenation.

    in_w, in_h, in_c, out_w, out_h, out_c: the width, height and channels of input and output.
    pad_left, pad_top: the columns and rows of padding before the input; those after the input
        follow from the sizes of input, output and window.
    in_zero: the input's zero point, which is also the value of padding.
    in_span, second_span, out_span: if the input, the second input of a sum, or the output consists
        of some columns of a wider tensor in memory, the width of that tensor; otherwise 0."""

    hardware: NvdlaConfiguration
    in_w: int
    in_h: int
    in_c: int
    out_w: int
    out_h: int
    out_c: int
    kernel_w: int = 1
    kernel_h: int = 1
    stride_w: int = 1
    stride_h: int = 1
    dilation_w: int = 1
    dilation_h: int = 1
    pad_left: int = 0
    pad_top: int = 0
    in_zero: int = 0
    in_span: int = 0
    second_span: int = 0
    out_span: int = 0

    @property
    def reach_h(self) -> int:
        """The number of rows that a window spans, dilation included."""
        return (self.kernel_h - 1) * self.dilation_h + 1

    @property
    def in_packs(self) -> int:
        """The number of packs of channels in which the input is stored."""
        return -(-self.in_c // self.hardware.memory_atom_bytes)

    @property
    def out_packs(self) -> int:
        """The number of packs of channels in which the output is stored."""
        return -(-self.out_c // self.hardware.memory_atom_bytes)

    @property
    def reach_w(self) -> int:
        """The number of columns that a window spans, dilation included."""
        return (self.kernel_w - 1) * self.dilation_w + 1

    def row_bytes(self, width: int, channels: int) -> int:
        """Return the size in bytes of a row of `width` columns, stored as packs of channels.

        channels: the number of channels.  The last pack is padded: with packs of 8 channels, 5
            columns of 9 channels take 2 * 5 * 8 = 80 bytes."""
        atom = self.hardware.memory_atom_bytes
        return -(-channels // atom) * width * atom

    @property
    def in_row_bytes(self) -> int:
        """The size in bytes of an input row, stored as packs of channels."""
        return self.row_bytes(self.in_w, self.in_c)

    @property
    def out_row_bytes(self) -> int:
        """The size in bytes of an output row, stored as packs of channels."""
        return self.row_bytes(self.out_w, self.out_c)

    def reads(self, first: int, end: int) -> tuple[int, int]:
        """Return the input rows [lower, upper) that output rows [first, end) read.  Padding is not
        included."""
        lower = first * self.stride_h - self.pad_top
        upper = (end - 1) * self.stride_h - self.pad_top + self.reach_h
        return max(lower, 0), min(upper, self.in_h)

    def reads_columns(self, first: int, end: int) -> tuple[int, int]:
        """Return the input columns [lower, upper) that output columns [first, end) read.  Padding
        is not included."""
        lower = first * self.stride_w - self.pad_left
        upper = (end - 1) * self.stride_w - self.pad_left + self.reach_w
        return max(lower, 0), min(upper, self.in_w)

    def cropped(self, rows: tuple[int, int], columns: tuple[int, int]) -> Self:
        """Return the task that computes some rows and columns of the output.

        rows, columns: half-open intervals of the output."""
        # The input is cropped, too, to the rows and columns that this part of the output reads
        # (`reads`, `reads_columns`).
        lower, upper = self.reads(*rows)
        left, right = self.reads_columns(*columns)
        return replace(
            self,
            in_w=right - left,
            in_h=upper - lower,
            out_w=columns[1] - columns[0],
            out_h=rows[1] - rows[0],
            pad_left=max(0, self.pad_left - columns[0] * self.stride_w),
            pad_top=max(0, self.pad_top - rows[0] * self.stride_h),
        )

    def convolution(
        self, rows: int, source: Surface, output: Surface, padding: Padding
    ) -> Convolution:
        """Return the convolution that computes some rows of the output.

        rows: the number of input rows that it reads."""
        return Convolution(
            self.hardware,
            self.in_w,
            rows,
            self.in_c,
            self.out_c,
            self.kernel_w,
            self.kernel_h,
            source,
            output,
            weight_address=0,
            stride_x=self.stride_w,
            stride_y=self.stride_h,
            dilation_x=self.dilation_w,
            dilation_y=self.dilation_h,
            padding=padding,
            pad_value=self.in_zero,
        )
