"""Hardware: what the configurations of Ethos-U differ in, as far as results depend on it."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.accelerators.ethos_u.interpreter.commands import tables
from penstock.uma import UsageError

BANK_BYTES = 1024
TABLE_BYTES = 2048
"""For tables of activations, at the end of shared memory."""
SHARED_BANKS = 16
"""Of shared memory, so few that accumulators use the tables' place, too."""
MOST_KERNELS = 2
"""Under way or queued at the same time."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """A configuration: channels of a micro block, banks of shared memory, copies under way at the
    same time at the most, and whether they may begin and end anywhere outside."""

    name: str
    ofm_channels: int
    ifm_channels: int
    banks: int
    dmas: int
    any_copy: bool

    @property
    def table_address(self) -> int:
        """Of the first table in shared memory."""
        return self.banks * BANK_BYTES - TABLE_BYTES

    @property
    def shared_bytes(self) -> int:
        """Of shared memory."""
        return self.banks * BANK_BYTES

    @property
    def overwrites_tables(self) -> bool:
        """Whether accumulators of operations without a table lie where tables are."""
        return self.banks == SHARED_BANKS


def hardware_of(name: str) -> Hardware:
    """The configuration of a name.  Raises UsageError."""
    known = tables()["accelerators"]
    if name not in known:
        raise UsageError(
            "ethosu-115",
            f"there is no functional model of the accelerator {name!r}",
            where="penstock.accelerators.ethos_u.interpreter",
            why=f"there are models of {', '.join(known)}",
            help="name one of those",
        )
    return Hardware(name, **known[name])
