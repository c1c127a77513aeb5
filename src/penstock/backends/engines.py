"""What parts cost, whichever engine runs them: the processor, or an accelerator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.backends.author import cost_of
from penstock.backends.portable import Processor
from penstock.ir.op import row_count
from penstock.scheduling.cost import Around
from penstock.scheduling.part import Part


@dataclass(frozen=True, slots=True)
class Engines:
    """Asks the kernel where an accelerator runs it, else the processor.

    A search adds up costs of calls that it does not make: there, a call takes what it takes for no
    rows, by the line through the costs of one row and of all."""

    processor: Processor

    def work_cycles(self, part: Part, around: Around = ()) -> int:
        """Cycles of the part's whole output, but what each call adds."""
        if part.kernel.cycles is None:
            return self.processor.work_cycles(part, around)
        rows = row_count(part.output.type.shape)
        return max(0, _cycles(part, rows, around) - self.call_cycles(part, around))

    def call_cycles(self, part: Part, around: Around = ()) -> int:
        """Cycles that each call adds."""
        if part.kernel.cycles is None:
            return self.processor.call_cycles(part, around)
        rows = row_count(part.output.type.shape)
        whole = _cycles(part, rows, around)
        if rows == 1:
            return whole
        return min(whole, max(0, (rows * _cycles(part, 1, around) - whole) // (rows - 1)))

    def cycles(self, part: Part, stripes: Sequence[int], around: Around = ()) -> int:
        """Cycles of calls that compute so many rows each."""
        if part.kernel.cycles is None:
            return self.processor.cycles(part, stripes, around)
        known = {rows: _cycles(part, rows, around) for rows in set(stripes)}
        return sum(known[rows] for rows in stripes)


def _cycles(part: Part, rows: int, around: Around) -> int:
    """What the accelerator says that a call for so many rows takes.  Raises BackendError."""
    assert part.kernel.cycles is not None
    where = f'{part.engine}: the cost of "{part.kernel.name}", for "{part.name}"'
    return round(cost_of(part.kernel.cycles, rows, around, where))
