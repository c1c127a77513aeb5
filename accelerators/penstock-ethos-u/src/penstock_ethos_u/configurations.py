"""configurations: the hardware configurations of Ethos-U and their memory ports, as data.

Source: Arm's compiler Vela 5.2.0, which publishes sizes and rates of the configurations
(`architecture_features.py`) and memory systems (`config_files/Arm/vela.ini`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from penstock.uma import MemoryRegion, UsageError

BANK_BYTES = 1024  # Size of a bank of the NPU's internal memory, in bytes.
OUTPUT_BANKS = 2  # Banks of the internal memory that are reserved for output elements.
# Banks that the look-up table of an activation occupies, at the end of the internal memory.
LOOKUP_BANKS = 2
BLOCK_CHANNELS = 16  # Channels of a channel block of the layout NHCWB16.
NHCWB16 = "nhcwb16"
LAYOUTS = (NHCWB16, "nhwc")
SRAM_ONLY = "sram_only"
CACHE_LINES = (16, 32, 64, 128)  # Sizes in bytes.
MEMORY_MODES = ("shared_sram", SRAM_ONLY, "dedicated_sram")


class MapShape(NamedTuple):
    """Rows, columns and channels of a feature map or block."""

    height: int
    width: int
    depth: int

    @property
    def elements(self) -> int:
        return self.height * self.width * self.depth


class OutputRates(NamedTuple):
    """Cycles per output element in the output unit, which scales and writes results.

    multiply: for element-wise products.
    add: for sums and differences.
    maximum: for max pooling and copies.
    other: for all other operations, such as convolutions.
    lookup: minimum for operations that apply a look-up table, even if a rate above is lower.
    clamp: minimum for operations that clamp their output, even if a rate above is lower."""

    multiply: float
    add: float
    maximum: float
    other: float
    lookup: float
    clamp: float


@dataclass(frozen=True, slots=True)
class EthosUPort:
    """The port through which the NPU accesses a memory.

    name: name of the memory.
    bytes_per_cycle: bandwidth.
    read_latency: cycles until the first byte is read.
    write_latency: cycles until the last byte is written.
    burst_bytes: length of the longest burst in bytes."""

    name: str
    bytes_per_cycle: float
    read_latency: int
    write_latency: int
    burst_bytes: int


@dataclass(frozen=True, slots=True)
class EthosUConfiguration:
    """A configuration of the hardware.

    name: name of the configuration, such as "ethos-u55-128".
    macs: multiply-accumulates per cycle, of all cores.
    micro_block: rows, columns and channels of the output that the multipliers of a core compute at
        a time.
    banks: number of 1 KiB banks of the internal memory of a core, which holds the inputs and
        accumulators of blocks.
    input_granule: inputs occupy a multiple of this number of banks.
    sum_granule: accumulators occupy a multiple of this number of banks.
    rates: cycles per output element in the output unit, which scales and writes results.
    features: port of the memory that holds tensors.
    constants: port of the memory that holds weights, biases and look-up tables.
    most_copies: maximum number of copies that are issued but incomplete at a time.
    cores: number of cores, which compute output channels in turn. Each has its own multipliers,
        internal memory, weights and biases."""

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
    cores: int = 1

    def __hash__(self) -> int:
        return hash(self.name)  # cheap: configurations are part of cache keys

    @property
    def end_banks(self) -> int:
        """Number of banks at the end of the internal memory that inputs and accumulators never use,
        because they are reserved for a look-up table even if the operation has none."""
        return LOOKUP_BANKS if self.banks > 16 else 0

    @property
    def in_sram(self) -> EthosUConfiguration:
        """A copy of this configuration with constants stored in the memory that holds tensors."""
        return replace(self, constants=self.features)

    @property
    def smallest(self) -> bool:
        """Whether this is the configuration with the fewest multipliers. It is the only one whose
        micro block (the outputs that the multipliers compute at a time) has four channels."""
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
# The memory ports of all configurations follow Vela's systems "Ethos_U55_High_End_Embedded" and
# "Ethos_U65_Mid_End".
U65_256 = replace(
    U55_256, name="ethos-u65-256", features=_SRAM_U65, constants=_DRAM_U65, most_copies=2
)
U65_512 = replace(
    U65_256, name="ethos-u65-512", macs=512, cores=2,
    rates=OutputRates(0.1875, 0.375, 0.0625, 0.125, 0.5, 0.125),
)  # fmt: skip

CONFIGURATIONS: Mapping[str, EthosUConfiguration] = {
    c.name: c for c in (U55_32, U55_64, U55_128, U55_256, U65_256, U65_512)
}


def behind(port: EthosUPort, memory: MemoryRegion, processor_bandwidth: float) -> EthosUPort:
    """Return a port as it is on a board whose memory has wait states or a low bandwidth.

    memory: the memory that the port accesses, as the target file states it for the processor.
    processor_bandwidth: bytes per cycle that the processor can access. If the memory has at least
        this bandwidth, the processor limits it, and the file does not state what the port obtains.

    >>> wait_states = MemoryRegion("sram", 65536, ("arena",), 2.0, 3, True)
    >>> slow = behind(U55_128.features, wait_states, 4.0)
    >>> slow.bytes_per_cycle, slow.read_latency, slow.write_latency
    (2.0, 35, 35)
    """
    bandwidth = port.bytes_per_cycle
    if memory.bandwidth_bytes_per_cycle < processor_bandwidth:
        bandwidth = min(bandwidth, memory.bandwidth_bytes_per_cycle)
    return replace(
        port,
        bytes_per_cycle=bandwidth,
        read_latency=port.read_latency + memory.latency_cycles,
        write_latency=port.write_latency + memory.latency_cycles,
        burst_bytes=max(port.burst_bytes, memory.burst_bytes),
    )


@cache
def on_board(
    found: EthosUConfiguration,
    tensors: MemoryRegion,
    constants: MemoryRegion,
    processor_bandwidth: float,
) -> EthosUConfiguration:
    """Return a configuration with its ports as they are on a board, see `behind`.

    tensors, constants: the memories that hold tensors and constants. In the mode "sram_only",
        constants are read from the memory of tensors."""
    features = behind(found.features, tensors, processor_bandwidth)
    if found.constants is found.features:
        return replace(found, features=features, constants=features)
    stored = behind(found.constants, constants, processor_bandwidth)
    return replace(found, features=features, constants=stored)


def check_cache_line(size_bytes: object) -> None:
    """Raise UsageError unless `size_bytes` is the size of a cache line."""
    if size_bytes not in CACHE_LINES:
        raise UsageError(
            "usage-052",
            f"attribute cache_line is {size_bytes!r}, must be one of "
            f"{', '.join(map(str, CACHE_LINES))}",
            where="Ethos-U",
            why="it is the size in bytes of the lines of the processor's data cache",
            help="for Cortex-M55 and Cortex-M85 write cache_line=32, without a data cache 16",
        )


def check_layout(layout: object) -> None:
    """Raise UsageError unless `layout` is "nhcwb16" or "nhwc"."""
    if layout not in LAYOUTS:
        raise UsageError(
            "usage-023",
            f"attribute layout is {layout!r}, must be one of {', '.join(LAYOUTS)}",
            where="Ethos-U",
            help=f"the default is {NHCWB16!r}",
        )


def memory_modes(name: str) -> tuple[str, ...]:
    """Return the names of the memory modes that an NPU supports. The first one is the default.

    name: a family of NPUs, such as "ethos-u55", or a configuration, such as "ethos-u55-128"."""
    # A memory mode selects the memories that hold constants and tensors.
    return MEMORY_MODES if name.startswith("ethos-u65") else MEMORY_MODES[:2]


def configuration(family: str, macs: int, memory_mode: str) -> EthosUConfiguration:
    """Return the configuration of `family`, "ethos-u55" or "ethos-u65", with `macs`
    multiply-accumulates per cycle.

        memory_mode   shared_sram: constants are in flash or DRAM, tensors in SRAM
                      sram_only: constants and tensors are in SRAM
                      dedicated_sram (U65): constants are in DRAM, tensors in an SRAM that only the
                      NPU accesses

    Raises UsageError if there is no such configuration or memory mode.

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
            why=f"the configurations have {', '.join(map(str, known))}",
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
