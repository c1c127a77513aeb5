"""cut: splits a convolution into hardware layers (one start of the hardware each) that fit the
convolution buffer.

The hardware applies all kernels to the contents of the buffer.  If the input of a convolution does
not fit, the output rows are therefore divided into intervals, and a hardware layer computes each.
Input rows that two consecutive layers read stay in the buffer; so do the weights if all of them
fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from penstock_nvdla.configurations import NvdlaConfiguration
from penstock_nvdla.layer import (
    NO_PADDING,
    UNCHANGED,
    Accumulators,
    BankSplit,
    Conversion,
    ConvolutionLayer,
    Demand,
    NvdlaMemory,
    Padding,
    Reach,
    ResidentWeights,
    Reuse,
    Surface,
    allocate,
    trimmed,
)

# From this latency of memory on, the second of two passes takes over the first one's input, layers
# overlap, and the core fills the packs of images.  All of this saves little where memory answers
# sooner, as on `small`, whose streams ran on the RTL without it.
LATE_CYCLES = 100


@dataclass(frozen=True, slots=True)
class Convolution(Reach):
    """A convolution of int8 features before it is split into hardware layers.

    width, height, channels: the size of the input.
    kernels: the number of output channels.
    source, output: the memory layouts of the input and the output.
    pad_value: the value of padding.
    conversion: NVDLA's conversion of accumulators to output elements.

    The last input rows or columns may lie outside every window.  The hardware does not accept such
    rows and columns, so the hardware layers omit them."""

    hardware: NvdlaConfiguration
    width: int
    height: int
    channels: int
    kernels: int
    kernel_width: int
    kernel_height: int
    source: Surface
    output: Surface
    weight_address: int
    weight_memory: NvdlaMemory = NvdlaMemory.MAIN
    stride_x: int = 1
    stride_y: int = 1
    dilation_x: int = 1
    dilation_y: int = 1
    padding: Padding = NO_PADDING
    pad_value: int = 0
    conversion: Conversion = UNCHANGED

    @property
    def used_columns(self) -> tuple[int, int]:
        """How many columns the hardware processes: (input columns, columns of padding on the
        right).  Columns after the last window are omitted."""
        pad = self.padding
        return trimmed(self.width, self.reach_x, self.stride_x, pad.left, pad.right)

    @property
    def used_rows(self) -> tuple[int, int]:
        """How many rows the hardware processes: (input rows, rows of padding at the bottom).  Rows
        after the last window are omitted."""
        pad = self.padding
        return trimmed(self.height, self.reach_y, self.stride_y, pad.top, pad.bottom)

    @property
    def out_height(self) -> int:
        """The number of output rows."""
        padded = self.height + self.padding.top + self.padding.bottom
        return (padded - self.reach_y) // self.stride_y + 1

    @property
    def demand(self) -> Demand:
        """The convolution's sizes, by which `allocate` divides the banks of the convolution buffer
        between input and weights."""
        return Demand(
            self.hardware,
            self.used_columns[0],
            self.used_rows[0],
            self.channels,
            self.kernels,
            self.kernel_width * self.kernel_height,
            self.reach_y,
            self.stride_y,
        )


@dataclass(frozen=True, slots=True)
class RowPiece:
    """The rows of one hardware layer of a convolution: the layer computes output rows [first, end)
    from input rows [lower, upper)."""

    first: int
    end: int
    lower: int
    upper: int


@lru_cache(maxsize=4096)
def hardware_layers(
    convolution: Convolution, split: BankSplit | None = None
) -> tuple[ConvolutionLayer, ...]:
    """Return the hardware layers that compute a convolution, in order.

    split: the allocation of the convolution buffer; None for the one that `allocate` chooses.

    Raises CapacityError if the convolution buffer cannot hold the input rows and the weights for a
    single output row, and UnsupportedError if the hardware cannot execute a layer."""
    split = split or allocate(convolution.demand)
    pieces = tuple(cut(convolution, split.rows))
    last = len(pieces) - 1
    found: list[ConvolutionLayer] = []
    for k, piece in enumerate(pieces):
        before = pieces[k - 1] if k else None
        behind = pieces[k + 1] if k < last else None
        kept = _kept(before, piece) if before else 0
        layer = _layer(convolution, split, piece, kept)
        stays = split.weights is ResidentWeights.ALL
        reuse = Reuse(weights=stays and k > 0, keep_weights=stays and k < last)
        given_up = behind.lower - piece.lower if behind and _kept(piece, behind) else layer.height
        found.append(replace(layer, release=given_up, reuse=reuse))
    return tuple(found)


def layers_of_passes(passes: Sequence[Convolution]) -> tuple[tuple[ConvolutionLayer, ...], ...]:
    """Return the hardware layers of each of one or two convolutions of the same input and weights,
    which run one after the other.

    If memory is late and each of two is a single layer, the second one finds its input in the
    convolution buffer, and its weights, if the buffer stores all of them.  Raises the errors of
    `hardware_layers`."""
    found = tuple(map(hardware_layers, passes))
    late = passes[0].hardware.memory.latency_cycles >= LATE_CYCLES
    if not late or [len(layers) for layers in found] != [1, 1]:
        return found
    (first,), (second,) = found
    stays = allocate(passes[0].demand).weights is ResidentWeights.ALL
    return (
        (replace(first, reuse=Reuse(keep_data=True, keep_weights=stays)),),
        (replace(second, reuse=Reuse(data=True, weights=stays)),),
    )


def cut(convolution: Convolution, rows: int) -> Iterator[RowPiece]:
    """Divide the output rows of a convolution into intervals, and yield the rows of each, in
    order."""
    # Each interval has as many output rows as possible without reading more than `rows` input rows,
    # but at least one output row.  For example, if a 3x3 convolution without padding may read 6
    # rows at a time, each interval but the last has 4 output rows.
    first = 0
    while first < convolution.out_height:
        end = first + 1
        while end < convolution.out_height and _size(_piece(convolution, first, end + 1)) <= rows:
            end += 1
        yield _piece(convolution, first, end)
        first = end


def _piece(convolution: Convolution, first: int, end: int) -> RowPiece:
    """Return output rows [first, end) of a convolution, with the input rows that they read."""
    stride, top = convolution.stride_y, convolution.padding.top
    lower = first * stride - top
    upper = (end - 1) * stride + convolution.reach_y - top
    return RowPiece(first, end, max(0, lower), min(convolution.height, upper))


def _size(piece: RowPiece) -> int:
    return piece.upper - piece.lower


def _kept(before: RowPiece, piece: RowPiece) -> int:
    # If `before` reads input rows [0, 6) and `piece` reads [4, 10), the result is 2.  If both begin
    # at the same input row, it is 0: the previous layer would have to keep all of its input rows,
    # but the hardware requires that a layer discards at least one.
    return max(0, before.upper - piece.lower) if piece.lower > before.lower else 0


def _layer(
    convolution: Convolution, split: BankSplit, piece: RowPiece, kept: int
) -> ConvolutionLayer:
    """The hardware layer that computes the output rows of `piece`.  The layer discards all
    of its input rows when it is complete (`release`).  If the next layer reuses some of these rows,
    `hardware_layers` reduces `release` afterwards."""
    source, output = convolution.source, convolution.output
    width, right = convolution.used_columns
    top = convolution.padding.top - piece.first * convolution.stride_y
    below = (piece.end - 1) * convolution.stride_y + convolution.reach_y - convolution.padding.top
    fetched_from = source.address + (piece.lower + kept) * source.line_stride
    return ConvolutionLayer(
        convolution.hardware,
        width,
        _size(piece),
        convolution.channels,
        convolution.kernels,
        convolution.kernel_width,
        convolution.kernel_height,
        source=replace(source, address=fetched_from),
        output=replace(output, address=output.address + piece.first * output.line_stride),
        accumulators=Accumulators(output.line_stride, output.surface_stride),
        data_banks=split.data_banks,
        weight_banks=split.weight_banks,
        release=_size(piece),
        stride_x=convolution.stride_x,
        stride_y=convolution.stride_y,
        dilation_x=convolution.dilation_x,
        dilation_y=convolution.dilation_y,
        padding=Padding(
            convolution.padding.left, right, max(0, top), max(0, below - convolution.height)
        ),
        pad_value=convolution.pad_value,
        weight_address=convolution.weight_address,
        weight_memory=convolution.weight_memory,
        kept_rows=kept,
        conversion=convolution.conversion,
    )
