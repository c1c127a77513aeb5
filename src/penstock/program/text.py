"""Program <-> text, both ways: `parse(show(program)) == program`."""

from __future__ import annotations

import inspect
from functools import cache

from penstock.fixedpoint import Rounding
from penstock.ir import graph, op, region, tensor, text
from penstock.ops import activation, registry, window
from penstock.program import expr, program

show = text.show


def parse(source: str) -> program.Program:
    """The program that `source` shows.  Raises ModelError where it is malformed."""
    return text.parse(source, classes())


@cache
def classes() -> dict[str, type]:
    """By name, every class that may stand in the text of a graph or program."""
    modules = (graph, op, region, tensor, activation, window, expr, program)
    found = {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__
    }
    return {**found, **registry.operators(), "Rounding": Rounding}
