"""Nouns <-> text, both ways, from graphs to programs: `parse(show(noun)) == noun`."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

from penstock.ir import graph, op, region, tensor, text
from penstock.memory import problem
from penstock.ops import registry
from penstock.program import expr, program
from penstock.scheduling import cost, part, plan, schedule

show = text.show
_ROOMS = ("fixedpoint", "ir", "memory", "ops", "program", "scheduling")


def parse(source: str) -> Any:
    """The noun that `source` shows.  Raises ModelError where it is malformed."""
    return text.parse(source, classes())


_HOMES = tuple(f"penstock.{room}" for room in _ROOMS)


@cache
def classes() -> dict[str, type]:
    """By name, every class that may stand in the text of a noun."""
    nouns = (graph, op, region, tensor, expr, program, part, cost, plan, schedule)
    files = (file.module for file in registry.operator_files())
    found = {
        name: value
        for module in (*files, *nouns)
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__.startswith(_HOMES)
    }
    return {**found, "Placement": problem.Placement}
