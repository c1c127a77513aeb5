"""sheet: an exact reproduction of the cycles in NVDLA's performance sheet.

The cycles of a layer are the maximum of its computation and its memory traffic; those of a network
are the sum over its layers.  All numbers are exact integers or fractions.  The sheet counts sizes
in KiB of 1024 bytes but treats 1 GB/s as 1 KiB per microsecond, so cycles = KiB / GBps * MHz.

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

CHANNELS_AT_ONCE = 16
"""The sheet rounds channels up to a multiple of this."""
KERNELS_IN_A_GROUP = 32
WINOGRAD_SAVING = Fraction(9, 4)
"""The factor by which Winograd reduces the multiplications of a 3x3 layer."""
WINOGRAD_WEIGHTS = Fraction(16, 9)
"""The factor by which Winograd increases the size of weights."""
KIB = 1024


class SheetLayerKind(Enum):
    """The kind of a layer; `value` is the sheet's name."""

    CONVOLUTION = "conv"
    WITH_ELEMENTWISE = "conv + elwise"
    FULLY_CONNECTED = "fc"


@dataclass(frozen=True, slots=True)
class Hardware:
    """The parameters of the sheet: bytes of a feature and of a weight, KiB of the convolution
    buffer, multipliers, clock, bandwidth of the memory, and the batch size of fully connected
    layers."""

    feature_bytes: int
    weight_bytes: int
    buffer_kib: Fraction
    macs: int
    mhz: Fraction
    dram_gbps: Fraction
    fc_batch: int

    def sized(self, macs: int, buffer_kib: int, dram_gbps: Fraction) -> Hardware:
        """The same with another core."""
        buffer = Fraction(buffer_kib)
        return replace(self, macs=macs, buffer_kib=buffer, dram_gbps=dram_gbps)


@dataclass(frozen=True, slots=True)
class SheetWindow:
    """Rows and columns of a window, and its strides."""

    rows: int
    columns: int
    row_stride: int
    column_stride: int

    @property
    def stride(self) -> int:
        """Product of both strides."""
        return self.row_stride * self.column_stride

    def moves(self, rows: int, columns: int) -> tuple[int, int]:
        """Rows and columns of the output for an input of the given size; only the last window may
        exceed the border."""
        return (
            -(-(rows - self.rows) // self.row_stride) + 1,
            -(-(columns - self.columns) // self.column_stride) + 1,
        )


@dataclass(frozen=True, slots=True)
class SheetLayer:
    """A layer as the sheet describes it, with the operations that are fused into its output.

    `same` means that the output has as many points as the input, divided by the stride.
    `winograd_weights` states whether the sheet counts the larger weights of a 3x3 layer; on some
    rows it does not.

    Raises UnsupportedError if the window does not fit."""

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
        """Input channels, rounded up, after strides are folded into channels."""
        return _up(self.channels * self.window.stride, CHANNELS_AT_ONCE)

    @property
    def folded(self) -> tuple[int, int]:
        """Rows and columns of the input after strides are folded into channels."""
        window = self.window
        return -(-self.rows // window.row_stride), -(-self.columns // window.column_stride)

    @property
    def convolved(self) -> tuple[int, int]:
        """Rows and columns after the convolution."""
        return self.folded if self.same else self.window.moves(self.rows, self.columns)

    @property
    def pooled(self) -> tuple[int, int]:
        """Rows and columns of the output."""
        return self.pool.moves(*self.convolved) if self.pool else self.convolved

    @property
    def kernel_points(self) -> int:
        """Weights of one kernel after strides are folded into channels, with rounded depth."""
        window = self.window
        rows, columns = (
            -(-window.rows // window.row_stride),
            -(-window.columns // window.column_stride),
        )
        return rows * columns * self.depth

    @property
    def slid(self) -> tuple[int, int]:
        """Rows and columns for which the sheet counts multiplications."""
        window = self.window
        over = (0, 0) if self.same else (window.rows - 1, window.columns - 1)
        return (
            -(-(self.rows - over[0]) // window.row_stride),
            -(-(self.columns - over[1]) // window.column_stride),
        )


class Resident(Enum):
    """The size with which the sheet compares an input to decide which operand stays in the
    buffer."""

    GROUP = "weights of a group of kernels"
    ALL = "all weights"


@dataclass(frozen=True, slots=True)
class Page:
    """The conventions of one page of the sheet.

    kernels_at_once     kernels are rounded up to a multiple of this
    once                every tensor is moved once; fully connected weights once in a batch
    compared            the size with which inputs are compared
    rows_ahead          rows of input that must be in the buffer besides those of a kernel
    first_layer         the first layer compares its least input, plus one row, with the weights
                        of a group
    """

    name: str
    kernels_at_once: int = 16
    once: bool = False
    compared: Resident = Resident.GROUP
    rows_ahead: int = 1
    first_layer: bool = False


ALEXNET = Page("AlexNet", once=True)
GOOGLENET = Page("GoogLeNet")
RESNET = Page(
    "ResNet-50", kernels_at_once=128, compared=Resident.ALL, rows_ahead=0, first_layer=True
)
PAGES = (ALEXNET, GOOGLENET, RESNET)


@dataclass(frozen=True, slots=True)
class LayerFigures:
    """The sheet's figures of a layer; sizes and traffic in KiB."""

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
        """Cycles of the layer."""
        return max(self.mac_cycles, self.dram_cycles)

    @property
    def limit(self) -> str:
        """The limiting resource, "MAC" or "DRAM"."""
        return "MAC" if self.mac_cycles >= self.dram_cycles else "DRAM"


def figures_of(
    layers: Sequence[SheetLayer], hardware: Hardware, page: Page
) -> tuple[LayerFigures, ...]:
    """The figures of every layer.  Raises CapacityError if a buffer is too small."""
    return tuple(_figures(layer, hardware, page, k == 0) for k, layer in enumerate(layers))


def frames_per_second(layers: Sequence[SheetLayer], hardware: Hardware, page: Page) -> Fraction:
    """The frame rate of a network whose layers run one after the other.  Raises CapacityError."""
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
    rows, columns = layer.pooled
    return rows * columns * _up(layer.kernels, CHANNELS_AT_ONCE) * hardware.feature_bytes


def _growth(layer: SheetLayer) -> Fraction:
    """The factor by which Winograd increases the weights of a layer."""
    return WINOGRAD_WEIGHTS if layer.is_3x3 and layer.winograd_weights else Fraction(1)


def _mac_cycles(layer: SheetLayer, hardware: Hardware, page: Page) -> Fraction:
    """Cycles of the multiplications of a layer."""
    rows, columns = layer.slid
    batch = hardware.fc_batch if layer.kind is SheetLayerKind.FULLY_CONNECTED else 1
    kernels = _up(layer.kernels * batch, page.kernels_at_once)
    taps = Fraction(layer.window.rows * layer.window.columns, layer.window.stride)
    saving = WINOGRAD_SAVING if layer.is_3x3 else 1
    return layer.depth * rows * columns * kernels * taps / hardware.macs / saving / batch


def _keeps_features(sizes: LayerFigures, page: Page, special: bool) -> bool:
    """Whether features stay in the buffer while weights stream through it."""
    if special:
        return sizes.least_in_kib < sizes.group_kib
    against = sizes.group_kib if page.compared is Resident.GROUP else sizes.weights_kib
    return sizes.in_kib < against


def _traffic(
    layer: SheetLayer, sizes: LayerFigures, buffer: Fraction, keeps_features: bool
) -> Fraction:
    """KiB read from and written to memory.  One operand is read once; the other is read again for
    each part of the first one that fits the buffer."""
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
    """`value`, rounded up to a multiple of `step`."""
    return -(-value // step) * step
