"""Plans: every way in which loops can stand and operands be held, told apart by what they move."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain, combinations, permutations, product

Axes = tuple[int, ...]
"""Positions of axes."""


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


@cache
def plans(followed: tuple[Axes, ...], cuttable: Axes, spills: bool) -> tuple[Plan, ...]:
    """Every plan over any of the cuttable axes; of plans that move the same, one.

    `followed`: by operand, the axes that it follows; the last operand is the output."""
    found: dict[tuple[Axes, tuple[Held, ...]], Plan] = {}
    subsets = chain.from_iterable(combinations(cuttable, k) for k in range(len(cuttable) + 1))
    for cut in subsets:
        for order in permutations(cut):
            for plan in _plans(order, followed):
                if spills or not plan.held[-1].repeats:
                    found.setdefault((cut, plan.held), plan)
    return tuple(found.values())


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
