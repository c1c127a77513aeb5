"""configurations: the hardware configurations of Ethos-U and their memory ports, as data.

Source: Arm's compiler Vela 5.2.0, which publishes sizes and rates of the configurations
(`architecture_features.py`; `regor/architecture/ethosu85/ethos_u85.cpp`) and memory systems
(`config_files/Arm/vela.ini`).
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
    clamp: minimum for operations that clamp their output, even if a rate above is lower.
    wide: minimum for operations with elements of 32 bits, even if a rate above is lower."""

    multiply: float
    add: float
    maximum: float
    other: float
    lookup: float
    clamp: float
    wide: float = 0.0


@dataclass(frozen=True, slots=True)
class EthosUPort:
    """The port through which the NPU accesses a memory.

    name: name of the memory.
    bytes_per_cycle: bandwidth.
    read_latency: cycles until the first byte is read.
    write_latency: cycles until the last byte is written.
    burst_bytes: length of the longest burst in bytes.
    most_reads: maximum number of bursts that are requested but not yet read; 0 if it limits
        nothing."""

    name: str
    bytes_per_cycle: float
    read_latency: int
    write_latency: int
    burst_bytes: int
    most_reads: int = 0


@dataclass(frozen=True, slots=True)
class SeparateMemories:
    """The internal memories of Ethos-U85, one for each purpose, in place of shared banks; and its
    micro blocks, which depend on the operation.

    micro_blocks: those of convolutions, in order of preference.
    plain_micro_blocks: those of all other operations, except sums over channels.
    input_units: by rows and columns of a micro block: the rows, columns and channels, in units of
        16 bytes, of which the inputs of a block occupy a multiple. The units are those of inputs
        with at most 16 bytes of channels, with at most 32, and with more.
    input_bytes, sum_bytes: sizes of the memories of inputs and of accumulators.
    repeat_bytes: size of the memory of an operand that is broadcast.
    output_bytes: size of the memory of outputs.
    copy_words, weight_words, bias_words: sizes of the buffers of copies, weights and biases that
        are read, in units of 16 bytes.
    axi_ports: log2 of the numbers of ports to SRAM and to other memory."""

    micro_blocks: tuple[MapShape, ...]
    plain_micro_blocks: tuple[MapShape, ...]
    input_units: Mapping[tuple[int, int], tuple[MapShape, MapShape, MapShape]]
    input_bytes: int
    sum_bytes: int
    repeat_bytes: int
    output_bytes: int
    copy_words: int
    weight_words: int
    bias_words: int
    axi_ports: tuple[int, int] = (1, 0)

    def convolution_micro_blocks(self, channels: int) -> tuple[MapShape, ...]:
        """Return the micro blocks of a convolution with this number of output channels: those with
        the most channels of which a multiple exceeds it the least."""
        # All have the same channels, on which the order of weights depends, for any output rows.
        depths = sorted({micro.depth for micro in self.micro_blocks}, reverse=True)
        depth = min(depths, key=lambda depth: -channels % depth)
        return tuple(micro for micro in self.micro_blocks if micro.depth == depth)

    @property
    def channel_sum_micro_blocks(self) -> tuple[MapShape, ...]:
        """The micro blocks of sums over channels, which have at most 16 channels."""
        return tuple(micro for micro in self.micro_blocks if micro.depth <= BLOCK_CHANNELS)


@dataclass(frozen=True, slots=True)
class EthosUConfiguration:
    """A configuration of the hardware.

    name: name of the configuration, such as "ethos-u55-128".
    macs: multiply-accumulates per cycle, of all cores.
    micro_block: rows, columns and channels of the output that the multipliers of a core compute at
        a time.
    banks: number of 1 KiB banks of the internal memory of a core, which holds the inputs and
        accumulators of blocks; with separate memories, look-up tables only.
    input_granule: inputs of int8 elements occupy a multiple of this number of banks.
    sum_granule: accumulators occupy a multiple of this number of banks.
    rates: cycles per output element in the output unit, which scales and writes results.
    features: port of the memory that holds tensors.
    constants: port of the memory that holds weights, biases and look-up tables.
    most_copies: maximum number of copies that are issued but incomplete at a time.
    cores: number of cores, which compute output channels in turn. Each has its own multipliers,
        internal memory, weights and biases.
    decoders: number of weight streams of a core, which contain output channels in turn.
    memories: the internal memories if they are separate, as in Ethos-U85."""

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
    decoders: int = 1
    memories: SeparateMemories | None = None

    def __hash__(self) -> int:
        return hash(self.name)  # cheap: configurations are part of cache keys

    @property
    def end_banks(self) -> int:
        """Number of banks at the end of the internal memory that inputs and accumulators never use,
        because they are reserved for a look-up table even if the operation has none."""
        return LOOKUP_BANKS if self.banks > 16 or self.memories else 0

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

_SRAM_U85 = EthosUPort("SRAM", 32.0, 16, 16, 64, 8 * 2)
_DRAM_U85 = EthosUPort("DRAM", 7.5, 500, 250, 128, 24)


def _u85(
    macs: int, rate: float, wide: float, memories: SeparateMemories, decoders: int = 1
) -> EthosUConfiguration:
    """A configuration of Ethos-U85. Its memory ports are those of Vela's system
    "Ethos_U85_SYS_DRAM_Low".

    rate, wide: cycles per output element of 8 bits, and with elements of 32 bits."""
    return EthosUConfiguration(
        f"ethos-u85-{macs}", macs, memories.micro_blocks[0], LOOKUP_BANKS, 0, 0,
        OutputRates(rate, rate, rate, rate, rate, rate, wide), _SRAM_U85, _DRAM_U85,
        most_copies=4, decoders=decoders, memories=memories,
    )  # fmt: skip


def _units(*every: tuple[int, int, int]) -> tuple[MapShape, MapShape, MapShape]:
    first, second, third = (MapShape(*unit) for unit in every)
    return first, second, third


_UNITS_128 = _units((1, 2, 1), (1, 1, 2), (1, 1, 2))
_UNITS_2X2 = _units((2, 2, 1), (1, 2, 2), (1, 1, 4))
_UNITS_1X4 = _units((1, 4, 1), (1, 2, 2), (1, 1, 4))
_UNITS_1024 = _units((2, 4, 1), (2, 2, 2), (1, 2, 4))
_UNITS_2048 = _units((4, 4, 1), (2, 4, 2), (2, 2, 4))

U85 = (
    _u85(128, 0.5, 1.0, SeparateMemories(
        (MapShape(1, 2, 8),), (MapShape(1, 1, 16),), {(1, 2): _UNITS_128, (1, 1): _UNITS_128},
        8192, 8192, 2048, 768, 64, 128, 16,
    )),
    _u85(256, 0.25, 0.5, SeparateMemories(
        (MapShape(1, 4, 8), MapShape(2, 2, 8)), (MapShape(1, 2, 16),),
        {(1, 4): _UNITS_1X4, (2, 2): _UNITS_2X2, (1, 2): _UNITS_2X2},
        16384, 16384, 2048, 1536, 104, 128, 16,
    )),
    _u85(512, 0.125, 0.25, SeparateMemories(
        (MapShape(2, 2, 16), MapShape(1, 4, 16)), (MapShape(2, 2, 16), MapShape(1, 4, 16)),
        {(2, 2): _UNITS_2X2, (1, 4): _UNITS_1X4}, 16384, 32768, 4096, 3072, 128, 256, 16,
    ), 2),
    _u85(1024, 0.0625, 0.25, SeparateMemories(
        (MapShape(2, 2, 32), MapShape(1, 4, 32), MapShape(2, 4, 16)), (MapShape(2, 4, 16),),
        {
            (2, 2): _UNITS_1024, (2, 4): _UNITS_1024,
            (1, 4): _units((2, 4, 1), (1, 4, 2), (1, 2, 4)),
        },
        16384, 65536, 4096, 6144, 256, 416, 16, (1, 1),
    ), 4),
    _u85(2048, 0.03125, 0.125, SeparateMemories(
        (MapShape(2, 2, 64), MapShape(1, 4, 64), MapShape(4, 4, 16)), (MapShape(4, 4, 16),),
        {
            (2, 2): _UNITS_2048, (4, 4): _UNITS_2048,
            (1, 4): _units((4, 4, 1), (2, 4, 2), (1, 4, 4)),
        },
        32768, 131072, 8192, 12288, 256, 512, 16, (2, 1),
    ), 4),
)  # fmt: skip

CONFIGURATIONS: Mapping[str, EthosUConfiguration] = {
    c.name: c for c in (U55_32, U55_64, U55_128, U55_256, U65_256, U65_512, *U85)
}


def read_rate(port: EthosUPort, words: int) -> float:
    """Return the bytes per cycle that can be read through a port into a buffer: the bandwidth, or
    what the bursts permit that fit the buffer and are under way.

    words: size of the buffer in units of 16 bytes.

    >>> round(read_rate(_DRAM_U85, 128), 4)
    3.2768
    """
    # Vela assumes that 0.8 of the bursts and of their bytes are used.
    if not port.most_reads:
        return port.bytes_per_cycle
    bursts = min(16 * words / port.burst_bytes, 0.8 * port.most_reads)
    return min(port.bytes_per_cycle, 0.8 * port.burst_bytes * bursts / port.read_latency)


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
    return MEMORY_MODES[:2] if name.startswith("ethos-u55") else MEMORY_MODES


def configuration(family: str, macs: int, memory_mode: str) -> EthosUConfiguration:
    """Return the configuration of `family`, "ethos-u55", "ethos-u65" or "ethos-u85", with `macs`
    multiply-accumulates per cycle.

        memory_mode   shared_sram: constants are in flash or DRAM, tensors in SRAM
                      sram_only: constants and tensors are in SRAM
                      dedicated_sram (U65, U85): constants are in DRAM, tensors in an SRAM that
                      only the NPU accesses

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
