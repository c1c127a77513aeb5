"""nvdla_sheet: an exact reproduction of the cycles in NVDLA's performance sheet.

The cycles of a layer are the maximum of its computation and its memory traffic; the cycles of a
network are the sum over its layers.  All numbers are exact integers or fractions.  The sheet counts
sizes in KiB of 1024 bytes but treats 1 GB/s as 1 KiB per microsecond, so
cycles = KiB / GBps * MHz.

The sheet has one page for each of three networks, and the pages differ (`Page`).

Source: nvdla/hw, perf/NVDLA_OpenSource_Performance.xlsx.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from math import ceil

from penstock.uma import CapacityError, UnsupportedError

CHANNELS_AT_ONCE = 16  # The sheet rounds numbers of channels up to a multiple of this.
KERNELS_IN_A_GROUP = 32
# The factor by which Winograd reduces the multiplications of a 3x3 layer.
WINOGRAD_SAVING = Fraction(9, 4)
# The factor by which Winograd increases the size of the weights of a 3x3 layer.
WINOGRAD_WEIGHTS = Fraction(16, 9)
KIB = 1024


class SheetLayerKind(Enum):
    """The kind of a layer in NVDLA's performance sheet; each value is the sheet's name for it."""

    CONVOLUTION = "conv"
    WITH_ELEMENTWISE = "conv + elwise"
    FULLY_CONNECTED = "fc"


@dataclass(frozen=True, slots=True)
class Hardware:
    """The hardware parameters of NVDLA's performance sheet.

    feature_bytes, weight_bytes: the size in bytes of one feature and of one weight.
    buffer_kib: the size of the convolution buffer in KiB.
    macs: the number of multipliers.
    mhz: the clock frequency in MHz.
    dram_gbps: the memory bandwidth in GB/s.
    fc_batch: the batch size of fully connected layers."""

    feature_bytes: int
    weight_bytes: int
    buffer_kib: Fraction
    macs: int
    mhz: Fraction
    dram_gbps: Fraction
    fc_batch: int

    def sized(self, macs: int, buffer_kib: int, dram_gbps: Fraction) -> Hardware:
        """Return a copy with another number of multipliers, another size of the convolution buffer
        in KiB and another memory bandwidth in GB/s."""
        buffer = Fraction(buffer_kib)
        return replace(self, macs=macs, buffer_kib=buffer, dram_gbps=dram_gbps)


@dataclass(frozen=True, slots=True)
class SheetWindow:
    """The size of a window in rows and columns, and its strides."""

    rows: int
    columns: int
    row_stride: int
    column_stride: int

    @property
    def stride(self) -> int:
        """The product of both strides: how many input pixels there are for each output pixel."""
        return self.row_stride * self.column_stride

    def output_size(self, rows: int, columns: int) -> tuple[int, int]:
        """Return the numbers of output rows and columns for an input of the given size, without
        padding.  The last window along each dimension may extend beyond the input."""
        return (
            -(-(rows - self.rows) // self.row_stride) + 1,
            -(-(columns - self.columns) // self.column_stride) + 1,
        )


@dataclass(frozen=True, slots=True)
class SheetLayer:
    """A layer in NVDLA's performance sheet: a convolution or fully connected layer, and the
    operations that are fused into its output.

    channels, rows, columns: the size of the input.
    kernels: the number of output channels.
    window: the size and strides of the kernels.
    same: True if padding makes the output as large as the input divided by the strides; False if
        there is no padding.
    pool: the window of a fused pool; None if there is no pool.
    winograd_weights: whether the sheet includes the increase in the size of the weights that
        Winograd causes.  It has no effect on layers that are not 3x3.

    Raises UnsupportedError if a window exceeds its input."""

    name: str
    kind: SheetLayerKind
    channels: int
    rows: int
    columns: int
    kernels: int
    window: SheetWindow
    same: bool
    pool: SheetWindow | None = None
    winograd_weights: bool = True

    def __post_init__(self) -> None:
        for what, window, (rows, columns) in (
            *((("kernel", self.window, (self.rows, self.columns)),) * (not self.same)),
            *((("pool", self.pool, self.convolved),) if self.pool else ()),
        ):
            if window.rows > rows or window.columns > columns:
                raise UnsupportedError(
                    "nvdla-001",
                    f"a {what} of {window.rows}x{window.columns} does not fit into "
                    f"{rows}x{columns}",
                    where=f'layer "{self.name}" of a performance sheet',
                    why="without padding, a window must not exceed its input",
                    help="correct the layer, or set `same` if it is padded",
                )

    @property
    def is_3x3(self) -> bool:
        """Whether the window is 3x3; the sheet applies Winograd to such layers regardless of the
        stride."""
        return (self.window.rows, self.window.columns) == (3, 3)

    @property
    def depth(self) -> int:
        """The number of input channels after space-to-depth, rounded up to a multiple of 16."""
        # Space-to-depth converts each block of row_stride x column_stride pixels to one pixel,
        # which has the channels of all pixels of the block.
        return _up(self.channels * self.window.stride, CHANNELS_AT_ONCE)

    @property
    def folded(self) -> tuple[int, int]:
        """The size of the input, (rows, columns), after space-to-depth, which converts each block
        of row_stride x column_stride pixels to one pixel with more channels."""
        window = self.window
        return -(-self.rows // window.row_stride), -(-self.columns // window.column_stride)

    @property
    def convolved(self) -> tuple[int, int]:
        """The size of the convolution's output, (rows, columns), before the fused pool."""
        return self.folded if self.same else self.window.output_size(self.rows, self.columns)

    @property
    def pooled(self) -> tuple[int, int]:
        """The size of the layer's output, (rows, columns), after the fused pool if there is one."""
        return self.pool.output_size(*self.convolved) if self.pool else self.convolved

    @property
    def kernel_points(self) -> int:
        """The number of weights of one kernel after space-to-depth: the rows and columns of the
        kernel, each divided by its stride and rounded up, times the channels (`depth`)."""
        window = self.window
        rows, columns = (
            -(-window.rows // window.row_stride),
            -(-window.columns // window.column_stride),
        )
        return rows * columns * self.depth

    @property
    def mac_positions(self) -> tuple[int, int]:
        """The number of windows, (rows, columns), for which the sheet counts multiplications."""
        # With padding, it is the size of the input divided by the strides, rounded up.  Without
        # padding, only windows that are entirely inside the input count.
        window = self.window
        over = (0, 0) if self.same else (window.rows - 1, window.columns - 1)
        return (
            -(-(self.rows - over[0]) // window.row_stride),
            -(-(self.columns - over[1]) // window.column_stride),
        )


class ComparedWeights(Enum):
    """Which weights NVDLA's performance sheet compares with a layer's input.

    Either the input or the weights stay in the convolution buffer, while the other operand is
    streamed.  The input stays if it is smaller in bytes than the compared weights."""

    GROUP = "weights of a group of kernels"
    ALL = "all weights"


@dataclass(frozen=True, slots=True)
class Page:
    """The conventions of one page of NVDLA's performance sheet; each page treats one network.

    name: the name of the network.
    kernels_at_once: the number of kernels is rounded up to a multiple of this.
    once: True if the page ignores the size of the convolution buffer: each tensor is transferred
        once, and the weights of a fully connected layer once per batch.  False if the page splits
        either the input or the weights into parts that fit into the buffer; the other operand is
        then transferred again for each part.
    compared: which weights a layer's input is compared with, to choose the operand that stays in
        the buffer: the weights of a group of kernels, or all weights.
    rows_ahead: the number of input rows that the buffer must hold in addition to the rows of one
        window.
    first_layer: True if the first layer of the network has two rules of its own: `rows_ahead` is 1,
        and the input stays in the buffer if the rows that the buffer must hold
        (`LayerFigures.least_in_kib`) are smaller than the weights of a group of kernels."""

    name: str
    kernels_at_once: int = 16
    once: bool = False
    compared: ComparedWeights = ComparedWeights.GROUP
    rows_ahead: int = 1
    first_layer: bool = False


ALEXNET = Page("AlexNet", once=True)
GOOGLENET = Page("GoogLeNet")
RESNET = Page(
    "ResNet-50",
    kernels_at_once=128,
    compared=ComparedWeights.ALL,
    rows_ahead=0,
    first_layer=True,
)
PAGES = (ALEXNET, GOOGLENET, RESNET)


@dataclass(frozen=True, slots=True)
class LayerFigures:
    """The figures of a layer in NVDLA's performance sheet; names ending in `_kib` are sizes in KiB.

    in_kib, out_kib, weights_kib: the input, the output and all weights.
    least_in_kib: the part of the input that the convolution buffer must hold at least: the rows of
        one window, and those that `Page.rows_ahead` adds.
    group_kib: the space in the buffer for the weights of a group of kernels.  It is the size of
        these weights or, if they exceed the whole buffer, half the size of the buffer.
    dram_kib: the memory traffic.
    mac_cycles, dram_cycles: the cycles that multiplications and memory traffic take."""

    in_kib: Fraction
    least_in_kib: Fraction
    out_kib: Fraction
    weights_kib: Fraction
    group_kib: Fraction
    dram_kib: Fraction
    mac_cycles: Fraction
    dram_cycles: Fraction

    @property
    def cycles(self) -> Fraction:
        """Cycles of the layer: the larger of `mac_cycles` and `dram_cycles`."""
        return max(self.mac_cycles, self.dram_cycles)

    @property
    def limit(self) -> str:
        """What determines the cycles of the layer: "MAC" (multiplications) or "DRAM" (traffic)."""
        return "MAC" if self.mac_cycles >= self.dram_cycles else "DRAM"


def figures_of(
    layers: Sequence[SheetLayer], hardware: Hardware, page: Page
) -> tuple[LayerFigures, ...]:
    """Return the figures of each layer of a network, as NVDLA's performance sheet computes them.

    Raises CapacityError if the convolution buffer is too small."""
    return tuple(_figures(layer, hardware, page, k == 0) for k, layer in enumerate(layers))


def frames_per_second(layers: Sequence[SheetLayer], hardware: Hardware, page: Page) -> Fraction:
    """Return the frame rate of a network, as NVDLA's performance sheet computes it; the layers run
    one after the other.

    Raises CapacityError if the convolution buffer is too small."""
    cycles = sum(figures.cycles for figures in figures_of(layers, hardware, page))
    return hardware.mhz * 10**6 / cycles


def _figures(layer: SheetLayer, hardware: Hardware, page: Page, first: bool) -> LayerFigures:
    rows, columns = layer.folded
    row_kib = Fraction(layer.depth * columns * hardware.feature_bytes, KIB)
    special = first and page.first_layer
    ahead = 1 if special else page.rows_ahead
    kernel_kib = Fraction(layer.kernel_points * hardware.weight_bytes, KIB)
    group = KERNELS_IN_A_GROUP * kernel_kib
    sizes = LayerFigures(
        in_kib=row_kib * rows,
        least_in_kib=row_kib * min(layer.window.rows + ahead, rows),
        out_kib=Fraction(_out_bytes(layer, hardware), KIB),
        weights_kib=kernel_kib * layer.kernels * _growth(layer),
        group_kib=group if group < hardware.buffer_kib else hardware.buffer_kib / 2,
        dram_kib=Fraction(0),
        mac_cycles=_mac_cycles(layer, hardware, page),
        dram_cycles=Fraction(0),
    )
    if page.once:
        batch = hardware.fc_batch if layer.kind is SheetLayerKind.FULLY_CONNECTED else 1
        traffic = sizes.in_kib + sizes.weights_kib / batch + sizes.out_kib
    else:
        kept = _keeps_features(sizes, page, special)
        traffic = _traffic(layer, sizes, hardware.buffer_kib, kept)
    cycles = Fraction(ceil(traffic / hardware.dram_gbps * hardware.mhz))
    return replace(sizes, dram_kib=traffic, dram_cycles=cycles)


def _out_bytes(layer: SheetLayer, hardware: Hardware) -> int:
    """The size of a layer's output in bytes."""
    rows, columns = layer.pooled
    return rows * columns * _up(layer.kernels, CHANNELS_AT_ONCE) * hardware.feature_bytes


def _growth(layer: SheetLayer) -> Fraction:
    """The factor by which Winograd increases the size of a layer's weights; 1 if the sheet
    counts no increase."""
    return WINOGRAD_WEIGHTS if layer.is_3x3 and layer.winograd_weights else Fraction(1)


def _mac_cycles(layer: SheetLayer, hardware: Hardware, page: Page) -> Fraction:
    """The cycles that the multipliers take for a layer, Winograd's saving included."""
    rows, columns = layer.mac_positions
    batch = hardware.fc_batch if layer.kind is SheetLayerKind.FULLY_CONNECTED else 1
    kernels = _up(layer.kernels * batch, page.kernels_at_once)
    taps = Fraction(layer.window.rows * layer.window.columns, layer.window.stride)
    saving = WINOGRAD_SAVING if layer.is_3x3 else 1
    return layer.depth * rows * columns * kernels * taps / hardware.macs / saving / batch


def _keeps_features(sizes: LayerFigures, page: Page, special: bool) -> bool:
    """Whether a layer's input, rather than its weights, stays in the convolution buffer."""
    if special:
        return sizes.least_in_kib < sizes.group_kib
    against = sizes.group_kib if page.compared is ComparedWeights.GROUP else sizes.weights_kib
    return sizes.in_kib < against


def _traffic(
    layer: SheetLayer, sizes: LayerFigures, buffer: Fraction, keeps_features: bool
) -> Fraction:
    if keeps_features:
        parted, other, beside = sizes.in_kib, sizes.weights_kib, sizes.group_kib
    else:
        parted, other, beside = sizes.weights_kib, sizes.in_kib, sizes.least_in_kib
    if beside >= buffer:
        raise CapacityError(
            "nvdla-002",
            f"{float(beside):g} KiB do not fit into a convolution buffer of {float(buffer):g} KiB",
            where=f'layer "{layer.name}" of a performance sheet',
            why="the buffer must hold the input rows of one kernel together with some weights",
            help="use a larger buffer",
        )
    times = max(1, ceil(parted / (buffer - beside)))
    added = sizes.out_kib if layer.kind is SheetLayerKind.WITH_ELEMENTWISE else 0
    return times * other + parted + sizes.out_kib + added


def _up(value: int, step: int) -> int:
    return -(-value // step) * step
