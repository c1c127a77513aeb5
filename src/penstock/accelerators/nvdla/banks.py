"""banks: how the convolution buffer's banks are dealt to data and to weights.

Both halves are rings of whole banks.  Data lie in slices, a row of the input each; weights in
groups of as many kernels as the core computes at once.  Which split is taken is the open compiler's
first that fits (`PREFERENCE`).

Source: nvdla/sw, the open compiler; the room behind weights: NVDLA hardware manual, programming
guide.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from penstock.accelerators.nvdla.configurations import Configuration
from penstock.uma import CapacityError

WEIGHT_ROOM_BYTES = 128
"""Beyond one group of kernels, in the banks for weights."""
PACKS_AS_A_WHOLE = 3
"""So many packs of channels beyond whole entries take an entry at every point."""


class Weights(Enum):
    """Which weights are in the buffer at a time: all; two groups, so that one is fetched while the
    other is used; one."""

    ALL = "all"
    TWO_GROUPS = "two groups"
    ONE_GROUP = "one group"


PREFERENCE = (Weights.ALL, Weights.TWO_GROUPS, Weights.ONE_GROUP)


@dataclass(frozen=True, slots=True)
class Demand:
    """What a direct convolution of int8 asks of the buffer: input, kernels, taps of a kernel, rows
    from its first to its last tap, and rows by which it moves."""

    hardware: Configuration
    width: int
    height: int
    channels: int
    kernels: int
    taps: int
    reach_rows: int
    stride_rows: int

    @property
    def slice_entries(self) -> int:
        """Entries of a row of the input."""
        return entries_per_slice(self.width, self.channels, self.hardware)

    def data_banks(self, rows: int) -> int:
        """Banks for some rows of the input."""
        return -(-self.slice_entries * rows // self.hardware.bank_entries)

    def weight_banks(self, which: Weights) -> int:
        """Banks for weights, with room behind a group."""
        kernel_bytes = self.taps * self.channels
        group = kernel_bytes * min(self.hardware.atomic_k, self.kernels)
        least = self._banks(group + WEIGHT_ROOM_BYTES)
        if which is Weights.ALL:
            return max(least, self._banks(kernel_bytes * self.kernels))
        return max(least, 2 * self._banks(group)) if which is Weights.TWO_GROUPS else least

    def _banks(self, size_bytes: int) -> int:
        return -(-size_bytes // self.hardware.bank_bytes)


@dataclass(frozen=True, slots=True)
class Split:
    """Banks for data and for weights; which weights these hold, and the rows of the input that are
    there at a time.  `overlap`: rows that a piece of the input shares with the next."""

    weights: Weights
    data_banks: int
    weight_banks: int
    rows: int
    overlap: int

    def pieces(self, height: int) -> int:
        """How many hardware layers an input of some rows becomes."""
        if self.rows >= height:
            return 1
        return -(-(height - self.overlap) // (self.rows - self.overlap))


def entries_per_slice(width: int, channels: int, hardware: Configuration) -> int:
    """Entries of the buffer that a row of int8 features takes.

    >>> from penstock.accelerators.nvdla.configurations import SMALL_256
    >>> entries_per_slice(35, 54, SMALL_256)
    70
    """
    packs = -(-channels // hardware.memory_atom_bytes)
    packs_per_entry = hardware.entry_bytes // hardware.memory_atom_bytes
    whole, rest = divmod(packs, packs_per_entry)
    tail = width if rest == PACKS_AS_A_WHOLE else -(-rest * width // packs_per_entry)
    return whole * width + tail


def allocate(demand: Demand, reserved: int = 0) -> Split:
    """The open compiler's split: the whole input with as many weights as fit; else pieces of the
    input with as many weights as fit.  `reserved`: banks that are neither's.

    Raises CapacityError where no rows fit beside any weights."""
    banks = demand.hardware.banks - reserved
    overlap = max(demand.reach_rows - demand.stride_rows, 0)
    whole = demand.data_banks(demand.height)
    for which in PREFERENCE:
        if whole + demand.weight_banks(which) <= banks:
            return Split(which, whole, demand.weight_banks(which), demand.height, overlap)
    for which in PREFERENCE:
        left = banks - demand.weight_banks(which)
        rows = max(left, 0) * demand.hardware.bank_entries // demand.slice_entries
        if rows >= max(demand.reach_rows, overlap + 1):
            return Split(which, left, demand.weight_banks(which), rows, overlap)
    least = demand.data_banks(demand.reach_rows) + demand.weight_banks(Weights.ONE_GROUP)
    raise CapacityError(
        "nvdla-006",
        f"the rows under a kernel and a group of kernels take {least} banks of {banks}",
        where=f"the convolution buffer of NVDLA {demand.hardware.name}",
        why="without them the core cannot compute a single row",
        help="take a larger configuration, or run the layer elsewhere",
    )


def check_banks(demand: Demand, data_banks: int, weight_banks: int, where: str) -> None:
    """Raises CapacityError where banks are not enough, or too many."""
    hardware = demand.hardware
    rows = min(demand.height, demand.reach_rows)
    needed = (demand.data_banks(rows), demand.weight_banks(Weights.ONE_GROUP))
    given = (data_banks, weight_banks)
    if needed[0] <= data_banks and needed[1] <= weight_banks and sum(given) <= hardware.banks:
        return
    raise CapacityError(
        "nvdla-007",
        f"banks are dealt {data_banks} to data and {weight_banks} to weights, of {hardware.banks}",
        where=where,
        why=f"the rows under a kernel take {needed[0]}, a group of kernels takes {needed[1]}",
        help="deal them as allocate() does, or cut the layer",
    )
