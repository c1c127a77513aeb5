"""Plans: every way in which loops can stand and operands be held, told apart by what they move."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain, combinations, permutations, product

import numpy as np
import numpy.typing as npt

Axes = tuple[int, ...]
"""Positions of axes."""
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Held:
    """How an operand is held: the cut axes that its tile follows, and those that repeat it."""

    follows: Axes
    repeats: Axes


@dataclass(frozen=True, slots=True)
class Plan:
    """The cut axes in the order of their loops, outermost first; by operand, its depth among them
    and what that means."""

    order: Axes
    depths: tuple[int, ...]
    held: tuple[Held, ...]


@dataclass(frozen=True)
class PlanSet:
    """Plans, and what they say as arrays.

    `cuts`: how many axes are cut; by axis, `is_cut`; by operand, `way`: position in `ways` of the
    axes that it follows; by operand and axis, `follows`, `repeats`."""

    plans: tuple[Plan, ...]
    ways: tuple[tuple[Axes, ...], ...]
    cuts: Numbers
    is_cut: Flags
    way: Numbers
    follows: Flags
    repeats: Flags


@cache
def plans(
    followed: tuple[Axes, ...], cuttable: Axes, spills: bool, *, axes: int, all_cut: bool = False
) -> PlanSet:
    """Every plan over any of the cuttable of so many axes, or over all of them; of plans that move
    the same, one.

    `followed`: by operand, the axes that it follows; the last operand is the output."""
    found: dict[tuple[Axes, tuple[Held, ...]], Plan] = {}
    least = len(cuttable) if all_cut else 0
    for cut in chain.from_iterable(
        combinations(cuttable, k) for k in range(least, len(cuttable) + 1)
    ):
        for order in permutations(cut):
            for plan in _plans(order, followed):
                if spills or not plan.held[-1].repeats:
                    found.setdefault((cut, plan.held), plan)
    return _plan_set(tuple(found.values()), len(followed), axes)


def _plan_set(every: tuple[Plan, ...], operands: int, axes: int) -> PlanSet:
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
    return PlanSet(every, tuple(map(tuple, ways)), cuts, is_cut, way, follows, repeats)


def _plans(order: Axes, followed: tuple[Axes, ...]) -> Iterator[Plan]:
    for choice in product(*(_held(order, axes).items() for axes in followed)):
        yield Plan(order, tuple(d for _, d in choice), tuple(held for held, _ in choice))


def _held(order: Axes, followed: Axes) -> dict[Held, int]:
    """By way in which an operand can be held, the least depth that does so."""
    found: dict[Held, int] = {}
    for depth in range(len(order) + 1):
        changing = [axis for axis in order[:depth] if axis in followed]
        around = order[: order.index(changing[-1])] if changing else ()
        repeats = tuple(sorted(axis for axis in around if axis not in followed))
        found.setdefault(Held(tuple(sorted(changing)), repeats), depth)
    return found
