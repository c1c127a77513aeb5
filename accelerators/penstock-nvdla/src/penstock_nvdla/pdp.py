"""pdp: records and registers of NVDLA's own pooling unit, PDP, and its read engine, PDP_RDMA.

An average multiplies the sum of a window by two factors in turn, and rounds each product.  The
factors have 16 fractional bits, and are meant to be the reciprocals of the width and the height of
the window.  The first product must fit 11 bits; if the second factor is 1, only the first product
is rounded.  Elements of padding do not count in a maximum; an average adds constants for them.

The line buffer stores the partial result of each window that contains the present input row.

Source: nvdla/hw, branch nv_small, spec/manual, cmod/pdp and vmod/nvdla/pdp.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cache

import numpy as np

from penstock.uma import UnsupportedError, rounding_shift
from penstock_nvdla.bindings import Bindings
from penstock_nvdla.layer import NO_PADDING, Padding, Surface

FRACTION_BITS = 16  # The number of fractional bits of the factors.
PRODUCT_BITS = 11  # The bits that PDP keeps of the product of a sum with the first factor.
MOST_KERNEL = 8  # The largest width and height of a window.
MOST_PADDING = 7  # The largest number of rows or columns of padding on a side.
MOST_STRIDE = 16
# The points of an output row that a bank of the line buffer stores, and the number of banks.
BANK_POINTS, LINE_BANKS = 16, 8


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive outputs along an axis whose windows contain equally many elements of the input.

    first, count: the first output, and how many there are.
    lower: the first element of the input that the window of the first output contains.
    window: how many elements of the input each window contains."""

    first: int
    count: int
    lower: int
    window: int


def spans(
    outputs: tuple[int, int], window: int, stride: int, padding: int, size: int
) -> tuple[Span, ...]:
    """Divide outputs along an axis by the number of elements of the input in their windows.

    outputs: the half-open interval of the outputs.
    padding: the number of elements of padding before the input, which has `size` elements.

    >>> [(one.count, one.window) for one in spans((0, 5), 3, 1, 1, 5)]
    [(1, 2), (3, 3), (1, 2)]
    """
    found: list[Span] = []
    for output in range(*outputs):
        start = output * stride - padding
        lower, upper = max(0, start), min(size, start + window)
        last = found[-1] if found else None
        follows = last and lower == last.lower + last.count * stride
        if last and follows and upper - lower == last.window:
            found[-1] = replace(last, count=last.count + 1)
        else:
            found.append(Span(output, 1, lower, upper - lower))
    return tuple(found)


@cache
def reciprocals(count: int) -> tuple[int, int] | None:
    """Return the two factors with which PDP averages `count` int8 elements as TFLite does, with 16
    fractional bits: reciprocals, rounded down or up, of numbers whose product is `count`.  The
    result is None if no factors are exact.

    >>> reciprocals(9), reciprocals(49), reciprocals(121)
    ((7281, 65536), (9362, 9362), None)
    """
    sums = np.arange(-128 * count, 127 * count + 1, dtype=np.int64)
    expected = np.sign(sums) * ((2 * np.abs(sums) + count) // (2 * count))
    one = 1 << FRACTION_BITS
    for divisor in (n for n in range(count, 0, -1) if count % n == 0):
        for first in (one // divisor, one // divisor + 1):
            products = rounding_shift(sums * first, FRACTION_BITS)
            if np.abs(products).max() >= 1 << (PRODUCT_BITS - 1):
                continue
            rest = count // divisor
            for second in (one // rest, one // rest + 1):
                if (rounding_shift(products * second, FRACTION_BITS) == expected).all():
                    return first, second
    return None


def widest_output(window_height: int, stride_y: int) -> int:
    """Return the largest number of output columns that PDP's line buffer can store.

    >>> widest_output(2, 2), widest_output(3, 2), widest_output(3, 1)
    (128, 64, 32)
    """
    # An output row takes 1, 2, 4 or 8 banks.
    lines = 1 if stride_y >= window_height else _open_rows(window_height, stride_y)
    banks = 1
    while banks * 2 * lines <= LINE_BANKS:
        banks *= 2
    return BANK_POINTS * banks


def _open_rows(window_height: int, stride_y: int) -> int:
    """The number of output rows whose windows may contain the same input row, as the hardware
    counts them."""
    if stride_y <= 2:
        return -(-window_height // stride_y)
    return 3 if stride_y == 3 and window_height > 6 else 2


class PoolingMethod(IntEnum):
    """What a pooling layer computes of each window; each value is its code in the register."""

    AVERAGE = 0
    LARGEST = 1
    SMALLEST = 2


@dataclass(frozen=True, slots=True)
class PoolingLayer:
    """A hardware layer of pooling.

    width, height, channels: the size of the input.
    source, output: the memory layouts of the input and the output.
    factor_x, factor_y: an average multiplies the sum of a window by `factor_x`, then by `factor_y`;
        both have 16 fractional bits.
    sums: what an average adds to the sum of a window in place of 1 to 7 adjacent elements of
        padding, as the words of their registers.

    Raises UnsupportedError if the hardware cannot execute the layer."""

    method: PoolingMethod
    width: int
    height: int
    channels: int
    window_width: int
    window_height: int
    source: Surface
    output: Surface
    stride_x: int = 1
    stride_y: int = 1
    padding: Padding = NO_PADDING
    factor_x: int = 0
    factor_y: int = 0
    sums: tuple[int, ...] = (0,) * MOST_PADDING

    def __post_init__(self) -> None:
        pad = self.padding
        fits = max(self.window_width, self.window_height) <= MOST_KERNEL
        inside = max(pad.left, pad.right) < self.window_width <= self.padded_width and (
            max(pad.top, pad.bottom) < self.window_height <= self.padded_height
        )
        strided = max(self.stride_x, self.stride_y) <= MOST_STRIDE
        if not (fits and inside and strided):
            raise UnsupportedError(
                "nvdla-015",
                f"a window of {self.window_width}x{self.window_height} with stride "
                f"{self.stride_x}x{self.stride_y} over {self.width}x{self.height} with padding "
                f"{pad.left}+{pad.right}, {pad.top}+{pad.bottom}",
                where=str(self),
                why=f"windows have at most {MOST_KERNEL} rows and columns, strides are at most "
                f"{MOST_STRIDE}, and a window must contain an element that is not padding",
                help="change the layer, or run it on the CPU",
            )
        widest = widest_output(self.window_height, self.stride_y)
        if self.out_width > widest:
            raise UnsupportedError(
                "nvdla-016",
                f"an output of {self.out_width} columns",
                where=str(self),
                why=f"the line buffer stores {widest} with windows of {self.window_height} rows "
                f"and a stride of {self.stride_y}",
                help="divide the columns",
            )

    def __str__(self) -> str:
        size = f"{self.width}x{self.height}x{self.channels}"
        return f"pooling ({self.method.name.lower()}) of {size} on NVDLA"

    @property
    def padded_width(self) -> int:
        """The number of columns, including padding."""
        return self.width + self.padding.left + self.padding.right

    @property
    def padded_height(self) -> int:
        """The number of rows, including padding."""
        return self.height + self.padding.top + self.padding.bottom

    @property
    def out_width(self) -> int:
        """The number of output columns."""
        return (self.padded_width - self.window_width) // self.stride_x + 1

    @property
    def out_height(self) -> int:
        """The number of output rows."""
        return (self.padded_height - self.window_height) // self.stride_y + 1

    @property
    def kernels(self) -> int:
        """The number of output channels."""
        return self.channels


POOLING = Bindings(
    PoolingLayer,
    ("PDP_RDMA", "PDP"),
    chosen=(
        ("PDP.D_OPERATION_MODE_CFG.pooling_method", "method", 0),
        ("PDP.D_DATA_CUBE_IN_WIDTH.cube_in_width", "width", 1),
        ("PDP.D_DATA_CUBE_IN_HEIGHT.cube_in_height", "height", 1),
        ("PDP.D_DATA_CUBE_IN_CHANNEL.cube_in_channel", "channels", 1),
        ("PDP.D_POOLING_KERNEL_CFG.kernel_width", "window_width", 1),
        ("PDP.D_POOLING_KERNEL_CFG.kernel_height", "window_height", 1),
        ("PDP.D_POOLING_KERNEL_CFG.kernel_stride_width", "stride_x", 1),
        ("PDP.D_POOLING_KERNEL_CFG.kernel_stride_height", "stride_y", 1),
        ("PDP.D_RECIP_KERNEL_WIDTH.recip_kernel_width", "factor_x", 0),
        ("PDP.D_RECIP_KERNEL_HEIGHT.recip_kernel_height", "factor_y", 0),
        ("PDP.D_POOLING_PADDING_CFG.pad_left", "padding.left", 0),
        ("PDP.D_POOLING_PADDING_CFG.pad_right", "padding.right", 0),
        ("PDP.D_POOLING_PADDING_CFG.pad_top", "padding.top", 0),
        ("PDP.D_POOLING_PADDING_CFG.pad_bottom", "padding.bottom", 0),
        *(
            (f"PDP.D_POOLING_PADDING_VALUE_{k}_CFG.pad_value_{k}x", f"sums.{k - 1}", 0)
            for k in range(1, MOST_PADDING + 1)
        ),
        ("PDP_RDMA.D_SRC_LINE_STRIDE.src_line_stride", "source.line_stride", 0),
        ("PDP_RDMA.D_SRC_SURFACE_STRIDE.src_surface_stride", "source.surface_stride", 0),
        ("PDP_RDMA.D_SRC_RAM_CFG.src_ram_type", "source.memory", 0),
        ("PDP.D_DST_LINE_STRIDE.dst_line_stride", "output.line_stride", 0),
        ("PDP.D_DST_SURFACE_STRIDE.dst_surface_stride", "output.surface_stride", 0),
        ("PDP.D_DST_RAM_CFG.dst_ram_type", "output.memory", 0),
    ),
    implied=(
        ("PDP.D_DATA_CUBE_OUT_WIDTH.cube_out_width", "out_width", 1),
        ("PDP.D_DATA_CUBE_OUT_HEIGHT.cube_out_height", "out_height", 1),
        ("PDP.D_DATA_CUBE_OUT_CHANNEL.cube_out_channel", "channels", 1),
        ("PDP_RDMA.D_DATA_CUBE_IN_WIDTH.cube_in_width", "width", 1),
        ("PDP_RDMA.D_DATA_CUBE_IN_HEIGHT.cube_in_height", "height", 1),
        ("PDP_RDMA.D_DATA_CUBE_IN_CHANNEL.cube_in_channel", "channels", 1),
        ("PDP.D_SRC_LINE_STRIDE.src_line_stride", "source.line_stride", 0),
        ("PDP.D_SRC_SURFACE_STRIDE.src_surface_stride", "source.surface_stride", 0),
        ("PDP_RDMA.D_POOLING_KERNEL_CFG.kernel_width", "window_width", 1),
        ("PDP_RDMA.D_POOLING_KERNEL_CFG.kernel_stride_width", "stride_x", 1),
        ("PDP_RDMA.D_POOLING_PADDING_CFG.pad_width", "padding.left", 0),
    ),
    addresses=(
        ("PDP.D_SRC_BASE_ADDR_{}", "src_base_addr_{}", "source.address"),
        ("PDP_RDMA.D_SRC_BASE_ADDR_{}", "src_base_addr_{}", "source.address"),
        ("PDP.D_DST_BASE_ADDR_{}", "dst_base_addr_{}", "output.address"),
    ),
    constant={"PDP.D_OPERATION_MODE_CFG.flying_mode": 1, "PDP_RDMA.D_FLYING_MODE.flying_mode": 1},
    absent={},
)
