"""Engines: the cycles of parts (nodes with their kernels) on the processor or an accelerator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.backends.author import cost_of
from penstock.backends.processor_parts import Processor
from penstock.ir.breakdown import Breakdown
from penstock.ir.op import row_count
from penstock.scheduling.model.memories import MemoryAssignment
from penstock.scheduling.model.part import Part


@dataclass(frozen=True, slots=True)
class Engines:
    """The cycle model of all engines: the processor and the accelerators.

    On an accelerator, the cycles of a call come from the cost function of its kernel.  The schedule
    search approximates them by a constant per call plus a constant per output row.  These two
    constants are chosen such that the approximation is exact for a call that computes one row, and
    for a call that computes all rows.  For example, if a call takes 30 cycles for one row and 120
    for all ten, the constants are 20 cycles per call and 10 per row.

    processor: the cycle model of the processor.
    _known: the cycles of calls, cached.  A key consists of the cost function and its arguments: the
        number of output rows, and the memory regions of inputs and output.
    _starts: the additional cycles of calls after a command of another engine (cold start), cached
        with the same keys."""

    processor: Processor
    _known: dict[tuple[object, int, tuple[str, ...]], int] = field(
        default_factory=dict[tuple[object, int, tuple[str, ...]], int],
        init=False,
        repr=False,
        compare=False,
    )
    _starts: dict[tuple[object, int, tuple[str, ...]], int] = field(
        default_factory=dict[tuple[object, int, tuple[str, ...]], int],
        init=False,
        repr=False,
        compare=False,
    )

    def work_cycles(self, part: Part, memory: MemoryAssignment | None = None) -> int:
        """Return the cycles of computing a whole output, without the constant cost of each call.

        memory: the memory region of each tensor; None if all are in the default region."""
        if part.kernel.cycles is None:
            return self.processor.work_cycles(part, memory)
        rows = row_count(part.output.type.shape)
        return max(0, self._cycles(part, rows, memory) - self.call_cycles(part, memory))

    def call_cycles(self, part: Part, memory: MemoryAssignment | None = None) -> int:
        """Return the constant cost of a call: the cycles that do not depend on its number of rows.

        memory: the memory region of each tensor; None if all are in the default region."""
        if part.kernel.cycles is None:
            return self.processor.call_cycles(part, memory)
        rows = row_count(part.output.type.shape)
        whole = self._cycles(part, rows, memory)
        if rows == 1:
            return whole
        return min(whole, max(0, (rows * self._cycles(part, 1, memory) - whole) // (rows - 1)))

    def cycles(
        self, part: Part, stripes: Sequence[int], memory: MemoryAssignment | None = None
    ) -> int:
        """Return the total cycles of the calls that compute a node's output in stripes.

        memory: the memory region of each tensor; None if all are in the default region."""
        if part.kernel.cycles is None:
            return self.processor.cycles(part, stripes, memory)
        known = {rows: self._cycles(part, rows, memory) for rows in set(stripes)}
        return sum(known[rows] for rows in stripes)

    def cold_start_cycles(
        self, part: Part, rows: int, memory: MemoryAssignment | None = None
    ) -> int:
        """Return the cycles that a call takes longer if another engine ran the command before it.

        memory: the memory region of each tensor; None if all are in the default region."""
        asked = part.kernel.cycles
        if asked is None:
            return 0
        key = asked, rows, memory.operand_regions(part) if memory is not None else ()
        if key not in self._starts:
            found = asked(*key[1:])
            longer = found.cold_start if isinstance(found, Breakdown) else 0
            self._starts[key] = round(longer)
        return self._starts[key]

    def _cycles(self, part: Part, rows: int, memory: MemoryAssignment | None) -> int:
        asked = part.kernel.cycles
        assert asked is not None
        regions = memory.operand_regions(part) if memory is not None else ()
        key = asked, rows, regions
        if key not in self._known:
            where = f'{part.engine}: the cost of "{part.kernel.name}", for "{part.name}"'
            self._known[key] = round(cost_of(asked, rows, regions, where))
        return self._known[key]
