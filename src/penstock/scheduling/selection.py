"""selection: which points of a Pareto front are kept, and which of those is compiled.

Two rules, each in one place.  Cycles that differ by less than `NOTICED` count as equal, so of such
points only the one of least memory is kept (`noticeably_faster`, `merged`).  The `Optimize` goal
picks one of the kept points (`pick`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from fractions import Fraction
from typing import TypeVar

from penstock.errors import UsageError
from penstock.scheduling.pareto import frontier

T = TypeVar("T")

NOTICED = Fraction(1, 1000)
"""Share of the faster point's cycles below which a difference is no reason to spend memory."""
KNEE = Fraction(1, 100)
"""How far `balanced` may be above the cycles of the fastest point, as a share of them."""


class Optimize(StrEnum):
    """The goal that selects a point of the frontier and the flags of the C compiler."""

    SPEED = "speed"
    BALANCED = "balanced"
    SIZE = "size"

    @staticmethod
    def of(name: str) -> Optimize:
        """The goal of that name.  Raises UsageError."""
        if name not in tuple(Optimize):
            raise UsageError(
                "usage-013",
                f"{name!r} is not known",
                where="--optimize",
                help=f"take one of {', '.join(Optimize)}",
            )
        return Optimize(name)


def noticeably_faster(cycles: int, than: int) -> bool:
    """Whether fewer cycles justify more memory.

    >>> noticeably_faster(1000, than=1001), noticeably_faster(1001, than=1002)
    (True, False)
    """
    return than - cycles >= NOTICED * cycles and cycles < than


def merged(items: Iterable[T], cost: Callable[[T], tuple[int, int]]) -> tuple[T, ...]:
    """The Pareto front of (memory, cycles), least memory first, thinned to noticeable differences.

    The point of least memory is kept; every further one is kept if it is noticeably faster than the
    last kept one.  So kept points differ pairwise by at least `NOTICED`, and each dropped point has
    a kept one that needs no more memory and is less than `NOTICED` slower: a chain of small steps
    does not add up.

    >>> merged([(1, 1020), (2, 1009), (3, 1008), (4, 1000), (5, 1500)], lambda point: point)
    ((1, 1020), (2, 1009), (4, 1000))
    """
    kept: list[T] = []
    for item in frontier(items, cost):
        if not kept or noticeably_faster(cost(item)[1], cost(kept[-1])[1]):
            kept.append(item)
    return tuple(kept)


def pick(cycles: Sequence[int], goal: Optimize) -> int:
    """The index of the point that a goal selects; `cycles`: of a frontier, least memory first.

    `speed`: the fastest; `size`: the one of least memory; `balanced`: the knee, the one of least
    memory whose cycles are at most `KNEE` above those of the fastest.

    >>> [pick([1200, 1010, 1000], goal) for goal in Optimize]
    [2, 1, 0]
    """
    if goal is Optimize.SIZE:
        return 0
    if goal is Optimize.SPEED:
        return len(cycles) - 1
    limit = cycles[-1] * (1 + KNEE)
    return next(k for k, count in enumerate(cycles) if count <= limit)
