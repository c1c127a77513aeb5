"""task: the hardware parameters of an operator, and their conversion to hardware layers.

One start of the hardware computes one hardware layer.  `traffic_of` states the bytes that a layer
transfers between the memories and the accelerator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self, TypeVar

from penstock_nvdla.configurations import NvdlaConfiguration
from penstock_nvdla.cut import Convolution, hardware_layers
from penstock_nvdla.extension import (
    NO_POST,
    TABLE_ROW_BYTES,
    ElementwiseMode,
    HardwareLayer,
    Post,
    WindowKind,
    WindowLayer,
)
from penstock_nvdla.layer import ConvolutionLayer, Padding, Surface
from penstock_nvdla.stream import Write, convolution_writes, window_writes


@dataclass(frozen=True, slots=True)
class LayerTraffic:
    """The bytes that a hardware layer transfers to and from memory.

    features, weights: the bytes of the (first) input and of the weights that are read.
    table: the bytes that post-processing reads for each channel: biases, multipliers, shifts, and
        second operands of an element-wise operation that have one element per channel.
    second: the bytes of any other second tensor that an element-wise operation reads.
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


def traffic_of(layer: ConvolutionLayer | WindowLayer, post: Post, atom_bytes: int) -> LayerTraffic:
    """Return the bytes that a hardware layer transfers to and from memory.

    atom_bytes: the size in bytes of a memory atom."""
    # Each input element and each weight is read once, unless the convolution buffer already holds
    # it.
    output = layer.out_height, layer.out_width, layer.kernels
    combines = post.elementwise is not ElementwiseMode.NONE and not post.by_channel
    return LayerTraffic(
        features=packed_bytes(_fetched_rows(layer), layer.width, layer.channels, atom_bytes),
        weights=_weight_bytes(layer),
        table=layer.kernels * (TABLE_ROW_BYTES * post.requantise + post.by_channel),
        second=packed_bytes(*output, atom_bytes) if combines else 0,
        output=packed_bytes(*output, atom_bytes),
    )


def traffic_of_convolution(layer: ConvolutionLayer, atom_bytes: int) -> LayerTraffic:
    """Return the bytes of features and weights that a convolution transfers to and from memory.

    atom_bytes: the size in bytes of a memory atom."""
    return LayerTraffic(
        features=packed_bytes(_fetched_rows(layer), layer.width, layer.channels, atom_bytes),
        weights=_weight_bytes(layer),
        output=packed_bytes(layer.out_height, layer.out_width, layer.kernels, atom_bytes),
    )


def packed_bytes(rows: int, columns: int, channels: int, atom_bytes: int) -> int:
    """Return the size in bytes of int8 features that are stored in packs of `atom_bytes` channels,
    where the last pack is padded.

    >>> packed_bytes(2, 3, channels=9, atom_bytes=8)
    96
    """
    return rows * columns * -(-channels // atom_bytes) * atom_bytes


def _fetched_rows(layer: ConvolutionLayer | WindowLayer) -> int:
    if isinstance(layer, WindowLayer):
        return layer.height
    return 0 if layer.reuse.data else layer.fetched_rows


def _weight_bytes(layer: ConvolutionLayer | WindowLayer) -> int:
    """The number of bytes of weights that a layer reads from memory: 0 if the weights are
    already in the convolution buffer, or if the layer has no weights."""
    if not isinstance(layer, WindowLayer):
        return 0 if layer.reuse.weights else layer.weight_bytes
    is_depthwise = layer.kind is WindowKind.DEPTHWISE
    return layer.window_height * layer.window_width * layer.kernels if is_depthwise else 0


_Task = TypeVar("_Task", bound="Task")


@dataclass(frozen=True, slots=True)
class Task:
    """The parameters with which the hardware computes the whole output of an operator, or copies
    one input of a concatenation.

    hardware: the configuration, which includes penstock's extension of NVDLA.
    window: the function that the extension's unit WINDOW computes; None selects the convolution
        core.
    in_w, in_h, in_c, out_w, out_h, out_c: the width, height and channels of input and output.
    pad_left, pad_top: the columns and rows of padding before the input; those after the input
        follow from the sizes of input, output and window.
    in_zero: the input's zero point, which is also the value of padding.
    multiplier_d: the number of output channels per input channel of a depthwise convolution.
    in_span, second_span, out_span: if the input, the second input of an element-wise operation, or
        the output consists of some columns of a wider tensor in memory, the width of that tensor;
        otherwise 0.
    post: the post-processing of results; its addresses are placeholders, which are set when the
        command stream is encoded and loaded."""

    hardware: NvdlaConfiguration
    window: WindowKind | None
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
    multiplier_d: int = 1
    post: Post = NO_POST
    in_span: int = 0
    second_span: int = 0
    out_span: int = 0

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the constant arrays that the task reads from memory (`kernels.tables`), such
        as weights.  Pools, for example, read none."""
        return ("weights", "post") * self.post.requantise + ("second",) * self.post.by_channel

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

    def layers(
        self, first: int, end: int, in_lines: int, out_lines: int, second_lines: int = 0
    ) -> list[tuple[Write, ...]]:
        """Return the register writes that compute output rows [first, end), one tuple per hardware
        layer.

        in_lines, out_lines: the distances in bytes between consecutive rows of input and output.
        second_lines: the distance in bytes between consecutive rows of the second input of an
            element-wise operation; 0 if there is none.

        Raises UnsupportedError or CapacityError if the hardware cannot execute the task."""
        # The address of a tensor in the writes is an offset in bytes from the first row of this
        # tensor that is accessed.  In the output and in the second input, this is row `first`.  In
        # the input, it is the first row that the window of output row `first` covers.
        found: list[tuple[Write, ...]] = []
        for layer in self.hardware_layers(first, end, in_lines, out_lines):
            row = layer.output.address // out_lines
            width_bytes = (self.second_span or self.out_w) * self.hardware.memory_atom_bytes
            second = Surface(second_lines, width_bytes, row * second_lines)
            post = self.post if self.post.by_channel else replace(self.post, second=second)
            found.append(
                convolution_writes(layer, post)
                if isinstance(layer, ConvolutionLayer)
                else window_writes(layer, post)
            )
        return found

    def layers_with_traffic(
        self, first: int, end: int
    ) -> tuple[tuple[HardwareLayer, LayerTraffic], ...]:
        """Return (hardware layer, traffic) for each hardware layer that is needed to compute output
        rows [first, end), assuming that all tensors are contiguous.

        Raises UnsupportedError or CapacityError if the hardware cannot execute the task."""
        atom = self.hardware.memory_atom_bytes
        return tuple(
            (layer, traffic_of(layer, self.post, atom))
            for layer in self.hardware_layers(first, end, self.in_row_bytes, self.out_row_bytes)
        )

    def hardware_layers(
        self, first: int, end: int, in_lines: int, out_lines: int
    ) -> tuple[ConvolutionLayer | WindowLayer, ...]:
        """Return the hardware layers that compute output rows [first, end).

        in_lines, out_lines: the distances in bytes between consecutive rows of input and output.

        Raises UnsupportedError or CapacityError if the hardware cannot execute the task."""
        lower, upper = self.reads(first, end)
        top = max(0, self.pad_top - first * self.stride_h)
        below = (end - 1) * self.stride_h - self.pad_top + self.reach_h - self.in_h
        right = (self.out_w - 1) * self.stride_w + self.reach_w - self.pad_left - self.in_w
        padding = Padding(self.pad_left, max(0, right), top, max(0, below))
        atom = self.hardware.memory_atom_bytes
        source = Surface(in_lines, (self.in_span or self.in_w) * atom)
        output = Surface(out_lines, (self.out_span or self.out_w) * atom)
        if self.window is not None:
            return (self._window_layer(self.window, upper - lower, source, output, padding),)
        return hardware_layers(self._convolution(upper - lower, source, output, padding))

    def _convolution(
        self, rows: int, source: Surface, output: Surface, padding: Padding
    ) -> Convolution:
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

    def _window_layer(
        self, kind: WindowKind, rows: int, source: Surface, output: Surface, padding: Padding
    ) -> WindowLayer:
        return WindowLayer(
            kind,
            self.in_w,
            rows,
            self.in_c,
            self.kernel_w,
            self.kernel_h,
            source,
            output,
            self.stride_w,
            self.stride_h,
            self.dilation_w,
            self.dilation_h,
            padding,
            self.in_zero,
            self.multiplier_d,
        )


def operator_task(
    kind: type[_Task], hardware: NvdlaConfiguration, window: WindowKind | None, p: Mapping[str, int]
) -> _Task:
    """Return a task without post-processing, from the parameters of an operator.

    p: the operator's parameters by name, such as "in_w".  Sizes of windows, strides and dilations
        that are missing are 1; missing padding and a missing zero point are 0."""
    return kind(
        hardware,
        window,
        in_w=p["in_w"],
        in_h=p["in_h"],
        in_c=p["in_c"],
        out_w=p["out_w"],
        out_h=p["out_h"],
        out_c=p["out_c"],
        kernel_w=p.get("kernel_w", 1),
        kernel_h=p.get("kernel_h", 1),
        stride_w=p.get("stride_w", 1),
        stride_h=p.get("stride_h", 1),
        dilation_w=p.get("dilation_w", 1),
        dilation_h=p.get("dilation_h", 1),
        pad_left=p.get("pad_left", 0),
        pad_top=p.get("pad_top", 0),
        in_zero=p.get("in_zero", 0),
    )


def row_copy_task(task: Task) -> Task:
    """Return a task whose output is a copy of the input of `task`.  The encoder computes single
    rows of this output, to copy input rows to scratch."""
    size = (task.in_w, task.in_h, task.in_c)
    return Task(task.hardware, WindowKind.LARGEST, *size, *size)
