"""configurations: the public configurations of the NVDLA hardware, as data.

Source: nvdla/hw, branch nv_small, spec/defs/*.spec; buffer sizes and rates from the hardware
manual.  NVDLA's names have the prefix nv_: `small` is nv_small.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.uma import UsageError

PREFIX = "nv_"  # The prefix of NVDLA's names for configurations.
# The name of penstock's memory at the second memory port; see `Extension`.
FEATURE_BUFFER = "feature_buffer"
# The name of the memory at NVDLA's second port, which only some configurations have.
CVSRAM = "cvsram"
CVSRAM_BYTES = 512 << 10  # Its size belongs to the platform; this is the default.
# By configuration, the number of banks of penstock's feature buffer and the bytes per bank.
FEATURE_BANKS: Mapping[str, tuple[int, int]] = {
    "small": (32, 4 << 10),
    "small_256": (32, 4 << 10),
    "large": (16, 32 << 10),
}
# By configuration, the bytes that each memory port transfers per cycle with the extension.
EXTENDED_PORT_BYTES: Mapping[str, int] = {"small": 8, "small_256": 8, "large": 64}


@dataclass(frozen=True, slots=True)
class NvdlaPort:
    """A memory port: bandwidth in bytes per cycle, latency of the first byte in cycles, and burst
    length in memory atoms (`NvdlaConfiguration.memory_atom_bytes` bytes each)."""

    bytes_per_cycle: int
    latency_cycles: int
    burst: int


@dataclass(frozen=True, slots=True)
class Rates:
    """Throughput of the units after the accumulators, in elements per cycle; 0 for a unit that the
    configuration does not have.  In NVDLA's terms, SDP performs single-point and element-wise
    operations, PDP pooling, and CDP cross-channel operations."""

    single_point: int
    elementwise: int
    pooling: int
    cross_channel: int


@dataclass(frozen=True, slots=True)
class Extension:
    """The four units that penstock adds to NVDLA.  Unit POST post-processes results: it
    requantises them with TFLite's arithmetic, and can combine them element by element with a second
    tensor.  Unit WINDOW computes pooling and depthwise convolutions.  The sequencer queues layers,
    and prefetches commands and constants of the next one.  The feature buffer is an on-chip memory
    for tensors at the second memory port.

    feature_banks: the number of single-port banks of the feature buffer.
    feature_bank_bytes: the size of a bank in bytes.  A layer must not read and write the same bank;
        if the size is 0, this is not checked.
    """

    feature_banks: int
    feature_bank_bytes: int

    @property
    def feature_bytes(self) -> int:
        """The size of the feature buffer in bytes."""
        return self.feature_banks * self.feature_bank_bytes


@dataclass(frozen=True, slots=True)
class NvdlaConfiguration:
    """A configuration of the hardware.

    atomic_c, atomic_k: in a cycle, the core multiplies `atomic_c` channels of one pixel by the
        weights of `atomic_k` kernels.
    banks, bank_entries, entry_bytes: the convolution buffer has `banks` banks, each of
        `bank_entries` entries of `entry_bytes` bytes.
    memory_atom_bytes: in memory, features are stored in packs of this number of int8 channels.
    address_bits: the width of memory addresses.
    memory, sram: the first and the second memory port; `sram` is None if NVDLA has only one.
    rates: the throughput of the units after the accumulators.
    read_ahead: the number of packs of channels that a read engine of SDP or PDP has outstanding.
    batches: the largest number of images that the core computes at a time.
    winograd, compression, lookup_table: whether the hardware has Winograd convolution, compressed
        weights and a lookup table.
    accumulator_bits: the width in bits of the accumulators.
    delivered_bits: the width in bits to which the core saturates accumulators that it delivers to
        the following units.
    extension: the units that penstock adds, such as pooling and a feature buffer; None for NVDLA
        without them."""

    name: str
    atomic_c: int
    atomic_k: int
    banks: int
    bank_entries: int
    entry_bytes: int
    memory_atom_bytes: int
    address_bits: int
    memory: NvdlaPort
    sram: NvdlaPort | None
    rates: Rates
    read_ahead: int
    batches: int
    winograd: bool
    compression: bool
    lookup_table: bool
    accumulator_bits: int = 34
    delivered_bits: int = 32
    extension: Extension | None = None

    def __hash__(self) -> int:
        return hash(self.name)  # tasks contain a configuration and serve as cache keys

    @property
    def macs(self) -> int:
        """The number of multipliers: multiply-accumulates per cycle."""
        return self.atomic_c * self.atomic_k

    @property
    def bank_bytes(self) -> int:
        """The size of one bank of the convolution buffer in bytes."""
        return self.bank_entries * self.entry_bytes

    @property
    def buffer_bytes(self) -> int:
        """The size of the convolution buffer in bytes."""
        return self.banks * self.bank_bytes

    @property
    def buffer_port(self) -> NvdlaPort:
        """The second memory port: NVDLA's own or, if it has none, that of the extension's feature
        buffer."""
        # It is NVDLA's second port if there is one.  Otherwise, it is a port without latency; its
        # bandwidth in bytes per cycle is `atomic_c` or `memory_atom_bytes`, whichever is larger.
        return self.sram or NvdlaPort(max(self.atomic_c, self.memory_atom_bytes), 0, 1)

    @property
    def has_second_memory(self) -> bool:
        """Whether there is a second memory port: NVDLA's own, or one added by the extension."""
        return self.sram is not None or self.extension is not None

    def extended(self, feature_banks: int, feature_bank_bytes: int) -> NvdlaConfiguration:
        """Return the configuration with the units that penstock adds to NVDLA, and a feature buffer
        of `feature_banks` banks of `feature_bank_bytes` bytes."""
        width = EXTENDED_PORT_BYTES[self.name]
        sram = self.sram and replace(self.sram, bytes_per_cycle=width)
        port = replace(self.memory, bytes_per_cycle=width)
        extension = Extension(feature_banks, feature_bank_bytes)
        return replace(self, memory=port, sram=sram, extension=extension)


SMALL = NvdlaConfiguration(
    name="small",
    atomic_c=8,
    atomic_k=8,
    banks=32,
    bank_entries=512,
    entry_bytes=8,
    memory_atom_bytes=8,
    address_bits=32,
    memory=NvdlaPort(bytes_per_cycle=8, latency_cycles=50, burst=1),
    sram=None,
    rates=Rates(single_point=1, elementwise=0, pooling=1, cross_channel=1),
    read_ahead=8,
    batches=1,
    winograd=False,
    compression=False,
    lookup_table=False,
)
SMALL_256 = replace(SMALL, name="small_256", atomic_c=32, bank_entries=128, entry_bytes=32)
LARGE = NvdlaConfiguration(
    name="large",
    atomic_c=64,
    atomic_k=32,
    banks=16,
    bank_entries=512,
    entry_bytes=64,
    memory_atom_bytes=32,
    address_bits=64,
    memory=NvdlaPort(bytes_per_cycle=32, latency_cycles=1200, burst=1),
    sram=NvdlaPort(bytes_per_cycle=32, latency_cycles=128, burst=4),
    rates=Rates(single_point=16, elementwise=4, pooling=8, cross_channel=8),
    read_ahead=256,
    batches=32,
    winograd=True,
    compression=True,
    lookup_table=True,
)
CONFIGURATIONS: Mapping[str, NvdlaConfiguration] = {c.name: c for c in (SMALL, SMALL_256, LARGE)}


def configuration(name: str) -> NvdlaConfiguration:
    """Return the configuration with a name, such as "small"; the prefix nv_ is optional.  Raises
    UsageError if there is none.

    >>> configuration("nv_small_256").buffer_bytes // 1024
    128
    """
    found = CONFIGURATIONS.get(name.removeprefix(PREFIX))
    if found is None:
        raise UsageError(
            "usage-040",
            f"NVDLA has no configuration {name!r}",
            where="nvdla",
            why=f"the configurations are {', '.join(CONFIGURATIONS)}",
            help="use one of them",
        )
    return found
