"""Pareto fronts of cost vectors, all components to be minimised.

A vector is *efficient* (Pareto-optimal) if no other vector is at most as large in every component;
of equal vectors, only the first is efficient.  This file contains all dominance tests of the
compiler.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import chain
from operator import le
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from penstock.compiled import compiled

T = TypeVar("T")
Vector = tuple[int | float | Fraction, ...]
Numbers = npt.NDArray[np.int64]
# (bound, items): `bound` is a lower bound of the first cost component of these items, and of the
# items of all later groups.
Group = tuple[float, Sequence[T]]


def efficient(costs: Sequence[Vector]) -> tuple[int, ...]:
    """Return the indices of the efficient vectors, in ascending order of the vectors.

    In that order, only an earlier vector can dominate a later one.  With two components, the last
    efficient vector has the smallest second component, so one comparison per vector suffices:
    O(n log n).  With more components every earlier efficient vector is compared: O(n f) for f
    efficient vectors.

    >>> efficient([(12, 80), (5, 81), (86, 96), (68, 14), (12, 80)])
    (1, 0, 3)
    """
    found: list[int] = []
    for k in sorted(range(len(costs)), key=costs.__getitem__):
        rivals = found[-1:] if len(costs[k]) <= 2 else found
        if not any(_at_most(costs[rival], costs[k]) for rival in rivals):
            found.append(k)
    return tuple(found)


def frontier(items: Iterable[T], cost: Callable[[T], Vector]) -> tuple[T, ...]:
    """Return the items with efficient costs, in ascending order of cost."""
    candidates = tuple(items)
    return tuple(candidates[k] for k in efficient([cost(item) for item in candidates]))


def is_dominated(cost: Vector, rivals: Iterable[Vector]) -> bool:
    """Return whether a rival is at most as large as `cost` in every component.

    >>> is_dominated((12, 80), [(5, 81), (12, 80)]), is_dominated((12, 80), [(5, 81)])
    (True, False)
    """
    return any(_at_most(rival, cost) for rival in rivals)


def efficient_pairs(first: Numbers, second: Numbers, group: Numbers | None = None) -> Numbers:
    """Return the indices of the efficient pairs (first[i], second[i]), as `efficient` does.

    group: for each pair, the non-negative number of its group; pairs are compared only within their
        group, and the indices are in ascending order of (group, pair).  None: a single group.

    >>> efficient_pairs(np.array([12, 5, 86, 68, 12]), np.array([80, 81, 96, 14, 80])).tolist()
    [1, 0, 3]
    """
    if not len(first):
        return np.empty(0, np.int64)
    if group is None:
        ranked, values = np.argsort(first, kind="stable"), second
    else:
        ranked = np.lexsort((first, group))
        values = second - group * (second.max() + 1)  # below those of earlier groups
        first = first - group * (first.max() + 1)
    values = values[ranked]
    kept = ranked[np.append(True, values[1:] < np.minimum.accumulate(values)[:-1])]
    return kept[np.append(first[kept[1:]] != first[kept[:-1]], True)]


def efficient_rows(costs: Numbers) -> Numbers:
    """Return the indices of the efficient rows of a matrix, as `efficient` does.

    Compiled, for matrices with many rows and columns.

    >>> efficient_rows(np.array([(12, 80), (5, 81), (86, 96), (68, 14), (12, 80)])).tolist()
    [1, 0, 3]
    """
    ranked = np.lexsort(costs.T[::-1])
    return ranked[_efficient_of_sorted(costs[ranked])]


@compiled
def _efficient_of_sorted(rows: Numbers) -> Numbers:
    """The indices of the efficient rows; `rows` are sorted lexicographically."""
    kept = np.empty(len(rows), np.int64)
    count = 0
    for r in range(len(rows)):
        dominated = False
        for k in range(count):
            rival = rows[kept[k]]
            dominated = True
            for c in range(rows.shape[1]):
                if rival[c] > rows[r, c]:
                    dominated = False
                    break
            if dominated:
                break
        if not dominated:
            kept[count] = r
            count += 1
    return kept[:count]


def near_frontier(
    items: Iterable[T], cost: Callable[[T], tuple[int, int]], slack: float
) -> list[T]:
    """Return the items close to the Pareto front of (first, second), in ascending order of cost.

    An item is dropped if its first component exceeds, by more than the fraction `slack`, that of an
    item whose second component is no larger.
    """
    kept: list[T] = []
    least = math.inf
    for item in sorted(items, key=lambda item: cost(item)[::-1]):
        first, _ = cost(item)
        if first <= least * (1 + slack):
            kept.append(item)
            least = min(least, first)
    return sorted(kept, key=cost)


def thinned(
    items: Iterable[T], value: Callable[[T], int], noticeable: Callable[[int, int], bool]
) -> Iterator[T]:
    """Yield items in order, but drop those whose value is only slightly below the least so far.

    noticeable(value, least): whether `value` is noticeably below `least`, the least value of the
        items yielded so far.  Items that are not below the least value are not dropped.
    """
    least: int | None = None
    for item in items:
        found = value(item)
        if least is None or found >= least or noticeable(found, least):
            yield item
            least = found if least is None else min(least, found)


def frontier_of_groups(
    groups: Iterable[Group[T]], cost: Callable[[T], tuple[int, int]]
) -> Iterator[T]:
    """Yield the items that no item with a smaller first cost component dominates.

    Items come in ascending order of cost; of items with equal costs, those that are the first of
    their groups come first.  An item is yielded as soon as the bounds exclude that a later group
    contains a smaller one, so later groups are evaluated only when they are needed.
    """
    known: list[tuple[int, int]] = []
    waiting: list[tuple[int, int, bool, T]] = []
    end: Group[T] = (math.inf, ())
    for bound, group in chain(groups, [end]):
        waiting.sort(key=lambda found: found[:3])
        while waiting and waiting[0][0] < bound:
            first, second, _, item = waiting.pop(0)
            if not any(a < first and b <= second for a, b in known):
                yield item
        for k, item in enumerate(group):
            first, second = cost(item)
            known.append((first, second))
            waiting.append((first, second, k > 0, item))


def _at_most(one: Vector, other: Vector) -> bool:
    return all(map(le, one, other))


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
