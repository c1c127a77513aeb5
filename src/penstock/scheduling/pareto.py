"""Pareto: of cost vectors, those that no other is as good as in every component; of equal ones,
the first.  Results are in ascending order of cost, whatever the order of what came."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from operator import le
from typing import TypeVar

T = TypeVar("T")
Vector = tuple[int | float | Fraction, ...]


def efficient(costs: Sequence[Vector]) -> tuple[int, ...]:
    """Indices of the efficient vectors, in ascending order of the vectors.

    In that order only an earlier vector can be as good as a later one in every component.  Of two
    components, the last efficient one is the rival, for its second is the least: O(n log n).  Of
    more, all efficient ones before are: O(n f) of f efficient ones.

    >>> efficient([(12, 80), (5, 81), (86, 96), (68, 14), (12, 80)])
    (1, 0, 3)
    """
    found: list[int] = []
    for k in sorted(range(len(costs)), key=costs.__getitem__):
        rivals = found[-1:] if len(costs[k]) <= 2 else found
        if not any(_as_good(costs[rival], costs[k]) for rival in rivals):
            found.append(k)
    return tuple(found)


def frontier(items: Iterable[T], cost: Callable[[T], Vector]) -> tuple[T, ...]:
    """The items whose costs are efficient, in ascending order of cost."""
    candidates = tuple(items)
    return tuple(candidates[k] for k in efficient([cost(item) for item in candidates]))


def _as_good(one: Vector, other: Vector) -> bool:
    """Whether `one` is at most `other` in every component."""
    return all(map(le, one, other))
