"""Formats expressions (loop bounds and offsets) as C with minimal parentheses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from penstock.codegen import c_text
from penstock.program.expr import Binary, Expr, TableEntry, Var, binary
from penstock.program.program import Command, Loop

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
    # Look-ups remain, even at a constant index, since their tables are declared.
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
    precedence = _PRECEDENCE[operator]
    first = left[0] if left[1] >= precedence else f"({left[0]})"
    second = right[0] if right[1] > precedence else f"({right[0]})"
    return f"{first} {operator} {second}", precedence


# Formats loops as C; a callback formats the commands in their bodies.


# Formats a command in a scope, indented by the given number of levels, as lines of C.
Lines = Callable[[Command, Scope, int], Iterable[str]]
COUNTERS = "made"  # The array of the counters of a loop.


def loop_lines(loop: Loop, scope: Scope, depth: int, lines: Lines) -> Iterator[str]:
    """The lines of a loop and its body."""
    lower, upper = expression(loop.lower, scope), expression(loop.upper, scope)
    inner = scope.inside(loop.variable)
    name = inner.variables[loop.variable]
    begins = [f"{name} = {lower}"]
    if loop.counters:
        inner = with_counters(loop, inner)
        values = ", ".join(str(counter.begin) for counter in loop.counters)
        begins.append(f"{COUNTERS}[{len(loop.counters)}] = {{{values}}}")
    if loop.counted is not None and loop.upper != Var(loop.counted.limit):
        inner = inner.inside(loop.counted.limit)
        begins.append(f"{inner.variables[loop.counted.limit]} = {upper}")
        upper = inner.variables[loop.counted.limit]
    step = f"{name}++" if loop.step == 1 else f"{name} += {loop.step}"
    pad = c_text.INDENT * depth
    parts = (f"int32_t {', '.join(begins)};", f"{name} < {upper};", step)
    room = c_text.LINE_LENGTH - len(f"{pad}for (")
    fitted = (c_text.pieces(part) if len(part) > room else (part,) for part in parts)
    yield c_text.wrapped(f"{pad}for (", chain(*fitted), ") {")
    for command in loop.body:
        yield from lines(command, inner, depth + 1)
    yield f"{pad}}}"
    if loop.counted is not None:
        end = expression(binary("max", loop.lower, loop.upper), scope)
        yield c_text.wrapped(f"{pad}{lower} = ", c_text.pieces(end), ";")


def with_counters(loop: Loop, scope: Scope) -> Scope:
    """The scope in which the counters of a loop are elements of the array `COUNTERS`."""
    named = {counter.name: f"{COUNTERS}[{k}]" for k, counter in enumerate(loop.counters)}
    return replace(scope, variables={**scope.variables, **named}, taken=scope.taken | {COUNTERS})
