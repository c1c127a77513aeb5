"""uniform: cascades where it does not matter to time in which memory anything lives.

An interval of an order is a candidate cascade; for each stripe height it has one plan, or two where
it matters which input is asked for first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from penstock.scheduling.cost import CostModel
from penstock.scheduling.demand import NO_CEILING, WHOLE, Numbers, candidates, choices, tables_of
from penstock.scheduling.options import Options
from penstock.scheduling.part import Parts
from penstock.scheduling.proposals import Away, Candidate, Valued


class UniformSearch:
    """The candidates for one order; `calls`: how many it unfolded, a measure of its work."""

    def __init__(
        self, parts: Parts, order: tuple[int, ...], model: CostModel, options: Options
    ) -> None:
        rows, keep = parts.rows, options.keep_input
        calls = tuple(model.call_cycles(part) for part in parts.parts)
        self._options = options
        self.calls = 0
        self._tables = tuple(
            tables_of(rows, order, call_cycles=calls, keep_inputs=keep, nearest_first=nearest)
            for nearest in (False, True)
        )
        most = min(max((s.rows for s in rows.storages), default=1) - 1, options.max_stripe)
        self._stripes = np.array([1 << k for k in range(most.bit_length())], np.int64)
        self._wholes = [self._whole(position) for position in range(len(order))]
        self._choices = np.append(0, np.cumsum(choices(*self._tables)))

    def _whole(self, position: int) -> Numbers:
        """A part alone, whole."""
        only, ceiling = range(position, position + 1), np.array([NO_CEILING])
        found, _ = candidates(self._tables[0], only, position + 1, np.array([WHOLE]), ceiling)
        return found[0]

    def plans(self, upper: int, states: Sequence[Iterable[Away]]) -> Iterator[Valued]:
        """The candidates that end at a position; there is one state.

        Rule `prune_by_whole`: a cascade that needs no less than its parts one by one, each whole,
        is dominated by them, for they make the fewest calls."""
        yield _valued(self._wholes[upper - 1], upper, nearest_first=False)
        least = max(0, upper - self._options.max_parts)
        ceilings = np.full(upper - least, NO_CEILING)
        if self._options.prune_by_whole:
            needed = [whole[2] for whole in self._wholes[least:upper]]
            ceilings = np.maximum.accumulate(needed[::-1])[::-1]
        alike = int(np.searchsorted(self._choices, self._choices[upper]))
        for nearest_first, most in ((False, upper), (True, alike)):
            tables, lowers = self._tables[nearest_first], range(least, max(least, most))
            found, calls = candidates(tables, lowers, upper, self._stripes, ceilings)
            self.calls += calls
            for one in found:
                yield _valued(one, upper, nearest_first=nearest_first)


def _valued(found: Numbers, upper: int, *, nearest_first: bool) -> Valued:
    lower, stripe, peak, cycles = found.tolist()
    return Valued(Candidate(lower, upper, stripe, nearest_first), peak, cycles)
