"""configurations: NVDLA's hardware as data, one record for each of its public configurations.

Source: nvdla/hw, branch nv_small, spec/defs/*.spec; buffer sizes and rates as the hardware manual
has them.  `small` is nv_small there, and so on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.uma import UsageError

PREFIX = "nv_"
"""What NVDLA puts before the names."""
FEATURE_BUFFER = "feature_buffer"
"""What users call the memory at the second port, see `Extension`."""
FEATURE_BANKS: Mapping[str, tuple[int, int]] = {
    "small": (32, 4 << 10),
    "small_256": (32, 4 << 10),
    "large": (16, 32 << 10),
}
"""By configuration, the banks of penstock's feature buffer and the bytes of each."""


@dataclass(frozen=True, slots=True)
class MemoryPort:
    """A port to a memory: bytes a cycle, cycles until the first byte, and atoms in one burst."""

    bytes_per_cycle: int
    latency_cycles: int
    burst: int


@dataclass(frozen=True, slots=True)
class Rates:
    """Elements a cycle of the engines behind the accumulators; 0: there is no such engine."""

    single_point: int
    elementwise: int
    pooling: int
    cross_channel: int


@dataclass(frozen=True, slots=True)
class Extension:
    """What penstock's accelerator has and NVDLA has not: post-processing with TFLite's arithmetic
    and an element-wise input, pooling and depthwise convolution with it, and a global buffer for
    features in single-port banks of on-chip memory.  The buffer lies at the second memory port."""

    feature_banks: int
    feature_bank_bytes: int

    @property
    def feature_bytes(self) -> int:
        """Of the feature buffer."""
        return self.feature_banks * self.feature_bank_bytes


@dataclass(frozen=True, slots=True)
class Configuration:
    """One configuration of the hardware.

    In a cycle, `atomic_c` channels of one point meet the weights of `atomic_k` kernels.  The
    convolution buffer has `banks` of `bank_entries` entries of `entry_bytes`.  In memory, channels
    lie in packs of `memory_atom_bytes`.  Products of int8 are summed up in `accumulator_bits`, and
    handed on, saturated, in `delivered_bits`.  `extension`: None for NVDLA as it is.
    """

    name: str
    atomic_c: int
    atomic_k: int
    banks: int
    bank_entries: int
    entry_bytes: int
    memory_atom_bytes: int
    address_bits: int
    memory: MemoryPort
    sram: MemoryPort | None
    rates: Rates
    batches: int
    winograd: bool
    compression: bool
    lookup_table: bool
    accumulator_bits: int = 34
    delivered_bits: int = 32
    extension: Extension | None = None

    @property
    def macs(self) -> int:
        """Multipliers."""
        return self.atomic_c * self.atomic_k

    @property
    def bank_bytes(self) -> int:
        """Of one bank of the convolution buffer."""
        return self.bank_entries * self.entry_bytes

    @property
    def buffer_bytes(self) -> int:
        """Of the convolution buffer."""
        return self.banks * self.bank_bytes

    @property
    def buffer_port(self) -> MemoryPort:
        """The second port, that of the feature buffer: as NVDLA has it, else as fast as the core
        can take bytes, at once."""
        return self.sram or MemoryPort(max(self.atomic_c, self.memory_atom_bytes), 0, 1)

    @property
    def has_second_memory(self) -> bool:
        """Whether something lies at a second memory port."""
        return self.sram is not None or self.extension is not None

    def extended(self, feature_banks: int, feature_bank_bytes: int) -> Configuration:
        """The same core as a part of penstock's accelerator."""
        return replace(self, extension=Extension(feature_banks, feature_bank_bytes))


SMALL = Configuration(
    name="small",
    atomic_c=8,
    atomic_k=8,
    banks=32,
    bank_entries=512,
    entry_bytes=8,
    memory_atom_bytes=8,
    address_bits=32,
    memory=MemoryPort(bytes_per_cycle=8, latency_cycles=50, burst=1),
    sram=None,
    rates=Rates(single_point=1, elementwise=0, pooling=1, cross_channel=1),
    batches=1,
    winograd=False,
    compression=False,
    lookup_table=False,
)
SMALL_256 = replace(SMALL, name="small_256", atomic_c=32, bank_entries=128, entry_bytes=32)
LARGE = Configuration(
    name="large",
    atomic_c=64,
    atomic_k=32,
    banks=16,
    bank_entries=512,
    entry_bytes=64,
    memory_atom_bytes=32,
    address_bits=64,
    memory=MemoryPort(bytes_per_cycle=64, latency_cycles=1200, burst=1),
    sram=MemoryPort(bytes_per_cycle=64, latency_cycles=128, burst=4),
    rates=Rates(single_point=16, elementwise=4, pooling=8, cross_channel=8),
    batches=32,
    winograd=True,
    compression=True,
    lookup_table=True,
)
CONFIGURATIONS: Mapping[str, Configuration] = {c.name: c for c in (SMALL, SMALL_256, LARGE)}


def configuration(name: str) -> Configuration:
    """The configuration of a name, ours or NVDLA's.  Raises UsageError.

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
            help="name one of them",
        )
    return found
