"""Cycles of parts (nodes with their kernels) on their engines: processor or accelerator."""

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
    """Cycles of parts: from the kernel's cost function on an accelerator, else from `processor`.

    Searches approximate the cycles of a call by a linear function of its number of rows.  For an
    accelerator, this function agrees with the cost function for one row and for all rows; its value
    at zero rows is the cost per call.  `_known` caches the results of cost functions, by function,
    number of rows and memory regions."""

    processor: Processor
    _known: dict[tuple[object, int, tuple[str, ...]], int] = field(
        default_factory=dict[tuple[object, int, tuple[str, ...]], int],
        init=False,
        repr=False,
        compare=False,
    )

    def work_cycles(self, part: Part, memory: MemoryAssignment | None = None) -> int:
        """Return the cycles of computing the part's whole output, without the cost per call.

        The cost per call is the cycles of a call that do not depend on its number of rows.
        `memory` None: all tensors are in the default memory region."""
        if part.kernel.cycles is None:
            return self.processor.work_cycles(part, memory)
        rows = row_count(part.output.type.shape)
        return max(0, self._cycles(part, rows, memory) - self.call_cycles(part, memory))

    def call_cycles(self, part: Part, memory: MemoryAssignment | None = None) -> int:
        """Return the cost per call: the cycles of a call that do not depend on its rows.

        `memory` None: all tensors are in the default memory region."""
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
        """Return the total cycles of several calls; `stripes` holds the output rows of each.

        `memory` None: all tensors are in the default memory region."""
        if part.kernel.cycles is None:
            return self.processor.cycles(part, stripes, memory)
        known = {rows: self._cycles(part, rows, memory) for rows in set(stripes)}
        return sum(known[rows] for rows in stripes)

    def _cycles(self, part: Part, rows: int, memory: MemoryAssignment | None) -> int:
        """Return the cycles of an accelerator call that computes `rows` output rows.

        `memory` None: all tensors are in the default memory region.
        Raises BackendError if the kernel's cost function fails."""
        asked = part.kernel.cycles
        assert asked is not None
        regions = memory.operand_regions(part) if memory is not None else ()
        key = asked, rows, regions
        if key not in self._known:
            where = f'{part.engine}: the cost of "{part.kernel.name}", for "{part.name}"'
            self._known[key] = round(cost_of(asked, rows, regions, where))
        return self._known[key]
