"""Expr: integer expressions of loop variables, used for bounds and offsets of a program.

The operations are +, -, *, //, %, min, max and look-ups in constant tables.  Divisors are positive;
division and remainder round down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from penstock.frozen import frozen


class _Arithmetic:
    """Python's operators on expressions.

    >>> Var("r") * 2 + 1
    Binary(operator='+', left=Binary(operator='*', left=Var(name='r'), right=2), right=1)
    """

    __slots__ = ()

    def __add__(self, other: Expr) -> Expr:
        return binary("+", cast("Expr", self), other)

    def __radd__(self, other: Expr) -> Expr:
        return binary("+", other, cast("Expr", self))

    def __sub__(self, other: Expr) -> Expr:
        return binary("-", cast("Expr", self), other)

    def __rsub__(self, other: Expr) -> Expr:
        return binary("-", other, cast("Expr", self))

    def __mul__(self, other: Expr) -> Expr:
        return binary("*", cast("Expr", self), other)

    def __rmul__(self, other: Expr) -> Expr:
        return binary("*", other, cast("Expr", self))

    def __floordiv__(self, other: Expr) -> Expr:
        return binary("//", cast("Expr", self), other)

    def __mod__(self, other: Expr) -> Expr:
        return binary("%", cast("Expr", self), other)


@frozen
class Var(_Arithmetic):
    """A loop variable."""

    name: str


@frozen
class Binary(_Arithmetic):
    """`left operator right`; the operator is one of OPERATORS."""

    operator: str
    left: Expr
    right: Expr


@frozen
class TableEntry(_Arithmetic):
    """Entry `index` of a constant table, for bounds without a formula."""

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
_COMMUTATIVE = ("+", "*", "min", "max")
_NEUTRAL: Mapping[str, int] = {"+": 0, "-": 0, "*": 1, "//": 1}
"""By operator, the right operand with which the result is the other operand."""


def evaluate(expr: Expr, variables: Mapping[str, int]) -> int:
    """The value of an expression, given the values of its variables."""
    match expr:
        case Var(name):
            return variables[name]
        case Binary(operator, left, right):
            return OPERATORS[operator](evaluate(left, variables), evaluate(right, variables))
        case TableEntry(values, index):
            entry = evaluate(index, variables)
            if not 0 <= entry < len(values):
                raise IndexError(f"there is no entry {entry} in a table of {len(values)}")
            return values[entry]
        case _:
            return expr


def binary(operator: str, left: Expr, right: Expr) -> Expr:
    """The expression, with its constants folded where they are adjacent.

    >>> binary("+", Var("r"), 0)
    Var(name='r')
    >>> binary("-", binary("+", 3, Var("r")), 1)
    Binary(operator='+', left=Var(name='r'), right=2)
    """
    if isinstance(left, int) and isinstance(right, int):
        return OPERATORS[operator](left, right)
    if isinstance(left, int) and operator in _COMMUTATIVE:
        left, right = right, left
    if isinstance(right, int):
        return _with_constant(operator, left, right)
    if left == right and operator in ("min", "max"):
        return left
    if operator == "-":
        (first, upper), (second, lower) = _offset(left), _offset(right)
        if first == second:
            return upper - lower
    return Binary(operator, left, right)


def _offset(expr: Expr) -> tuple[Expr, int]:
    """The parts of a sum of an expression and a constant; of another expression, itself and 0."""
    match expr:
        case Binary("+" | "-", rest, int(constant)):
            return rest, OPERATORS[expr.operator](0, constant)
        case _:
            return expr, 0


def _with_constant(operator: str, left: Expr, right: int) -> Expr:
    """An operation on a constant, merged with the operation on a constant that it follows."""
    if right == _NEUTRAL.get(operator):
        return left
    if (operator, right) in (("*", 0), ("%", 1)):
        return 0
    match left:
        case Binary("+" | "-", rest, int(inner)) if operator in ("+", "-"):
            total = OPERATORS[left.operator](0, inner) + OPERATORS[operator](0, right)
            return binary("+" if total >= 0 else "-", rest, abs(total))
        case Binary("*" | "min" | "max", rest, int(inner)) if operator == left.operator:
            return binary(operator, rest, OPERATORS[operator](inner, right))
        case _:
            return Binary(operator, left, right)


def minimum(left: Expr, right: Expr) -> Expr:
    """The minimum of two expressions.

    >>> minimum(Var("rows"), 8)
    Binary(operator='min', left=Var(name='rows'), right=8)
    """
    return binary("min", left, right)


def maximum(left: Expr, right: Expr) -> Expr:
    """The maximum of two expressions.

    >>> maximum(2, 3)
    3
    """
    return binary("max", left, right)
