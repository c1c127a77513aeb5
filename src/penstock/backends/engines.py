"""What parts cost, whichever engine runs them: the processor, or an accelerator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from penstock.backends.portable import Processor
from penstock.errors import BackendError
from penstock.ir.op import row_count
from penstock.scheduling.part import Part


@dataclass(frozen=True, slots=True)
class Engines:
    """Asks the kernel where an accelerator runs it, else the processor.

    A search adds up costs of calls that it does not make: there, a call takes what it takes for no
    rows, by the line through the costs of one row and of all."""

    processor: Processor

    def work_cycles(self, part: Part) -> int:
        """Cycles of the part's whole output, but what each call adds."""
        if part.kernel.cycles is None:
            return self.processor.work_cycles(part)
        rows = row_count(part.output.type.shape)
        return max(0, checked_cycles(part, rows) - self.call_cycles(part))

    def call_cycles(self, part: Part) -> int:
        """Cycles that each call adds."""
        if part.kernel.cycles is None:
            return self.processor.call_cycles(part)
        rows = row_count(part.output.type.shape)
        whole = checked_cycles(part, rows)
        if rows == 1:
            return whole
        return min(whole, max(0, (rows * checked_cycles(part, 1) - whole) // (rows - 1)))

    def cycles(self, part: Part, stripes: Sequence[int]) -> int:
        """Cycles of calls that compute so many rows each."""
        if part.kernel.cycles is None:
            return self.processor.cycles(part, stripes)
        known = {rows: checked_cycles(part, rows) for rows in set(stripes)}
        return sum(known[rows] for rows in stripes)


def checked_cycles(part: Part, rows: int) -> int:
    """What the accelerator says that a call for so many rows takes.

    Raises BackendError where that is no number of cycles."""
    assert part.kernel.cycles is not None
    where = f'{part.engine}, {part.kernel.name}, {rows} rows of "{part.name}"'
    try:
        found = cast(object, part.kernel.cycles(rows))
    except Exception as error:
        raise BackendError(
            "backend-080",
            "the cost function fails",
            where=where,
            why=f"{type(error).__name__}: {error}",
            help="a cost function takes what is offloaded and a number of rows, gives cycles",
        ) from error
    number = found if isinstance(found, int | float) else math.nan
    if isinstance(found, bool) or not math.isfinite(number) or number < 0:
        raise BackendError(
            "backend-081",
            f"the cost function gives {found!r}",
            where=where,
            why="cycles are a number, 0 or more",
            help="give what the call takes on the accelerator, transfers included",
        )
    return round(number)
