"""uniform: cascades where it does not matter to time in which memory anything lives.

An interval of an order is a candidate cascade; for each stripe height it has one plan, or two where
it matters which input is asked for first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from penstock.scheduling.cost import CostModel
from penstock.scheduling.demand import (
    WHOLE,
    Numbers,
    candidates,
    choices,
    rivals_of,
    tables_of,
    whole,
)
from penstock.scheduling.options import Options
from penstock.scheduling.part import Parts
from penstock.scheduling.proposals import UNLIMITED, Away, Candidate, Valued
from penstock.scheduling.scratch import Rooms

SHARES = (2, 3, 4, 5)


def stripe_heights(parts: Parts, most: int) -> list[int]:
    """Heights of stripes to be tried: 1, 2, 4, .. rows, at most `most`, less than the highest
    tensor has; and where an engine says what calls of so many rows take, equal shares of tensors,
    for one call less may spare much there."""
    heights = {storage.rows for storage in parts.rows.storages}
    below = min(max(heights, default=1) - 1, most)
    found = {1 << k for k in range(below.bit_length())}
    if any(part.kernel.cycles is not None for part in parts.parts):
        found |= {-(-height // share) for height in heights for share in SHARES}
    return sorted(height for height in found if height <= below)


class UniformSearch:
    """The candidates for one order that need no more bytes than the limit; `calls`: how many it
    unfolded, a measure of its work."""

    def __init__(
        self,
        parts: Parts,
        order: tuple[int, ...],
        model: CostModel,
        options: Options,
        limit_bytes: int = UNLIMITED,
    ) -> None:
        rows, keep = parts.rows, options.keep_input
        calls = tuple(model.call_cycles(part) for part in parts.parts)
        self._options, self._limit_bytes = options, limit_bytes
        self.calls = 0
        self._tables = tuple(
            tables_of(rows, order, call_cycles=calls, keep_inputs=keep, nearest_first=nearest)
            for nearest in (False, True)
        )
        heights = stripe_heights(parts, options.max_stripe)
        self._rivals = rivals_of(self._tables[0], heights, options.max_parts)
        self._scratch = Rooms.of(parts, order, model)
        self._choices = np.append(0, np.cumsum(choices(*self._tables)))

    def plans(self, upper: int, states: Sequence[Iterable[Away]]) -> Iterator[Valued]:
        """The candidates that end at a position; there is one state.

        Rule `prune_by_shorter`: a cascade that needs no less than shorter ones in its place, which
        make no more calls, is dominated by them."""
        alone = Candidate(upper - 1, upper, WHOLE, False)
        yield from self._scratch.valued(alone, *whole(self._tables[0], upper - 1))
        least = max(0, upper - self._options.max_parts)
        alike = int(np.searchsorted(self._choices, self._choices[upper]))
        for nearest_first, most in ((False, upper), (True, max(least, alike))):
            found, calls = candidates(
                self._tables[nearest_first],
                range(least, most),
                upper,
                self._rivals,
                prune=self._options.prune_by_shorter,
            )
            self.calls += calls
            found = found[found[:, 2] <= self._limit_bytes]
            for lower, stripe, peak, cycles in found[_unbeaten(found, upper)].tolist():
                cascade = Candidate(lower, upper, stripe, nearest_first)
                yield from self._scratch.valued(cascade, peak, cycles)


def _unbeaten(found: Numbers, upper: int) -> npt.NDArray[np.bool_]:
    """Which candidates of several parts that end at a position need less or add fewer cycles than
    all others of their interval; all of one part, which may fetch in few calls or in many."""
    lower, _, peak, cycles = found.T
    alone = lower == upper - 1
    if alone.all():
        return alone
    ranked = np.lexsort((cycles, peak, lower))
    apart = (cycles - lower * (cycles.max() + 1))[ranked]  # below all of the intervals before
    fewer = np.append(True, apart[1:] < np.minimum.accumulate(apart)[:-1])
    alone[ranked[fewer]] = True
    return alone
