"""configurations: the public configurations of the NVDLA hardware, as data.

Source: nvdla/hw, branch nv_small, spec/defs/*.spec; buffer sizes and rates from the hardware
manual.  NVDLA's names have the prefix nv_: `small` is nv_small.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.uma import UsageError

PREFIX = "nv_"  # The prefix of NVDLA's names for configurations.
# The name of the memory at NVDLA's second port, which only some configurations have.
CVSRAM = "cvsram"
CVSRAM_BYTES = 512 << 10  # Its size belongs to the platform; this is the default.
CVSRAM_BANK_BYTES = 32 << 10  # The size of its banks, if layers must not share them.


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
    sdp_ahead, pdp_ahead: the number of packs of channels that the read engine of the input of SDP
        or PDP has outstanding.
    batches: the largest number of images that the core computes at a time.
    winograd, compression, lookup_table: whether the hardware has Winograd convolution, compressed
        weights and a lookup table.
    accumulator_bits: the width in bits of the accumulators.
    delivered_bits: the width in bits to which the core saturates accumulators that it delivers to
        the following units.
    sram_bank_bytes: the size in bytes of the single-port banks of the memory at the second port,
        of which a layer must not read and write the same one; 0 if layers may do so."""

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
    sdp_ahead: int
    pdp_ahead: int
    batches: int
    winograd: bool
    compression: bool
    lookup_table: bool
    accumulator_bits: int = 34
    delivered_bits: int = 32
    sram_bank_bytes: int = 0

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
    def second_port(self) -> NvdlaPort:
        """The second memory port; the first one if there is no other."""
        return self.sram or self.memory


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
    sdp_ahead=80,
    pdp_ahead=61,
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
    sdp_ahead=256,
    pdp_ahead=256,
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
