"""Nouns <-> text, both ways, from graphs to programs: `parse(show(noun)) == noun`."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

from penstock.fixedpoint import Rounding
from penstock.ir import graph, op, region, tensor, text
from penstock.memory import problem
from penstock.ops import activation, registry, window
from penstock.program import expr, program
from penstock.scheduling import cost, part, plan, schedule

show = text.show


def parse(source: str) -> Any:
    """The noun that `source` shows.  Raises ModelError where it is malformed."""
    return text.parse(source, classes())


@cache
def classes() -> dict[str, type]:
    """By name, every class that may stand in the text of a noun."""
    arithmetic = (graph, op, region, tensor, activation, window)
    modules = (*arithmetic, expr, program, part, cost, plan, schedule, problem)
    found = {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__
    }
    return {**found, **registry.operators(), "Rounding": Rounding}
