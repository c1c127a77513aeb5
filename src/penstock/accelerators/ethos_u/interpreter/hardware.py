"""The properties of Ethos-U configurations that affect results."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.accelerators.ethos_u.interpreter.commands import tables
from penstock.uma import UsageError

BANK_BYTES = 1024
TABLE_BYTES = 2048
"""Size of the activation tables, at the end of shared memory."""
SHARED_BANKS = 16
"""Number of banks of a shared memory so small that accumulators overwrite the tables."""
MOST_KERNELS = 2
"""Maximum number of block operations that are executing or queued."""


@dataclass(frozen=True, slots=True)
class NpuHardware:
    """A configuration: channels per micro block, banks of shared memory, maximum number of
    outstanding copies, and whether copies of external memory may be unaligned."""

    name: str
    ofm_channels: int
    ifm_channels: int
    banks: int
    dmas: int
    any_copy: bool

    @property
    def table_address(self) -> int:
        """Address of the first table in shared memory."""
        return self.banks * BANK_BYTES - TABLE_BYTES

    @property
    def shared_bytes(self) -> int:
        """Size of shared memory."""
        return self.banks * BANK_BYTES

    @property
    def overwrites_tables(self) -> bool:
        """Whether operations without a table overwrite the tables with accumulators."""
        return self.banks == SHARED_BANKS


def find_hardware(name: str) -> NpuHardware:
    """Return the configuration with that name. Raises UsageError."""
    known = tables()["accelerators"]
    if name not in known:
        raise UsageError(
            "ethosu-115",
            f"the accelerator {name!r} is not modelled",
            where="penstock.accelerators.ethos_u.interpreter",
            why=f"the modelled ones are {', '.join(known)}",
            help="use one of these",
        )
    return NpuHardware(name, **known[name])
