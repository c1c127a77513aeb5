"""layer: a direct convolution as one hardware layer, that is, one start of NVDLA's convolution
core.

A `ConvolutionLayer` holds the parameters that a program can choose; derived values (output sizes,
buffer entries) are properties.  Counts are stored as they are; registers hold count - 1.  The
constructor raises an error if the hardware cannot execute the layer.

Source: NVDLA hardware manual, programming guide (limits) and in-memory formats (alignment).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, IntEnum

from penstock.uma import CapacityError, UnsupportedError
from penstock_nvdla.configurations import NvdlaConfiguration

# The allocation of the convolution buffer's banks to data (input features) and weights.
#
# Data and weights each occupy a circular buffer of whole banks.  Data consist of slices, one per
# input row.  Weights consist of groups of kernels; the core computes one group at a time.  The
# banks of weights must have space for one group and 128 more bytes.  NVDLA's open-source compiler
# tries allocations in an order of preference (`PREFERENCE`); the first one that fits is chosen.
#
# Sources: nvdla/sw, the open-source compiler; for the 128 bytes, NVDLA hardware manual, programming
# guide.


WEIGHT_ROOM_BYTES = 128  # Space that the banks of weights need in addition to one group of kernels.
# If this number of channel packs remains after whole entries, they occupy a whole entry at every
# point of the row.
PACKS_AS_A_WHOLE = 3


class ResidentWeights(Enum):
    """The weights that the convolution buffer holds at a time: all of them; two groups of kernels,
    one of which is loaded while the other is used; or one group."""

    ALL = "all"
    TWO_GROUPS = "two groups"
    ONE_GROUP = "one group"


# The order in which allocations are tried.
PREFERENCE = (ResidentWeights.ALL, ResidentWeights.TWO_GROUPS, ResidentWeights.ONE_GROUP)


@dataclass(frozen=True, slots=True)
class Demand:
    """The parameters of a direct convolution that determine its use of the convolution buffer.

    width, height, channels: the size of the input.
    kernels: the number of output channels.
    taps: the number of elements of a kernel in each channel, rows times columns.
    reach_rows: the number of rows that a kernel spans, dilation included.
    stride_rows: the vertical stride."""

    hardware: NvdlaConfiguration
    width: int
    height: int
    channels: int
    kernels: int
    taps: int
    reach_rows: int
    stride_rows: int

    @property
    def slice_entries(self) -> int:
        """The number of buffer entries that one input row (slice) occupies."""
        return entries_per_slice(self.width, self.channels, self.hardware)

    def data_banks(self, rows: int) -> int:
        """Return the number of banks that `rows` input rows occupy."""
        return -(-self.slice_entries * rows // self.hardware.bank_entries)

    def weight_banks(self, which: ResidentWeights) -> int:
        """Return the number of banks that the weights `which` occupy.

        The result is never less than the hardware requires: enough banks for the weights of
        `atomic_k` output channels and 128 bytes of free space (`WEIGHT_ROOM_BYTES`)."""
        kernel_bytes = self.taps * self.channels
        group = kernel_bytes * min(self.hardware.atomic_k, self.kernels)
        least = self._banks(group + WEIGHT_ROOM_BYTES)
        if which is ResidentWeights.ALL:
            return max(least, self._banks(kernel_bytes * self.kernels))
        return max(least, 2 * self._banks(group)) if which is ResidentWeights.TWO_GROUPS else least

    def _banks(self, size_bytes: int) -> int:
        """The number of banks that `size_bytes` bytes occupy."""
        return -(-size_bytes // self.hardware.bank_bytes)


@dataclass(frozen=True, slots=True)
class BankSplit:
    """An allocation of the banks of the convolution buffer to data and weights.

    weights: the weights that the buffer holds at a time: all, or one or two groups of kernels.
    data_banks, weight_banks: the numbers of banks for input rows and for weights.
    rows: the number of input rows that the buffer holds at a time.
    overlap: the number of input rows that two consecutive hardware layers both read, if the
        convolution is split by output rows.  It is the number of rows that a kernel spans minus the
        stride, but at least 0: a 3x3 kernel with stride 1 has an overlap of 2 rows."""

    weights: ResidentWeights
    data_banks: int
    weight_banks: int
    rows: int
    overlap: int

    def pieces(self, height: int) -> int:
        """Return the number of hardware layers into which a convolution of `height` input rows is
        split.  It is 1 if the buffer holds all rows at a time."""
        # For example, if the buffer holds 6 rows and layers overlap by 2 rows, 14 input rows take 3
        # layers, which read rows [0, 6), [4, 10) and [8, 14).
        if self.rows >= height:
            return 1
        return -(-(height - self.overlap) // (self.rows - self.overlap))


def entries_per_slice(width: int, channels: int, hardware: NvdlaConfiguration) -> int:
    """Return the number of buffer entries that one row (slice) of int8 features occupies.

    An entry holds several packs of channels.  In the example, it holds 4 packs of 8 channels, and
    54 channels are 7 packs.  At each of the 35 points of the row, 4 packs fill an entry; the other
    3 take a whole entry, too.

    >>> from penstock_nvdla.configurations import SMALL_256
    >>> entries_per_slice(35, 54, SMALL_256)
    70
    """
    packs = -(-channels // hardware.memory_atom_bytes)
    packs_per_entry = hardware.entry_bytes // hardware.memory_atom_bytes
    whole, rest = divmod(packs, packs_per_entry)
    tail = width if rest == PACKS_AS_A_WHOLE else -(-rest * width // packs_per_entry)
    return whole * width + tail


def allocate(demand: Demand, reserved: int = 0) -> BankSplit:
    """Return the allocation that NVDLA's open-source compiler chooses; `reserved` banks remain
    unused.

    Raises CapacityError if the input rows of one window do not fit beside one group of kernels."""
    # The compiler tries the options for weights in the order of `PREFERENCE`: all weights, two
    # groups of kernels, one group.  It chooses the first option that leaves enough banks for the
    # whole input.  If no option does, it chooses the first one that leaves enough banks for the
    # input rows of one window.  All banks that the weights do not need then hold input rows.
    banks = demand.hardware.banks - reserved
    overlap = max(demand.reach_rows - demand.stride_rows, 0)
    whole = demand.data_banks(demand.height)
    for which in PREFERENCE:
        if whole + demand.weight_banks(which) <= banks:
            return BankSplit(which, whole, demand.weight_banks(which), demand.height, overlap)
    for which in PREFERENCE:
        left = banks - demand.weight_banks(which)
        rows = max(left, 0) * demand.hardware.bank_entries // demand.slice_entries
        if rows >= max(demand.reach_rows, overlap + 1):
            return BankSplit(which, left, demand.weight_banks(which), rows, overlap)
    least = demand.data_banks(demand.reach_rows) + demand.weight_banks(ResidentWeights.ONE_GROUP)
    raise CapacityError(
        "nvdla-006",
        f"the input rows of a kernel and a group of kernels need {least} banks of {banks}",
        where=f"the convolution buffer of NVDLA {demand.hardware.name}",
        why="without them the core cannot compute a single row",
        help="use a larger configuration, or run the layer on the CPU",
    )


def check_banks(demand: Demand, data_banks: int, weight_banks: int, where: str) -> None:
    """Raise CapacityError unless the given numbers of banks suffice for a layer."""
    # The banks for data must hold the input rows of one window.  The banks for weights must hold
    # one group of kernels, because the core applies a whole group at a time.  The sum of
    # `data_banks` and `weight_banks` must not exceed the number of banks of the buffer.
    hardware = demand.hardware
    rows = min(demand.height, demand.reach_rows)
    needed = (demand.data_banks(rows), demand.weight_banks(ResidentWeights.ONE_GROUP))
    given = (data_banks, weight_banks)
    if needed[0] <= data_banks and needed[1] <= weight_banks and sum(given) <= hardware.banks:
        return
    raise CapacityError(
        "nvdla-007",
        f"{data_banks} banks for data and {weight_banks} for weights do not suit {hardware.banks} "
        "banks",
        where=where,
        why=f"the rows under a kernel take {needed[0]}, a group of kernels takes {needed[1]}",
        help="use the result of allocate(), or split the layer",
    )


WEIGHT_ALIGNMENT_BYTES = 256  # Alignment of the address of a layer's weights.
# Attributes of a `ConvolutionLayer` that must be at least 1.
COUNTS = (
    *("width", "height", "channels", "kernels", "kernel_width", "kernel_height", "stride_x"),
    *("stride_y", "dilation_x", "dilation_y", "release", "fetch_grain"),
)


class NvdlaMemory(IntEnum):
    """A memory; each value is its code in register fields.

    CVSRAM is the memory at the second memory port, which only some configurations have."""

    CVSRAM = 0
    MAIN = 1


@dataclass(frozen=True, slots=True)
class Surface:
    """The memory layout of features in packs of channels; in a pack, each pixel takes one memory
    atom (8 or 32 bytes, `NvdlaConfiguration.memory_atom_bytes`).

    line_stride: the distance in bytes between consecutive rows (lines).
    surface_stride: the distance in bytes between consecutive packs (surfaces).
    address: the address of the first byte in `memory`."""

    line_stride: int
    surface_stride: int
    address: int = 0
    memory: NvdlaMemory = NvdlaMemory.MAIN

    @staticmethod
    def packed(
        width: int,
        height: int,
        atom_bytes: int,
        address: int = 0,
        memory: NvdlaMemory = NvdlaMemory.MAIN,
    ) -> Surface:
        """Return a surface without gaps between rows or packs.  `width` and `height` are in pixels;
        a pixel takes `atom_bytes` bytes in each pack."""
        line = width * atom_bytes
        return Surface(line, line * height, address, memory)


@dataclass(frozen=True, slots=True)
class Padding:
    """Padding of the input, in rows (`top`, `bottom`) and columns (`left`, `right`)."""

    left: int = 0
    right: int = 0
    top: int = 0
    bottom: int = 0


NOWHERE = Surface(0, 0)
NO_PADDING = Padding()


@dataclass(frozen=True, slots=True)
class Reuse:
    """What a hardware layer takes over from the previous layer in the convolution buffer, and what
    it keeps there for the next layer.

    data, weights: whether the layer reads its whole input, or its weights, from the buffer instead
        of memory, because the previous layer kept them.
    keep_data, keep_weights: whether the layer keeps its whole input, or its weights, in the
        buffer."""

    data: bool = False
    weights: bool = False
    keep_data: bool = False
    keep_weights: bool = False


@dataclass(frozen=True, slots=True)
class Accumulators:
    """The format in which the core delivers accumulators, the sums of products of a convolution, to
    the unit that converts them to output elements.

    line_stride: the distance in bytes between output rows (lines).
    surface_stride: the distance in bytes between packs of channels (surfaces).
    line_packed, surface_packed: whether there are no gaps between lines, or between surfaces.
    truncate: the number of bits by which accumulators are shifted right, with rounding."""

    line_stride: int
    surface_stride: int
    line_packed: bool = False
    surface_packed: bool = False
    truncate: int = 0


@dataclass(frozen=True, slots=True)
class Conversion:
    """NVDLA's own conversion of an accumulator a to an output element: (a - offset) * scale >>
    shift, rounded and saturated to int8.  `nan_to_zero` is a register bit for floating point and
    has no effect on int8."""

    offset: int = 0
    scale: int = 1
    shift: int = 0
    nan_to_zero: bool = False


UNCHANGED = Conversion()


@dataclass(frozen=True, slots=True)
class Pixels:
    """Values of the register fields for the pixel format, mapping and sign override of image input.
    Direct convolutions ignore them; encoding and decoding preserve them."""

    format: int = 0
    mapping: int = 0
    sign_override: int = 0


class Reach:
    """A base class for records of convolutions.  It derives the number of rows and columns that a
    kernel spans from the kernel's size and dilation."""

    __slots__ = ()
    kernel_width: int
    kernel_height: int
    dilation_x: int
    dilation_y: int

    @property
    def reach_x(self) -> int:
        """The number of columns that a kernel spans, dilation included."""
        return (self.kernel_width - 1) * self.dilation_x + 1

    @property
    def reach_y(self) -> int:
        """The number of rows that a kernel spans, dilation included."""
        return (self.kernel_height - 1) * self.dilation_y + 1


@dataclass(frozen=True, slots=True)
class ConvolutionLayer(Reach):
    """A direct convolution of int8 features as one hardware layer.

    width, height, channels: the size of the input.
    kernels: the number of output channels.
    source, output: the memory layouts of the input and the output.
    accumulators: the format in which the core delivers accumulators.
    data_banks, weight_banks: the numbers of banks of the convolution buffer for data and weights.
    release: the number of input rows, from the top, that the layer discards when it is complete;
        the others stay in the convolution buffer for the next layer.
    pad_value: the value of padding; its register field has 16 bits, of which int8 uses the low 8.
    source_line_packed: whether the input has no gaps between rows.
    source_surface_packed: whether the input has no gaps between packs of channels.
    kept_rows: the number of input rows, from the top, that are in the buffer because the previous
        layer did not discard them.
    fetch_grain: the number of rows that are loaded before the core starts.
    reuse: whether the layer uses input or weights in the buffer, or keeps them there.
    weight_padding: the number of bytes after the weights, besides those that fill an entry of the
        buffer, that the layer fetches too.
    conversion: NVDLA's conversion of accumulators to output elements.
    pixels: register fields of image input, which a direct convolution ignores.
    through_y: whether SDP's unit Y is used; it then limits the rate of the output.

    Raises UnsupportedError if the hardware cannot execute the layer, and CapacityError if it has
    too few banks."""

    hardware: NvdlaConfiguration
    width: int
    height: int
    channels: int
    kernels: int
    kernel_width: int
    kernel_height: int
    source: Surface
    output: Surface
    accumulators: Accumulators
    data_banks: int
    weight_banks: int
    release: int
    stride_x: int = 1
    stride_y: int = 1
    dilation_x: int = 1
    dilation_y: int = 1
    padding: Padding = NO_PADDING
    pad_value: int = 0
    source_line_packed: bool = False
    source_surface_packed: bool = False
    weight_address: int = 0
    weight_memory: NvdlaMemory = NvdlaMemory.MAIN
    kept_rows: int = 0
    fetch_grain: int = 1
    reuse: Reuse = Reuse()
    weight_padding: int = 0
    conversion: Conversion = UNCHANGED
    pixels: Pixels = Pixels()
    through_y: bool = False

    def __post_init__(self) -> None:
        for what, why in _faults(self):
            raise UnsupportedError(
                "nvdla-005",
                what,
                where=str(self),
                why=why,
                help="change the layer, or run it on the CPU",
            )
        check_banks(self.demand, self.data_banks, self.weight_banks, str(self))

    def __str__(self) -> str:
        size = f"{self.width}x{self.height}x{self.channels}"
        return (
            f"convolution of {size} by {self.kernels} kernels of "
            f"{self.kernel_width}x{self.kernel_height} on NVDLA {self.hardware.name}"
        )

    @property
    def padded(self) -> tuple[int, int]:
        """The size (columns, rows) of the input, including padding."""
        pad = self.padding
        return self.width + pad.left + pad.right, self.height + pad.top + pad.bottom

    @property
    def out_width(self) -> int:
        """The number of output columns."""
        return (self.padded[0] - self.reach_x) // self.stride_x + 1

    @property
    def out_height(self) -> int:
        """The number of output rows."""
        return (self.padded[1] - self.reach_y) // self.stride_y + 1

    @property
    def atomics(self) -> int:
        """The number of output pixels, called atomics in NVDLA's registers."""
        return self.out_width * self.out_height

    @property
    def fetched_rows(self) -> int:
        """The number of input rows read from memory; all others are already in the buffer."""
        return self.height - self.kept_rows

    @property
    def takes_rows_over(self) -> bool:
        """Whether input rows are in the buffer; without this the core releases them."""
        return self.reuse.data or self.kept_rows > 0

    @property
    def bytes_per_kernel(self) -> int:
        """The size of the weights of one kernel in bytes."""
        return self.kernel_width * self.kernel_height * self.channels

    @property
    def weight_bytes(self) -> int:
        """The number of bytes that the layer fetches: its weights in whole entries of the buffer,
        and `weight_padding`."""
        # The core releases the entries that it reads.  If the layer fetches more, the next one
        # takes them for its weights.
        return self.needed_weight_bytes + self.weight_padding

    @property
    def fetched_weight_bytes(self) -> int:
        """The number of bytes of weights read from memory."""
        return 0 if self.reuse.weights else self.weight_bytes

    @property
    def needed_weight_bytes(self) -> int:
        """The size in bytes of all weights, in whole entries of the buffer."""
        entry = self.hardware.entry_bytes
        return -(-self.bytes_per_kernel * self.kernels // entry) * entry

    @property
    def demand(self) -> Demand:
        """The layer's sizes, from which `check_banks` computes how many banks of the convolution
        buffer it needs at least."""
        return Demand(
            self.hardware,
            self.width,
            self.height,
            self.channels,
            self.kernels,
            self.kernel_width * self.kernel_height,
            self.reach_y,
            self.stride_y,
        )

    @property
    def entries_per_slice(self) -> int:
        """The number of entries of the convolution buffer that an input row (slice) takes."""
        return entries_per_slice(self.width, self.channels, self.hardware)


def fits_beside(before: ConvolutionLayer, layer: ConvolutionLayer) -> bool:
    """Return whether the convolution buffer has space for all that a layer fetches while it still
    contains what the layer before reads."""
    chip, rows = layer.hardware, 0 if layer.reuse.data else layer.fetched_rows
    entries = before.height * before.entries_per_slice + rows * layer.entries_per_slice
    weight_bytes = before.weight_bytes + layer.fetched_weight_bytes
    return (
        (before.data_banks, before.weight_banks) == (layer.data_banks, layer.weight_banks)
        and entries <= layer.data_banks * chip.bank_entries
        and weight_bytes <= layer.weight_banks * chip.bank_bytes
    )


def trimmed(width: int, reach: int, stride: int, before: int, behind: int) -> tuple[int, int]:
    """Return how many columns the hardware processes, as (columns of the input, columns of padding
    after the input).  The hardware accepts no columns after the last window, so these are omitted.
    Rows are trimmed in the same way.

    before, behind: the columns of padding before and after the input.

    >>> trimmed(width=56, reach=1, stride=2, before=0, behind=0)
    (55, 0)
    """
    unused = (before + width + behind - reach) % stride
    return width - max(0, unused - behind), max(0, behind - unused)


def _faults(layer: ConvolutionLayer) -> Iterator[tuple[str, str]]:
    """(fault, reason) for each limit of the hardware that a layer violates: phrases for an
    error message, such as ("padding top is 3", "it must be less than 3")."""
    for name in COUNTS:
        if getattr(layer, name) < 1:
            yield f"{name} is {getattr(layer, name)}", "it must be at least 1"
    yield from _window_faults(layer)
    if not 0 <= layer.kept_rows < layer.height:
        yield (
            f"{layer.kept_rows} of {layer.height} rows are kept",
            "a layer fetches a row at least; one that fetches none reuses its data",
        )
    if layer.reuse.data and layer.kept_rows:
        yield f"all rows are reused, {layer.kept_rows} are kept", "it is either all or some"
    if layer.release > layer.height:
        yield f"{layer.release} rows are released", f"there are {layer.height}"
    if layer.weight_padding < 0 or layer.weight_padding % layer.hardware.entry_bytes:
        yield (
            f"weights are followed by {layer.weight_padding} bytes",
            f"they must be whole entries of {layer.hardware.entry_bytes} bytes",
        )
    yield from _address_faults(layer)


def _window_faults(layer: ConvolutionLayer) -> Iterator[tuple[str, str]]:
    """(fault, reason), two phrases for an error message, for each limit of the hardware that
    the window and the padding of a layer violate."""
    pad, sides = layer.padding, ("left", "right", "top", "bottom")
    reaches = (layer.reach_x, layer.reach_x, layer.reach_y, layer.reach_y)
    for side, reach in zip(sides, reaches, strict=True):
        if not 0 <= getattr(pad, side) < reach:
            yield (
                f"padding {side} is {getattr(pad, side)}",
                f"it must be less than the {reach} points that a kernel reaches over",
            )
    axes = (
        ("columns", layer.padded[0], layer.reach_x, layer.stride_x),
        ("rows", layer.padded[1], layer.reach_y, layer.stride_y),
    )
    for name, padded, reach, stride in axes:
        if padded < reach:
            yield f"a kernel spans {reach} {name} of {padded}", "it must fit"
        elif (padded - reach) % stride:
            yield (
                f"the last {(padded - reach) % stride} {name} are not used by any window",
                "the hardware accepts no unused rows or columns",
            )


def _address_faults(layer: ConvolutionLayer) -> Iterator[tuple[str, str]]:
    """(fault, reason), two phrases for an error message, for each limit of the hardware that
    the addresses and strides of a layer violate."""
    atom = layer.hardware.memory_atom_bytes
    for name, surface, width in (
        ("input", layer.source, layer.width),
        ("output", layer.output, layer.out_width),
    ):
        for part in ("address", "line_stride", "surface_stride"):
            if getattr(surface, part) % atom:
                yield (
                    f"{part} of the {name} is {getattr(surface, part)}",
                    f"it must be a multiple of the memory atom, {atom} bytes",
                )
        if surface.line_stride < width * atom:
            yield (
                f"lines of the {name} are {surface.line_stride} bytes apart",
                f"one takes {width * atom}",
            )
    if layer.weight_address % WEIGHT_ALIGNMENT_BYTES:
        yield (
            f"the address of weights is {layer.weight_address:#x}",
            f"it must be a multiple of {WEIGHT_ALIGNMENT_BYTES}",
        )
    used = (layer.source.memory, layer.output.memory, layer.weight_memory)
    if NvdlaMemory.CVSRAM in used and layer.hardware.sram is None:
        yield "a tensor lies at the second memory port", "the configuration has but one"
    most = 1 << layer.hardware.address_bits
    for address in (layer.source.address, layer.output.address, layer.weight_address):
        if not 0 <= address < most:
            yield (
                f"an address is {address:#x}",
                f"addresses have {layer.hardware.address_bits} bits",
            )
