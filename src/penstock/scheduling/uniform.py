"""uniform: cascades where it does not matter to time in which memory anything lives.

An interval of an order is a candidate cascade; for each stripe height it has one plan, or two where
it matters which input is asked for first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from penstock.scheduling.cost import CostModel
from penstock.scheduling.demand import NO_CEILING, WHOLE, choices, peak_and_cycles, tables_of
from penstock.scheduling.options import Options
from penstock.scheduling.part import Parts
from penstock.scheduling.proposals import Away, Candidate, Valued


class UniformSearch:
    """The candidates for one order."""

    def __init__(
        self, parts: Parts, order: tuple[int, ...], model: CostModel, options: Options
    ) -> None:
        rows, keep = parts.rows, options.keep_input
        calls = tuple(model.call_cycles(part) for part in parts.parts)
        self._options = options
        self._tables = tuple(
            tables_of(rows, order, call_cycles=calls, keep_inputs=keep, nearest_first=nearest)
            for nearest in (False, True)
        )
        most = min(max((s.rows for s in rows.storages), default=1) - 1, options.max_stripe)
        self._stripes = tuple(1 << k for k in range(most.bit_length()))
        count = len(order)
        wholes = [self._run(Candidate(p, p + 1, WHOLE, False), NO_CEILING) for p in range(count)]
        self._wholes = [whole for whole in wholes if whole is not None]
        self._choices = np.append(0, np.cumsum(choices(*self._tables)))

    def plans(self, upper: int, states: Sequence[Iterable[Away]]) -> Iterator[Valued]:
        """The candidates that end at a position; there is one state.

        Rule `prune_by_whole`: a cascade that needs no less than its parts one by one, each whole,
        is dominated by them, for they make the fewest calls."""
        layered = 0
        yield Valued(Candidate(upper - 1, upper, WHOLE, False), *self._wholes[upper - 1])
        for lower in range(upper - 1, max(-1, upper - 1 - self._options.max_parts), -1):
            layered = max(layered, self._wholes[lower][0])
            same = self._choices[lower] == self._choices[upper]
            for stripe in self._stripes:
                for nearest_first in (False,) if same else (False, True):
                    candidate = Candidate(lower, upper, stripe, nearest_first)
                    found = self._run(
                        candidate, layered if self._options.prune_by_whole else NO_CEILING
                    )
                    if found is not None:
                        yield Valued(candidate, *found)

    def _run(self, c: Candidate, ceiling: int) -> tuple[int, int] | None:
        tables = self._tables[c.nearest_first]
        return peak_and_cycles(tables, c.lower, c.upper, c.stripe, ceiling)
