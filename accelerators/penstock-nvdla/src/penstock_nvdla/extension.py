"""extension: records and registers of the units that penstock adds to NVDLA.

Unit POST post-processes results, between the computing unit and SDP, which writes the output:

    accumulators -> + bias, requantisation as in TFLite -> element-wise operation -> SDP

The element-wise operation combines the results with a second tensor.  Unit WINDOW applies a window
to each channel separately: it computes pooling and depthwise convolutions.  docs/nvdla.md lists the
registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from penstock.uma import UnsupportedError
from penstock_nvdla.bindings import Bindings
from penstock_nvdla.layer import (
    NO_PADDING,
    NOWHERE,
    ConvolutionLayer,
    Padding,
    Surface,
)
from penstock_nvdla.pdp import PoolingLayer
from penstock_nvdla.registers import BYPASS, OPERANDS
from penstock_nvdla.sdp import SdpLayer

TABLE_ROW_BYTES = 12  # Size in bytes of the bias, multiplier and shift of a channel, each an int32.


class ElementwiseMode(IntEnum):
    """The element-wise operation that post-processing applies to its first operand and a second
    tensor; each value is its code in the register field."""

    NONE = 0
    ADD = 1
    SUBTRACT = 2
    MULTIPLY = 3


class WindowKind(IntEnum):
    """The function that unit WINDOW computes over each window of each channel: maximum, mean or
    depthwise convolution; each value is its code in the register field."""

    LARGEST = 0
    MEAN = 1
    DEPTHWISE = 2


@dataclass(frozen=True, slots=True)
class Scale:
    """A zero point (`zero`), and a scale as in TFLite: multiplier * 2^(shift - 31)."""

    zero: int = 0
    multiplier: int = 0
    shift: int = 0


@dataclass(frozen=True, slots=True)
class Range:
    """The bounds to which elements are clamped, both inclusive."""

    least: int = -128
    most: int = 127


@dataclass(frozen=True, slots=True)
class Post:
    """Post-processing of a layer's results by the extension's unit POST, before they are written.

    requantise: True if the results are int32 accumulators.  Post-processing then adds the bias of
        the channel, scales by the channel's multiplier and shift, and adds `zero`.
    table_address: the address in main memory of the bias, multiplier and shift of each channel.
    zero: the zero point that requantisation adds.
    limits: the bounds to which the results are then clamped, whether requantised or not.
    elementwise: the operation that combines the clamped results with a second tensor.
    second: the memory layout of the second tensor, which has the shape of the output.
    by_channel: True if the second tensor has one element per channel instead, in an array in main
        memory at the address `second.address`.  Only window layers support this.
    first: the zero point and scale of the clamped results, the first operand of `elementwise`.
    other: the zero point and scale of the second tensor.  A sum or difference shifts both operands
        left by 20 bits and scales them; a product applies only the zero points.
    result, result_limits: the zero point, scale and bounds of the result of `elementwise`."""

    requantise: bool = False
    table_address: int = 0
    zero: int = 0
    limits: Range = Range()
    elementwise: ElementwiseMode = ElementwiseMode.NONE
    second: Surface = NOWHERE
    first: Scale = Scale()
    other: Scale = Scale()
    result: Scale = Scale()
    result_limits: Range = Range()
    by_channel: bool = False


NO_POST = Post()  # Post-processing that leaves int8 elements unchanged.


@dataclass(frozen=True, slots=True)
class WindowLayer:
    """A hardware layer of pooling or depthwise convolution, computed by the extension's unit
    WINDOW.

    kind: the function that the unit computes over each window.
    width, height, channels: the size of the input.
    source, output: the memory layouts of the input and the output.
    pad_value: the value of padding in depthwise convolutions; pooling ignores padding.
    channel_multiplier: the number of output channels per input channel.
    weight_address: the address in main memory of a depthwise convolution's weights, a contiguous
        array of shape (rows, columns, output channels).

    Raises UnsupportedError if the window does not fit, if some window covers only padding, or if
    pooling has a dilation."""

    kind: WindowKind
    width: int
    height: int
    channels: int
    window_width: int
    window_height: int
    source: Surface
    output: Surface
    stride_x: int = 1
    stride_y: int = 1
    dilation_x: int = 1
    dilation_y: int = 1
    padding: Padding = NO_PADDING
    pad_value: int = 0
    channel_multiplier: int = 1
    weight_address: int = 0

    def __post_init__(self) -> None:
        pad = self.padding
        if self.kind is not WindowKind.DEPTHWISE and (self.dilation_x, self.dilation_y) != (1, 1):
            raise UnsupportedError(
                "nvdla-014",
                f"pooling has dilation {self.dilation_x}x{self.dilation_y}",
                where=str(self),
                why="the extension supports pooling without dilation only",
                help="run the layer on the CPU",
            )
        if max(pad.left, pad.right) < self.reach_x <= self.width + pad.left + pad.right and (
            max(pad.top, pad.bottom) < self.reach_y <= self.height + pad.top + pad.bottom
        ):
            return
        raise UnsupportedError(
            "nvdla-009",
            f"a window that spans {self.reach_x}x{self.reach_y} does not fit "
            f"{self.width}x{self.height} with padding {pad.left}+{pad.right}, "
            f"{pad.top}+{pad.bottom}",
            where=str(self),
            why="it must fit, and contain at least one element that is not padding",
            help="correct the layer",
        )

    def __str__(self) -> str:
        size = f"{self.width}x{self.height}x{self.channels}"
        return f"window ({self.kind.name.lower()}) over {size} on NVDLA's extension"

    @property
    def reach_x(self) -> int:
        """The number of columns that a window spans, dilation included."""
        return (self.window_width - 1) * self.dilation_x + 1

    @property
    def reach_y(self) -> int:
        """The number of rows that a window spans, dilation included."""
        return (self.window_height - 1) * self.dilation_y + 1

    @property
    def out_width(self) -> int:
        """The number of output columns."""
        padded = self.width + self.padding.left + self.padding.right
        return (padded - self.reach_x) // self.stride_x + 1

    @property
    def out_height(self) -> int:
        """The number of output rows."""
        padded = self.height + self.padding.top + self.padding.bottom
        return (padded - self.reach_y) // self.stride_y + 1

    @property
    def kernels(self) -> int:
        """The number of output channels."""
        return self.channels * self.channel_multiplier


# The work that the accelerator executes between two starts.
HardwareLayer = ConvolutionLayer | WindowLayer | SdpLayer | PoolingLayer

POST = Bindings(
    Post,
    ("POST",),
    chosen=(
        ("POST.D_MODE.requantise", "requantise", 0),
        ("POST.D_MODE.elementwise", "elementwise", 0),
        ("POST.D_MODE.by_channel", "by_channel", 0),
        ("POST.D_OUT_ZERO.out_zero", "zero", 0),
        ("POST.D_OUT_RANGE.least", "limits.least", 0),
        ("POST.D_OUT_RANGE.most", "limits.most", 0),
        ("POST.D_SECOND_RAM_TYPE.second_ram_type", "second.memory", 0),
        ("POST.D_SECOND_LINE_STRIDE.second_line_stride", "second.line_stride", 0),
        ("POST.D_SECOND_SURF_STRIDE.second_surf_stride", "second.surface_stride", 0),
        *(
            (f"POST.D_{unit.upper()}_{part.upper()}.{unit}_{part}", f"{name}.{part}", 0)
            for unit, name in (("first", "first"), ("second", "other"), ("result", "result"))
            for part in ("zero", "multiplier", "shift")
        ),
        ("POST.D_RESULT_RANGE.least", "result_limits.least", 0),
        ("POST.D_RESULT_RANGE.most", "result_limits.most", 0),
    ),
    implied=(),
    addresses=(
        ("POST.D_TABLE_ADDR_{}", "table_addr_{}", "table_address"),
        ("POST.D_SECOND_ADDR_{}", "second_addr_{}", "second.address"),
    ),
    constant={},
    absent={},
)

WINDOW = Bindings(
    WindowLayer,
    ("WINDOW", "SDP"),
    chosen=(
        ("WINDOW.D_MODE.kind", "kind", 0),
        ("WINDOW.D_DATAIN_SIZE_0.datain_width", "width", 1),
        ("WINDOW.D_DATAIN_SIZE_0.datain_height", "height", 1),
        ("WINDOW.D_DATAIN_SIZE_1.datain_channel", "channels", 1),
        ("WINDOW.D_DAIN_RAM_TYPE.datain_ram_type", "source.memory", 0),
        ("WINDOW.D_LINE_STRIDE.line_stride", "source.line_stride", 0),
        ("WINDOW.D_SURF_STRIDE.surf_stride", "source.surface_stride", 0),
        ("WINDOW.D_WINDOW_SIZE.window_width", "window_width", 1),
        ("WINDOW.D_WINDOW_SIZE.window_height", "window_height", 1),
        ("WINDOW.D_WINDOW_STRIDE.x_stride", "stride_x", 1),
        ("WINDOW.D_WINDOW_STRIDE.y_stride", "stride_y", 1),
        ("WINDOW.D_WINDOW_DILATION.x_dilation", "dilation_x", 1),
        ("WINDOW.D_WINDOW_DILATION.y_dilation", "dilation_y", 1),
        ("WINDOW.D_PADDING_BEFORE.pad_left", "padding.left", 0),
        ("WINDOW.D_PADDING_BEFORE.pad_top", "padding.top", 0),
        ("WINDOW.D_PADDING_BEHIND.pad_right", "padding.right", 0),
        ("WINDOW.D_PADDING_BEHIND.pad_bottom", "padding.bottom", 0),
        ("WINDOW.D_PAD_VALUE.pad_value", "pad_value", 0),
        ("WINDOW.D_CHANNEL_MULTIPLIER.channel_multiplier", "channel_multiplier", 1),
        ("SDP.D_DST_LINE_STRIDE.dst_line_stride", "output.line_stride", 0),
        ("SDP.D_DST_SURFACE_STRIDE.dst_surface_stride", "output.surface_stride", 0),
        ("SDP.D_DST_DMA_CFG.dst_ram_type", "output.memory", 0),
    ),
    implied=(
        ("SDP.D_DATA_CUBE_WIDTH.width", "out_width", 1),
        ("SDP.D_DATA_CUBE_HEIGHT.height", "out_height", 1),
        ("SDP.D_DATA_CUBE_CHANNEL.channel", "kernels", 1),
    ),
    addresses=(
        ("WINDOW.D_DAIN_ADDR_{}", "datain_addr_{}", "source.address"),
        ("WINDOW.D_WEIGHT_ADDR_{}", "weight_addr_{}", "weight_address"),
        ("SDP.D_DST_BASE_ADDR_{}", "dst_base_addr_{}", "output.address"),
    ),
    constant={**BYPASS, "SDP.D_CVT_SCALE.cvt_scale": 1},
    absent={},
    left_out=OPERANDS,
)
