"""Nouns <-> text, both ways, from graphs to programs: `parse(show(noun)) == noun`."""

from __future__ import annotations

from functools import cache
from typing import Any

from penstock.fixedpoint import Rounding
from penstock.ir import graph, op, region, tensor, text
from penstock.memory.problem import Placement
from penstock.ops.registry import classes_of, operand_classes
from penstock.program import expr, program
from penstock.scheduling import cost, part, plan, schedule

show = text.show


def parse(source: str) -> Any:
    """The noun that `source` shows.  Raises ModelError where it is malformed."""
    return text.parse(source, classes())


@cache
def classes() -> dict[str, type]:
    """By name, every class that may stand in the text of a noun.  (A memory problem, whose Buffer
    is not a program's, has a text form of its own.)"""
    modules = (graph, op, region, tensor, expr, program, part, cost, plan, schedule)
    every = [found for module in modules for found in classes_of(module)]
    every += [*operand_classes(), Placement, Rounding]
    named = {found.__name__: found for found in every}
    assert len(named) == len(every), "two classes have one name, and texts would confuse them"
    return named
