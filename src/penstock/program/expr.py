"""Expr: whole-number expressions of loop variables, in which a program's bounds and offsets stand.

Only +, -, x, //, mod, min, max, and look-ups in constant tables; division and remainder are by
positive numbers and round down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Var:
    """A loop variable."""

    name: str


@dataclass(frozen=True, slots=True)
class Binary:
    """`left operator right`; the operator is one of OPERATORS."""

    operator: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class TableEntry:
    """Number `index` of a constant table: for bounds that no short formula says."""

    values: tuple[int, ...]
    index: Expr


Expr = int | Var | Binary | TableEntry

OPERATORS: Mapping[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "min": min,
    "max": max,
}


def evaluate(expr: Expr, variables: Mapping[str, int]) -> int:
    """The expression's value."""
    match expr:
        case Var(name):
            return variables[name]
        case Binary(operator, left, right):
            return OPERATORS[operator](evaluate(left, variables), evaluate(right, variables))
        case TableEntry(values, index):
            return values[evaluate(index, variables)]
        case _:
            return expr


def binary(operator: str, left: Expr, right: Expr) -> Expr:
    """The expression, folded where both sides are known or one changes nothing.

    >>> binary("+", Var("r"), 0)
    Var(name='r')
    """
    if isinstance(left, int) and isinstance(right, int):
        return OPERATORS[operator](left, right)
    if right == {"+": 0, "-": 0, "*": 1, "//": 1}.get(operator):
        return left
    return Binary(operator, left, right)
