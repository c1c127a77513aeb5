"""The properties of Ethos-U configurations on which the result of a command stream depends."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.uma import UsageError
from penstock_ethos_u.interpreter.commands import U55, tables

BANK_BYTES = 1024  # Size of a bank of shared memory, in bytes.
# Size of the part of shared memory that holds look-up tables, at its end, in bytes.
TABLE_BYTES = 2048
# In configurations with this number of banks, accumulators use the banks of the look-up tables.
SHARED_BANKS = 16
MOST_KERNELS = 2  # Maximum number of block operations that are executing or queued.


@dataclass(frozen=True, slots=True)
class NpuHardware:
    """A hardware configuration.

    name: name of the configuration, for example "ethos-u55-128".
    ofm_channels, ifm_channels: output and input channels of a micro block, the unit of computation
        of the multipliers.
    banks: size of shared memory in banks of 1024 bytes. Shared memory is the internal memory of the
        NPU for accumulators and look-up tables.
    dmas: maximum number of copies that may be unfinished at the same time.
    unaligned_copies: whether the addresses and the size in bytes of a copy may be any numbers, not
        only multiples of 16. Addresses in shared memory, and the size of a copy into shared memory,
        must always be multiples of 16.
    cores: maximum number of cores, or weight decoders, that share the output channels of an
        operation.
    family: family whose registers the NPU has: "u55", also for U65, or "u85"."""

    name: str
    ofm_channels: int
    ifm_channels: int
    banks: int
    dmas: int
    unaligned_copies: bool
    cores: int = 1
    family: str = U55

    @property
    def table_address(self) -> int:
        """Address of the first look-up table in shared memory, the internal memory of the NPU."""
        return self.banks * BANK_BYTES - TABLE_BYTES

    @property
    def shared_bytes(self) -> int:
        """Size in bytes of shared memory, the internal memory of the NPU."""
        return self.banks * BANK_BYTES

    @property
    def overwrites_tables(self) -> bool:
        """Whether an operation without a look-up table overwrites the tables of other operations:
        its accumulators then also occupy the part of shared memory reserved for tables."""
        return self.banks == SHARED_BANKS


def find_hardware(name: str) -> NpuHardware:
    """Return the hardware configuration `name`, for example "ethos-u55-128". Raises UsageError if
    there is no configuration with that name."""
    known = tables()["accelerators"]
    if name not in known:
        raise UsageError(
            "ethosu-115",
            f"the accelerator {name!r} is not modelled",
            where="penstock_ethos_u.interpreter",
            why=f"the modelled ones are {', '.join(known)}",
            help="use one of these",
        )
    return NpuHardware(name, **known[name])
