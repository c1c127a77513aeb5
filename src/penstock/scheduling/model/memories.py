"""MemorySystem: the memory regions that the search considers, and the cost of accessing them.

The cycle estimates of an engine assume memory of a nominal bandwidth.  Every access to a tensor
adds the latency of its memory region and, in a slower memory, the difference in time per byte.  A
memory that transfers whole bursts of b bytes moves b - 1 bytes more per access: n bytes at an
address that is as likely to be any byte of a burst touch (n + b - 1) / b bursts on average.
Access times are integers in units of 1/1024 cycle (`FINE`), so that sums in the search are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from penstock.frozen import frozen
from penstock.hardware.target import Engine, MemoryRegion
from penstock.ir.graph import Value
from penstock.scheduling.model.part import Part

FINE = 1024
"""Units of time per cycle: the search computes with integer times in units of 1/`FINE` cycle."""
LIVE_SHARE = 0.9
"""Share of a secondary memory that live bytes may occupy; the rest is slack for placement."""


@frozen
class MemorySystem:
    """Memory regions of a target, as seen by the search.

    tensors: regions for tensors; the first one, the default, holds network inputs and outputs.
    constants: the region that stores constants.
    engine: the processor.  Its cycle estimates assume a memory without latency, with the bandwidth
        `engine.bandwidth_bytes_per_cycle`.
    """

    tensors: tuple[MemoryRegion, ...]
    constants: MemoryRegion
    engine: Engine

    @property
    def every(self) -> tuple[MemoryRegion, ...]:
        """All regions: those for tensors, then the one for constants."""
        return (*self.tensors, self.constants)

    @property
    def uniform(self) -> bool:
        """Whether the memory assignment makes no difference.

        This is the case if there is a single region for tensors, and no access to any region takes
        more time than the engine's cycle estimates assume.
        """
        return len(self.tensors) == 1 and not any(
            time for memory in self.every for time in self.access_times(memory)
        )

    @property
    def nominal(self) -> MemorySystem:
        """This memory system, reduced to the default region and the region for constants.

        Both are made as fast as the engine's cycle estimates assume.  For searches that do not
        distinguish memory regions: the result is `uniform`, so the memory assignment makes no
        difference.
        """
        bandwidth = self.engine.bandwidth_bytes_per_cycle

        def fast(memory: MemoryRegion) -> MemoryRegion:
            return replace(
                memory, bandwidth_bytes_per_cycle=bandwidth, latency_cycles=0, burst_bytes=1
            )

        return replace(self, tensors=(fast(self.tensors[0]),), constants=fast(self.constants))

    @property
    def default_assignment(self) -> MemoryAssignment:
        """The assignment of all tensors to the default region."""
        return MemoryAssignment(self.tensors[0].name, self.constants.name)

    def access_times(self, memory: MemoryRegion) -> tuple[int, int]:
        """Return the times that `memory` adds to a cycle estimate, as (per access, per byte).

        Per access: the latency, and the bytes of bursts that are not needed.  Per byte: how much
        longer a byte takes than at the bandwidth that the engine's cycle estimates assume; 0 if
        `memory` has at least that bandwidth.  Both times are in units of 1/1024 cycle.
        """
        slower = 1 / memory.bandwidth_bytes_per_cycle - 1 / self.engine.bandwidth_bytes_per_cycle
        unneeded = (memory.burst_bytes - 1) / memory.bandwidth_bytes_per_cycle
        latency = FINE * memory.latency_cycles + round(FINE * unneeded)
        return latency, round(FINE * max(0.0, slower))

    def times_beyond_default(self, memory: MemoryRegion) -> tuple[int, int]:
        """Return the times of `access_times` that exceed those of the default region for tensors,
        or 0 for constants.

        They apply to kernels that state their cost themselves, accesses to these regions included.
        """
        if memory == self.constants:
            return 0, 0
        own, default = self.access_times(memory), self.access_times(self.tensors[0])
        return max(0, own[0] - default[0]), max(0, own[1] - default[1])

    def access(self, memory: str, size_bytes: int) -> int:
        """Return the time that one access of `size_bytes` adds to the engine's cycle estimate.

        memory: name of the memory region that is accessed.

        The result is in units of 1/1024 cycle; 0 if `size_bytes` is 0.
        """
        return self.accesses(memory, int(size_bytes > 0), size_bytes)

    def accesses(
        self, memory: str, regions: int, size_bytes: int, *, is_counted: bool = False
    ) -> int:
        """Return the time that several accesses add to the engine's cycle estimate.

        memory: name of the memory region that is accessed.
        regions: number of accesses, each to one region (box) of a tensor.
        size_bytes: bytes of all accesses together.
        is_counted: whether the estimate includes accesses already (`Part.counts_accesses`).

        The result is in units of 1/1024 cycle.
        """
        times = self.times_beyond_default if is_counted else self.access_times
        latency, per_byte = times(self.named(memory))
        return regions * latency + size_bytes * per_byte

    def constant_reads(self, memory: str, part: Part, constant: Value) -> tuple[int, int]:
        """Return the time that reading a constant from `memory` adds to the calls of a part.

        The result is (time in the part's first call, time in each later call), in units of
        1/1024 cycle.
        """
        if part.counts_accesses:
            return 0, 0
        first = self.access(memory, constant.type.size_bytes)
        return first, self.accesses(memory, *part.constant_reads_of_later_calls(constant))

    def named(self, name: str) -> MemoryRegion:
        """Return the memory region with the given name."""
        return next(memory for memory in self.every if memory.name == name)


@frozen
class MemoryAssignment:
    """A map from tensor names to names of memory regions.

    default: region of network inputs, network outputs and every tensor not in `exceptions`.
    constants: region of the constants.
    exceptions: (tensor, region) pairs of the tensors outside the default region, sorted.
    """

    default: str
    constants: str
    exceptions: tuple[tuple[str, str], ...] = ()

    def region(self, tensor: str) -> str:
        """Return the name of the region of a tensor that is not a constant."""
        return dict(self.exceptions).get(tensor, self.default)

    def extended(self, pairs: Iterable[tuple[str, str]]) -> MemoryAssignment:
        """Return this assignment with further pairs (tensor name, region name).

        Pairs that name the default region are left out.
        """
        outside = [pair for pair in pairs if pair[1] != self.default]
        if not outside:
            return self
        return replace(self, exceptions=tuple(sorted((*self.exceptions, *outside))))

    def restricted(self, keep: Callable[[str], bool]) -> MemoryAssignment:
        """Return this assignment, restricted to the tensors for which keep(tensor name) is true.

        All other tensors are then in the default region.
        """
        return replace(self, exceptions=tuple(pair for pair in self.exceptions if keep(pair[0])))

    def for_part(self, part: Part, owners: Mapping[str, str]) -> MemoryAssignment:
        """Return the memory regions of a part's inputs and output, listed under the tensors' names.

        A schedule's assignment (`self`) lists tensors under the names of their storages (memory
        blocks).  For example, an alias `y` of a tensor `x` has the storage `x`.
        owners: name of the storage of each value, by value name (`Parts.owners`).
        """
        if not self.exceptions:
            return self
        regions = dict(self.exceptions)
        operands = {v.name for v in (*part.inputs, part.output) if v.data is None}
        pairs = ((name, regions[owners[name]]) for name in operands if owners[name] in regions)
        return replace(self, exceptions=tuple(sorted(pairs)))

    def operand_regions(self, part: Part) -> tuple[str, ...]:
        """Return the regions of a part's operands in the form that `ir.op.Kernel.cycles` takes.

        Empty if no tensor is outside the default region.  Otherwise a region name for each input
        and then one for the output, with "" for the default region and for constants.
        """
        if not self.exceptions:
            return ()
        regions = dict(self.exceptions)
        return tuple(
            "" if value.data is not None else regions.get(value.name, "")
            for value in (*part.inputs, part.output)
        )

    def region_numbers(self, tensors: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return the index of the memory region of each tensor.

        tensors: names of tensors.

        The default region has index 0.  The other regions are numbered from 1, in the order in
        which they first appear in `exceptions`.
        """
        regions = [self.default, *dict.fromkeys(region for _, region in self.exceptions)]
        numbers = {tensor: regions.index(region) for tensor, region in self.exceptions}
        return np.array([numbers.get(tensor, 0) for tensor in tensors], np.int64)
