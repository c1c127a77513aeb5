"""Selection: which points of a Pareto front are kept, and which one of them is compiled.

The objectives of the front are memory and cycles.  A relative difference in cycles below `NOTICED`
does not justify more memory; `merged` drops points that gain less.  `pick` selects one of the
remaining points for the user's goal (`Optimize`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import TypeVar

from penstock.choices import Optimize
from penstock.pareto import frontier, thinned

T = TypeVar("T")

NOTICED = Fraction(1, 1000)
"""Relative difference in cycles below which two points count as equally fast."""
KNEE = Fraction(1, 100)
"""Relative increase over the least cycles that the goal `balanced` accepts to save memory."""


def noticeably_faster(cycles: int, than: int) -> bool:
    """Whether `cycles` is less than `than` by at least the fraction `NOTICED` of `cycles`.

    >>> noticeably_faster(1000, than=1001), noticeably_faster(1001, than=1002)
    (True, False)
    """
    return than - cycles >= NOTICED * cycles and cycles < than


def merged(items: Iterable[T], cost: Callable[[T], tuple[int, int]]) -> tuple[T, ...]:
    """The Pareto front of the (memory, cycles) of items, without points that are hardly faster.

    Each point is noticeably faster than the last kept one, so differences do not accumulate: for
    each dropped point, a kept one needs no more memory and is slower by less than `NOTICED`.

    >>> merged([(1, 1020), (2, 1009), (3, 1008), (4, 1000), (5, 1500)], lambda point: point)
    ((1, 1020), (2, 1009), (4, 1000))
    """
    return tuple(thinned(frontier(items, cost), lambda item: cost(item)[1], noticeably_faster))


def pick(cycles: Sequence[int], goal: Optimize, pace: int | None = None) -> int:
    """The index of the point of a Pareto front, least memory first, that a goal selects.

    `balanced` selects the point of least memory whose cycles exceed `pace` (by default, the least
    of `cycles`) by at most the fraction `KNEE`.

    >>> [pick([1200, 1010, 1000], goal) for goal in Optimize]
    [2, 1, 0]
    """
    if goal is Optimize.SIZE:
        return 0
    if goal is Optimize.SPEED:
        return len(cycles) - 1
    limit = (cycles[-1] if pace is None else pace) * (1 + KNEE)
    return next(k for k, count in enumerate(cycles) if count <= limit)
