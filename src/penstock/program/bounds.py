"""bounds: expressions for sequences of row counts: a formula if one exists, otherwise a table.

The formulas are those of sliding windows: min(most, max(0, (a * n + b) // q)), and 0 at n = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from penstock.program.expr import Expr, TableEntry, binary

MOST_DIVISOR = 8


@dataclass(frozen=True, slots=True)
class Formula:
    """min(most, max(0, (factor * n + offset) // divisor)) for n > 0, and 0 for n = 0."""

    factor: int
    offset: int
    divisor: int
    most: int
    rows: int

    def at(self, n: Expr, *, positive: bool) -> Expr:
        """The count for n; `positive` is true if n is known to be positive."""
        linear = binary("+", binary("*", n, self.factor), self.offset)
        count = binary("//", linear, self.divisor)
        if self._linear(1) < 0 or (not positive and self.offset < 0):
            count = binary("max", count, 0)
        if self._linear(self.rows) > self.most:
            count = binary("min", count, self.most)
        if not positive and self.offset >= self.divisor:
            count = binary("min", count, binary("*", n, self.most))
        return count

    def _linear(self, n: int) -> int:
        return (self.factor * n + self.offset) // self.divisor


@cache
def formula(counts: tuple[int, ...]) -> Formula | None:
    """The formula of the counts for n = 0, 1, ..; None if there is none."""
    table = np.array(counts)
    n = np.arange(len(counts))
    middle = len(counts) // 2
    for divisor in range(1, min(MOST_DIVISOR, len(counts) - middle - 1) + 1):
        factor = counts[middle + divisor] - counts[middle]
        for rest in range(divisor):
            offset = counts[middle] * divisor - factor * middle + rest
            found = np.clip((factor * n + offset) // divisor, 0, table.max())
            if (found[1:] == table[1:]).all() and counts[0] == 0:
                return Formula(factor, offset, divisor, int(table.max()), len(counts) - 1)
    return None


def count_at(counts: tuple[int, ...], n: Expr, *, positive: bool) -> Expr:
    """The count for n, by formula or from a table."""
    if isinstance(n, int):
        return counts[n]
    found = formula(counts)
    return TableEntry(counts, n) if found is None else found.at(n, positive=positive)
