"""Loop plans: all loop orders and operand depths, deduplicated by the traffic they cause."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain, combinations, permutations, product

import numpy as np
import numpy.typing as npt

Axes = tuple[int, ...]
"""Indices of axes."""
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Residency:
    """How long tiles of an operand stay in the scratchpad: the split axes that index its tile, and
    the split axes whose loops repeat its transfers."""

    follows: Axes
    repeats: Axes


@dataclass(frozen=True, slots=True)
class LoopPlan:
    """The split axes in loop order, outermost first, and for each operand its depth and
    residency."""

    order: Axes
    depths: tuple[int, ...]
    held: tuple[Residency, ...]


@dataclass(frozen=True)
class LoopPlans:
    """Loop plans, and their properties as arrays.

    `cuts` is the number of split axes, and `is_cut` marks them. For each operand, `ways` lists the
    possible sets of axes that index its tile, and `way` is the index into that list. `follows` and
    `repeats` mark the axes of its residency.
    """

    plans: tuple[LoopPlan, ...]
    ways: tuple[tuple[Axes, ...], ...]
    cuts: Numbers
    is_cut: Flags
    way: Numbers
    follows: Flags
    repeats: Flags


@cache
def plans(
    followed: tuple[Axes, ...], cuttable: Axes, spills: bool, *, axes: int, all_cut: bool = False
) -> LoopPlans:
    """Return the plans over subsets of the cuttable axes (over all of them if `all_cut`), one for
    each distinct traffic.

    `followed` contains, for each operand, the axes that index it; the last operand is the output.
    """
    found: dict[tuple[Axes, tuple[Residency, ...]], LoopPlan] = {}
    least = len(cuttable) if all_cut else 0
    for cut in chain.from_iterable(
        combinations(cuttable, k) for k in range(least, len(cuttable) + 1)
    ):
        for order in permutations(cut):
            for plan in _plans(order, followed):
                if spills or not plan.held[-1].repeats:
                    found.setdefault((cut, plan.held), plan)
    return _plan_set(tuple(found.values()), len(followed), axes)


def _plan_set(every: tuple[LoopPlan, ...], operands: int, axes: int) -> LoopPlans:
    ways = [list(dict.fromkeys(plan.held[o].follows for plan in every)) for o in range(operands)]
    is_cut = np.zeros((len(every), axes), np.bool_)
    follows = np.zeros((len(every), operands, axes), np.bool_)
    repeats = np.zeros_like(follows)
    way = np.zeros((len(every), operands), np.int64)
    for p, plan in enumerate(every):
        is_cut[p, list(plan.order)] = True
        for o, held in enumerate(plan.held):
            follows[p, o, list(held.follows)] = True
            repeats[p, o, list(held.repeats)] = True
            way[p, o] = ways[o].index(held.follows)
    cuts = np.array([len(plan.order) for plan in every], np.int64)
    return LoopPlans(every, tuple(map(tuple, ways)), cuts, is_cut, way, follows, repeats)


def _plans(order: Axes, followed: tuple[Axes, ...]) -> Iterator[LoopPlan]:
    for choice in product(*(_held(order, axes).items() for axes in followed)):
        yield LoopPlan(order, tuple(d for _, d in choice), tuple(held for held, _ in choice))


def _held(order: Axes, followed: Axes) -> dict[Residency, int]:
    """Return the least depth for each distinct residency of an operand."""
    found: dict[Residency, int] = {}
    for depth in range(len(order) + 1):
        changing = [axis for axis in order[:depth] if axis in followed]
        around = order[: order.index(changing[-1])] if changing else ()
        repeats = tuple(sorted(axis for axis in around if axis not in followed))
        found.setdefault(Residency(tuple(sorted(changing)), repeats), depth)
    return found
