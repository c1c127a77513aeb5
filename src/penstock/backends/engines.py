"""What parts cost, whichever engine runs them: the processor, or an accelerator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.backends.author import cost_of
from penstock.backends.portable import Processor
from penstock.ir.op import row_count
from penstock.scheduling.model.memory_assignment import MemoryAssignment
from penstock.scheduling.model.part import Part


@dataclass(frozen=True, slots=True)
class Engines:
    """Asks the kernel where an accelerator runs it, else the processor.

    A search adds up costs of calls that it does not make: there, a call takes what it takes for no
    rows, by the line through the costs of one row and of all.  Answers of kernels are remembered,
    for they are asked for again and again."""

    processor: Processor
    _known: dict[tuple[object, int, tuple[str, ...]], int] = field(
        default_factory=dict[tuple[object, int, tuple[str, ...]], int],
        init=False,
        repr=False,
        compare=False,
    )

    def work_cycles(self, part: Part, memory: MemoryAssignment | None = None) -> int:
        """Cycles of the part's whole output, but what each call adds."""
        if part.kernel.cycles is None:
            return self.processor.work_cycles(part, memory)
        rows = row_count(part.output.type.shape)
        return max(0, self._cycles(part, rows, memory) - self.call_cycles(part, memory))

    def call_cycles(self, part: Part, memory: MemoryAssignment | None = None) -> int:
        """Cycles that each call adds."""
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
        """Cycles of calls that compute so many rows each."""
        if part.kernel.cycles is None:
            return self.processor.cycles(part, stripes, memory)
        known = {rows: self._cycles(part, rows, memory) for rows in set(stripes)}
        return sum(known[rows] for rows in stripes)

    def _cycles(self, part: Part, rows: int, memory: MemoryAssignment | None) -> int:
        """What the accelerator says that a call for so many rows takes.  Raises BackendError."""
        asked = part.kernel.cycles
        assert asked is not None
        regions = memory.operand_regions(part) if memory is not None else ()
        key = asked, rows, regions
        if key not in self._known:
            where = f'{part.engine}: the cost of "{part.kernel.name}", for "{part.name}"'
            self._known[key] = round(cost_of(asked, rows, regions, where))
        return self._known[key]
