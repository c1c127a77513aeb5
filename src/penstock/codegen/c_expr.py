"""Formats expressions (loop bounds and offsets) as C with minimal parentheses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from penstock.codegen import c_text
from penstock.program.expr import Binary, Expr, TableEntry, Var, binary

_FUNCTIONS = {
    "min": "penstock_min",
    "max": "penstock_max",
    "//": "penstock_divide",
    "%": "penstock_modulo",
}
_SUM, _PRODUCT, _ATOM = 1, 2, 3  # operator precedence
_PRECEDENCE = {"+": _SUM, "-": _SUM, "*": _PRODUCT}


@dataclass(frozen=True, slots=True)
class Scope:
    """C names of tables and visible loop variables; `taken` names must not be shadowed either.

    `numbers` contains the values of variables that are constant in the scope."""

    tables: Mapping[tuple[int, ...], str]
    taken: frozenset[str]
    variables: Mapping[str, str]
    numbers: Mapping[str, int] = field(default_factory=dict[str, int])

    def inside(self, variable: str) -> Scope:
        """The scope of the body of a loop over `variable`, which gets a new C name."""
        taken = self.taken.union(self.variables.values(), self.tables.values())
        name = c_text.free_identifier(variable, taken)
        numbers = {key: number for key, number in self.numbers.items() if key != variable}
        return replace(self, variables={**self.variables, variable: name}, numbers=numbers)

    def folded(self, expr: Expr) -> Expr:
        """The expression with variables of constant value replaced by these values."""
        return _folded(expr, self.numbers) if self.numbers else expr


def expression(expr: Expr, scope: Scope) -> str:
    """The expression as C of type int32_t."""
    return _text(scope.folded(expr), scope)[0]


def _folded(expr: Expr, numbers: Mapping[str, int]) -> Expr:
    """The expression with constant variables replaced by their values.

    Look-ups remain, even at a constant index, since their tables are declared."""
    match expr:
        case Var(name):
            return numbers.get(name, expr)
        case Binary(operator, left, right):
            return binary(operator, _folded(left, numbers), _folded(right, numbers))
        case TableEntry(values, index):
            return TableEntry(values, _folded(index, numbers))
        case _:
            return expr


def _text(expr: Expr, scope: Scope) -> tuple[str, int]:
    """The C text of an expression, and the precedence of its outermost operator."""
    match expr:
        case Var(name):
            return scope.variables[name], _ATOM
        case TableEntry(values, index):
            return f"{scope.tables[values]}[{expression(index, scope)}]", _ATOM
        case Binary(operator, left, right) if operator in _FUNCTIONS:
            arguments = f"{expression(left, scope)}, {expression(right, scope)}"
            return f"{_FUNCTIONS[operator]}({arguments})", _ATOM
        case Binary("+" | "-", _, int()):
            rest, number = _split_constant(expr)
            if number == 0:
                return _text(rest, scope)
            sign = "+" if number >= 0 else "-"
            return _infix(sign, _text(rest, scope), _text(abs(number), scope))
        case Binary(operator, left, right):
            return _infix(operator, _text(left, scope), _text(right, scope))
        case _:
            return c_text.integer(expr), _ATOM if expr >= 0 else _SUM


def _split_constant(expr: Expr) -> tuple[Expr, int]:
    """Splits a sum into its variable part and one constant: r - 1 + 2 into r and 1."""
    match expr:
        case Binary("+", left, int(right)):
            rest, number = _split_constant(left)
            return rest, number + right
        case Binary("-", left, int(right)):
            rest, number = _split_constant(left)
            return rest, number - right
        case _:
            return expr, 0


def _infix(operator: str, left: tuple[str, int], right: tuple[str, int]) -> tuple[str, int]:
    """An infix expression.  A right operand of equal precedence needs parentheses."""
    precedence = _PRECEDENCE[operator]
    first = left[0] if left[1] >= precedence else f"({left[0]})"
    second = right[0] if right[1] > precedence else f"({right[0]})"
    return f"{first} {operator} {second}", precedence
