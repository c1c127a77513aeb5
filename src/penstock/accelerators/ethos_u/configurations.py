"""configurations: the configurations of the Ethos-U hardware and its memory ports, as data.

Source: Arm's compiler Vela 5.2.0, which publishes sizes and rates of the configurations
(`architecture_features.py`) and of systems (`config_files/Arm/vela.ini`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from penstock.uma import UsageError

BANK_BYTES = 1024
"""Bytes of a bank of the NPU's internal memory."""
OUTPUT_BANKS = 2
"""Banks reserved for results."""
LOOKUP_BANKS = 2
"""Banks of the look-up table of activations; larger configurations have them in addition to
`banks`."""
BLOCK_CHANNELS = 16
"""Channels of a channel block of the layout NHCWB16."""
NHCWB16 = "nhcwb16"
LAYOUTS = (NHCWB16, "nhwc")
SRAM_ONLY = "sram_only"
MEMORY_MODES = ("shared_sram", SRAM_ONLY, "dedicated_sram")


class MapShape(NamedTuple):
    """Rows, columns and channels."""

    height: int
    width: int
    depth: int

    @property
    def elements(self) -> int:
        """The number of elements."""
        return self.height * self.width * self.depth


class OutputRates(NamedTuple):
    """Cycles for each element in the output unit, by operation."""

    multiply: float
    add: float
    maximum: float
    other: float
    lookup: float
    clamp: float


@dataclass(frozen=True, slots=True)
class EthosUPort:
    """The port of a memory: bandwidth in bytes per cycle, latencies in cycles of the first byte
    read and of the last byte written, and the longest burst in bytes."""

    name: str
    bytes_per_cycle: float
    read_latency: int
    write_latency: int
    burst_bytes: int


@dataclass(frozen=True, slots=True)
class EthosUConfiguration:
    """A configuration of the hardware.

    The multipliers compute the output in micro blocks.  Inputs and sums share `banks` banks of
    internal memory, allocated in multiples of `input_granule` and `sum_granule` banks.  `features`
    is the port of the memory of tensors; `constants`, that of the memory of weights, biases and
    tables.  At most `most_copies` copies are in flight at the same time."""

    name: str
    macs: int
    micro_block: MapShape
    banks: int
    input_granule: int
    sum_granule: int
    rates: OutputRates
    features: EthosUPort
    constants: EthosUPort
    most_copies: int = 1

    def __hash__(self) -> int:
        return hash(self.name)  # operations are keys of caches, and hold a configuration

    @property
    def end_banks(self) -> int:
        """Banks at the end of the internal memory that are reserved for a look-up table, even if an
        operation has none."""
        return LOOKUP_BANKS if self.banks > 16 else 0

    @property
    def in_sram(self) -> EthosUConfiguration:
        """The configuration with constants in the memory of tensors."""
        return replace(self, constants=self.features)

    @property
    def smallest(self) -> bool:
        """Whether this is the smallest configuration, whose micro block has four channels."""
        return self.micro_block.depth < 8


_SRAM_U55 = EthosUPort("SRAM", 8.0, 32, 32, 32)
_FLASH_U55 = EthosUPort("flash", 1.0, 64, 0, 128)
_SRAM_U65 = EthosUPort("SRAM", 16.0, 32, 32, 32)
_DRAM_U65 = EthosUPort("DRAM", 7.5, 500, 250, 128)

U55_32 = EthosUConfiguration(
    "ethos-u55-32", 32, MapShape(1, 1, 4), 16, 2, 4,
    OutputRates(3.0, 6.0, 1.0, 2.0, 1.0, 1.0), _SRAM_U55, _FLASH_U55,
)  # fmt: skip
U55_64 = EthosUConfiguration(
    "ethos-u55-64", 64, MapShape(1, 1, 8), 16, 2, 4,
    OutputRates(1.5, 3.0, 0.5, 1.0, 1.0, 1.0), _SRAM_U55, _FLASH_U55,
)  # fmt: skip
U55_128 = EthosUConfiguration(
    "ethos-u55-128", 128, MapShape(1, 2, 8), 24, 4, 8,
    OutputRates(0.75, 1.5, 0.25, 0.5, 1.0, 0.5), _SRAM_U55, _FLASH_U55,
)  # fmt: skip
U55_256 = EthosUConfiguration(
    "ethos-u55-256", 256, MapShape(2, 2, 8), 48, 8, 16,
    OutputRates(0.375, 0.75, 0.125, 0.25, 1.0, 0.25), _SRAM_U55, _FLASH_U55,
)  # fmt: skip
U65_256 = replace(
    U55_256, name="ethos-u65-256", features=_SRAM_U65, constants=_DRAM_U65, most_copies=2
)
"""The memory ports are those of Vela's systems "Ethos_U55_High_End_Embedded" and
"Ethos_U65_Mid_End"."""

CONFIGURATIONS: Mapping[str, EthosUConfiguration] = {
    c.name: c for c in (U55_32, U55_64, U55_128, U55_256, U65_256)
}


def check_layout(layout: object) -> None:
    """Raises UsageError if there is no such layout."""
    if layout not in LAYOUTS:
        raise UsageError(
            "usage-023",
            f"attribute layout is {layout!r}, must be one of {', '.join(LAYOUTS)}",
            where="Ethos-U",
            help=f"leave it out for {NHCWB16!r}",
        )


def memory_modes(name: str) -> tuple[str, ...]:
    """The memory modes of a family or of one of its configurations, the default first."""
    return MEMORY_MODES if name.startswith("ethos-u65") else MEMORY_MODES[:2]


def configuration(family: str, macs: int, memory_mode: str) -> EthosUConfiguration:
    """The configuration of a family, "ethos-u55" or "ethos-u65", with `macs` multipliers.

    memory_mode   shared_sram: constants lie in flash or DRAM, tensors in SRAM
                  sram_only: constants and tensors lie in SRAM
                  dedicated_sram: as shared_sram, with an SRAM of the NPU's own (Ethos-U65)

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
