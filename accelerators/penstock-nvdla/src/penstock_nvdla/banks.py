"""banks: the allocation of the convolution buffer's banks to data (input features) and weights.

Data and weights each occupy a circular buffer of whole banks.  Data consist of slices, one per
input row.  Weights consist of groups of kernels; the core computes one group at a time.  The banks
of weights must have space for one group and 128 more bytes.  NVDLA's open-source compiler tries
allocations in an order of preference (`PREFERENCE`); the first one that fits is chosen.

Sources: nvdla/sw, the open-source compiler; for the 128 bytes, NVDLA hardware manual, programming
guide.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from penstock.uma import CapacityError
from penstock_nvdla.configurations import NvdlaConfiguration

WEIGHT_ROOM_BYTES = 128
"""Space that the banks of weights need in addition to one group of kernels."""
PACKS_AS_A_WHOLE = 3
"""If this number of channel packs remains after whole entries, they occupy a whole entry at every
point of the row."""


class ResidentWeights(Enum):
    """The weights that the convolution buffer holds at a time: all of them; two groups of kernels,
    one of which is loaded while the other is used; or one group."""

    ALL = "all"
    TWO_GROUPS = "two groups"
    ONE_GROUP = "one group"


PREFERENCE = (ResidentWeights.ALL, ResidentWeights.TWO_GROUPS, ResidentWeights.ONE_GROUP)
"""The order in which allocations are tried."""


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
        """Return the number of banks that `size_bytes` bytes occupy."""
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
        split.  It is 1 if the buffer holds all rows at a time.

        For example, if the buffer holds 6 rows and layers overlap by 2 rows, 14 input rows take 3
        layers, which read rows [0, 6), [4, 10) and [8, 14)."""
        if self.rows >= height:
            return 1
        return -(-(height - self.overlap) // (self.rows - self.overlap))


def entries_per_slice(width: int, channels: int, hardware: NvdlaConfiguration) -> int:
    """Return the number of buffer entries that one row (slice) of int8 features occupies.

    An entry holds several packs of channels.  In the example, it holds 4 packs of 8 channels, and
    54 channels are 7 packs.  At each of the 35 points of the row, 4 packs fill an entry; the other
    3 take a whole entry, too.

    width: the number of columns.

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

    The compiler tries the options for weights in the order of `PREFERENCE`: all weights, two
    groups of kernels, one group.  It chooses the first option that leaves enough banks for the
    whole input.  If no option does, it chooses the first one that leaves enough banks for the input
    rows of one window.  All banks that the weights do not need then hold input rows.

    Raises CapacityError if the input rows of one window do not fit beside one group of kernels."""
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
    """Raise CapacityError unless the given numbers of banks suffice for a layer.

    The banks for data must hold the input rows of one window.  The banks for weights must hold one
    group of kernels, because the core applies a whole group at a time.  The sum of `data_banks` and
    `weight_banks` must not exceed the number of banks of the buffer.

    where: the location that the error message states."""
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
