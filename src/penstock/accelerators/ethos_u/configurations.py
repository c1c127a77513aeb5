"""configurations: Ethos-U's hardware and the memories that it stands between, as data.

Source: Arm's compiler Vela 5.2.0, which publishes sizes and rates of the configurations
(`architecture_features.py`) and of systems (`config_files/Arm/vela.ini`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from penstock.uma import UsageError

BANK_BYTES = 1024
"""Of one bank of the buffer between memory and multipliers."""
OUTPUT_BANKS = 2
"""Banks that no operation may use: results wait there."""
LOOKUP_BANKS = 2
"""Banks of the table for activations; the larger buffers have them besides."""
BRICK = 16
"""Channels that lie together in the layout NHCWB16."""
BRICKS = "nhcwb16"
LAYOUTS = (BRICKS, "nhwc")
SRAM_ONLY = "sram_only"
MEMORY_MODES = ("shared_sram", SRAM_ONLY, "dedicated_sram")


class Shape(NamedTuple):
    """Rows, columns and channels."""

    height: int
    width: int
    depth: int

    @property
    def elements(self) -> int:
        return self.height * self.width * self.depth


class OutputRates(NamedTuple):
    """Cycles for each element of what follows the multipliers."""

    multiply: float
    add: float
    maximum: float
    other: float
    lookup: float
    clamp: float


@dataclass(frozen=True, slots=True)
class MemoryPort:
    """A memory behind its port: bytes a cycle, cycles until the first byte is read and until the
    last one is written, and the most bytes of a burst."""

    name: str
    bytes_per_cycle: float
    read_latency: int
    write_latency: int
    burst_bytes: int


@dataclass(frozen=True, slots=True)
class Configuration:
    """One configuration of the hardware.

    The smallest piece of output that the multipliers compute is a `micro_block`.  Inputs and sums
    share a buffer of `banks`, of which each gets a multiple of `input_granule` and `sum_granule`
    banks.  `features` holds tensors, `constants` weights, biases and tables.  At most
    `most_copies` copies are under way at the same time."""

    name: str
    macs: int
    micro_block: Shape
    banks: int
    input_granule: int
    sum_granule: int
    rates: OutputRates
    features: MemoryPort
    constants: MemoryPort
    most_copies: int = 1

    @property
    def end_banks(self) -> int:
        """Banks at the buffer's end that operations without a table cannot use either."""
        return LOOKUP_BANKS if self.banks > 16 else 0

    @property
    def in_sram(self) -> Configuration:
        """With constants in the memory of tensors."""
        return replace(self, constants=self.features)

    @property
    def smallest(self) -> bool:
        """Whether it is the one that adds four channels at a time."""
        return self.micro_block.depth < 8


_SRAM_U55 = MemoryPort("SRAM", 8.0, 32, 32, 32)
_FLASH_U55 = MemoryPort("flash", 1.0, 64, 0, 128)
_SRAM_U65 = MemoryPort("SRAM", 16.0, 32, 32, 32)
_DRAM_U65 = MemoryPort("DRAM", 7.5, 500, 250, 128)

U55_32 = Configuration(
    "ethos-u55-32", 32, Shape(1, 1, 4), 16, 2, 4,
    OutputRates(3.0, 6.0, 1.0, 2.0, 1.0, 1.0), _SRAM_U55, _FLASH_U55,
)  # fmt: skip
U55_64 = Configuration(
    "ethos-u55-64", 64, Shape(1, 1, 8), 16, 2, 4,
    OutputRates(1.5, 3.0, 0.5, 1.0, 1.0, 1.0), _SRAM_U55, _FLASH_U55,
)  # fmt: skip
U55_128 = Configuration(
    "ethos-u55-128", 128, Shape(1, 2, 8), 24, 4, 8,
    OutputRates(0.75, 1.5, 0.25, 0.5, 1.0, 0.5), _SRAM_U55, _FLASH_U55,
)  # fmt: skip
U55_256 = Configuration(
    "ethos-u55-256", 256, Shape(2, 2, 8), 48, 8, 16,
    OutputRates(0.375, 0.75, 0.125, 0.25, 1.0, 0.25), _SRAM_U55, _FLASH_U55,
)  # fmt: skip
U65_256 = replace(
    U55_256, name="ethos-u65-256", features=_SRAM_U65, constants=_DRAM_U65, most_copies=2
)
"""Systems: "Ethos_U55_High_End_Embedded" and "Ethos_U65_Mid_End" of Vela's."""

CONFIGURATIONS: Mapping[str, Configuration] = {
    c.name: c for c in (U55_32, U55_64, U55_128, U55_256, U65_256)
}


def check_layout(layout: object) -> None:
    """Raises UsageError where there is no such layout."""
    if layout not in LAYOUTS:
        raise UsageError(
            "usage-023",
            f"attribute layout is {layout!r}, must be one of {', '.join(LAYOUTS)}",
            where="Ethos-U",
            help=f"leave it out for {BRICKS!r}",
        )


def memory_modes(name: str) -> tuple[str, ...]:
    """The memory modes of a family, or of one of its configurations, the default first."""
    return MEMORY_MODES if name.startswith("ethos-u65") else MEMORY_MODES[:2]


def configuration(family: str, macs: int, memory_mode: str) -> Configuration:
    """The configuration of a family, "ethos-u55" or "ethos-u65", with so many multipliers.

    memory_mode   shared_sram: constants lie in flash or DRAM, tensors in SRAM
                  sram_only: all lies in SRAM
                  dedicated_sram: as shared_sram; the SRAM is the NPU's alone (Ethos-U65)

    Raises UsageError.

    >>> configuration("ethos-u55", 128, "sram_only").constants.name
    'SRAM'
    """
    found = CONFIGURATIONS.get(f"{family}-{macs}")
    if found is None:
        known = [c.macs for c in CONFIGURATIONS.values() if c.name.startswith(f"{family}-")]
        raise UsageError(
            "usage-050",
            f"there is no {family} with {macs} multipliers",
            where=family,
            why=f"there are such with {', '.join(map(str, known))}",
            help=f"write macs={known[-1]}",
        )
    modes = memory_modes(family)
    if memory_mode not in modes:
        raise UsageError(
            "usage-051",
            f"{family} has no memory mode {memory_mode!r}",
            where=family,
            why=f"its memory modes are {', '.join(modes)}",
            help=f"write memory_mode={modes[0]}",
        )
    return found.in_sram if memory_mode == SRAM_ONLY else found
