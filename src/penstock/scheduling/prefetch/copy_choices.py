"""Sets of prefetches by the copy engine for a cascade, and the memory and time that they take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from penstock.ir.graph import Value
from penstock.scheduling.cascades.proposals import Candidate
from penstock.scheduling.model.memories import FINE, MemorySystem
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.prefetch import Prefetch, PrefetchStart
from penstock.scheduling.simulate.row_tables import Numbers


@dataclass(frozen=True, slots=True, eq=False)
class ValuedPrefetches:
    """A set of prefetches for a cascade, with the memory and time that it takes.

    The memory and the time do not depend on the memory assignment of the tensors.

    extra[m]: bytes of the copies in region m of `MemorySystem.tensors`.
    constants: time that each part of the cascade needs for reading constants.  An array of shape
        (2, parts): row 0 for the first call of the part, row 1 for each later call.
    stall: time for which the processor waits for the copies.

    Times are in units of 1/1024 cycle (1/`FINE`).
    """

    prefetches: tuple[Prefetch, ...]
    extra: Numbers
    constants: Numbers
    stall: int


class PrefetchChoices:
    """The choices of prefetches for the cascades of one execution order.

    order: indices of the parts.
    enabled: whether the copy engine may copy constants.  If it may not, or if the target has no
        copy engine, the only choice is the empty set.
    """

    def __init__(
        self, parts: Parts, order: tuple[int, ...], memories: MemorySystem, *, enabled: bool
    ) -> None:
        self._memories, self._enabled = memories, enabled and memories.copier is not None
        self._default = memories.default_assignment
        self._parts = [parts.parts[k] for k in order]
        self._shared_constants = parts.shared_constants
        self._regions = [memory.name for memory in memories.tensors]
        self._region_number = {name: m for m, name in enumerate(self._regions)}
        self._constant_reads: dict[tuple[int, str, str], Numbers] = {}
        self._constant_time = np.zeros((2, len(order)), np.int64)
        self._readers: dict[str, list[tuple[int, Value]]] = {}
        for p, part in enumerate(self._parts):
            for value in part.constants:
                self._constant_time[:, p] += self._reading(p, value, memories.constants.name)
                self._readers.setdefault(value.name, []).append((p, value))

    def choices(self, calls: Numbers) -> Iterator[tuple[Prefetch, ...]]:
        """Yield the sets of prefetches to try for a cascade.

        A prefetch copies a constant to a memory region.  The first set is empty.  For each region,
        one more set contains all prefetches that save more time than the copy takes; it is omitted
        if empty.
        calls: the calls of the cascade, one per row, as returned by `execution.expand`.  Only
            column 0 is used, the position of the called part in the execution order.
        """
        yield ()
        if not self._enabled:
            return
        positions, counts = np.unique(calls[:, 0], return_counts=True)
        for target in self._regions:
            helpful = tuple(
                Prefetch.by_copy_engine(value, target, self._default, PrefetchStart.OWN_CASCADE)
                for p, count in zip(positions.tolist(), counts.tolist(), strict=True)
                for value in self._parts[p].constants
                if value.name not in self._shared_constants
                and self._saved(p, value, target) @ (1, count - 1)
                > FINE * self._copy_stall(value.type.size_bytes, target)
            )
            if helpful:
                yield helpful

    def _reading(self, position: int, value: Value, memory: str) -> Numbers:
        """Return how much time a part spends on reading a constant from the memory region `memory`.

        position: position of the part in the execution order.

        The result is an array in units of 1/1024 cycle (1/`FINE`): [time in the part's first call,
        time in each later call].
        """
        key = position, value.name, memory
        if key not in self._constant_reads:
            reads = self._memories.constant_reads(memory, self._parts[position], value)
            self._constant_reads[key] = np.array(reads, np.int64)
        return self._constant_reads[key]

    def _saved(self, position: int, value: Value, memory: str) -> Numbers:
        """Return the time that a part saves by reading a constant from the memory region `memory`.

        This is the time of reading the constant from the region where it is stored, minus the time
        of reading a copy from `memory`.
        position: position of the part in the execution order.

        The result is an array in units of 1/1024 cycle (1/`FINE`): [time saved in the part's first
        call, time saved in each later call].
        """
        slow = self._reading(position, value, self._memories.constants.name)
        return slow - self._reading(position, value, memory)

    def _copy_stall(self, size_bytes: int, memory: str) -> int:
        """Return the cycles for which the processor waits for the copy of a constant.

        They consist of the setup time of the copy engine and the duration of the copy.
        memory: name of the memory region to which the constant is copied.
        """
        copier = self._memories.copier
        assert copier is not None
        constants = self._memories.constants.name
        return copier.setup_cycles + self._memories.copy_cycles(constants, memory, size_bytes)

    def valued(self, cascade: Candidate, prefetches: tuple[Prefetch, ...]) -> ValuedPrefetches:
        """Return the set `prefetches` for a cascade, with the memory and time that it takes."""
        constants = self._constant_time[:, cascade.lower : cascade.upper].copy()
        extra = np.zeros(len(self._regions), np.int64)
        for prefetch in prefetches:
            extra[self._region_number[prefetch.target]] += prefetch.size_bytes
            for p, value in self._readers[prefetch.constant]:
                if cascade.lower <= p < cascade.upper:
                    constants[:, p - cascade.lower] -= self._saved(p, value, prefetch.target)
        stall = sum(FINE * self._copy_stall(p.size_bytes, p.target) for p in prefetches)
        return ValuedPrefetches(prefetches, extra, constants, stall)
