"""Expressions as text: infix operators, `min`, `max` and table look-ups.

    min(28, (r + 1) * 2)        table (0, 2, 5)[r]        table @c5029a71db5295a1[r // 2]

`*`, `//` and `%` bind more closely than `+` and `-`; operators of one level associate to the left.
"""

from __future__ import annotations

from penstock.ir.text.attributes import ConstantTable
from penstock.program.expr import Binary, Expr, TableEntry, Var
from penstock.scanner import name_or_string, quoted

MAX_ENTRIES = 32
"""Tables of more entries are shown by digest."""
_LEVELS = {"+": 1, "-": 1, "*": 2, "//": 2, "%": 2}
_FUNCTIONS = ("min", "max")
_KEYWORDS = (*_FUNCTIONS, "table", "inf", "nan")


def print_expr(expr: Expr, table: ConstantTable, level: int = 0) -> str:
    """The text of an expression, in parentheses if its operator's level is below `level`.

    >>> print_expr((Var("r") + 1) * 2, ConstantTable())
    '(r + 1) * 2'
    """
    match expr:
        case Var(name):
            return quoted(name) if name in _KEYWORDS else name_or_string(name)
        case Binary(operator, left, right) if operator in _FUNCTIONS:
            return f"{operator}({print_expr(left, table)}, {print_expr(right, table)})"
        case Binary(operator, left, right):
            own = _LEVELS[operator]
            text = f"{print_expr(left, table, own)} {operator} {print_expr(right, table, own + 1)}"
            return f"({text})" if own < level else text
        case TableEntry(values, index):
            return f"table {table.numbers(values, MAX_ENTRIES)}[{print_expr(index, table)}]"
        case _:
            return str(expr)
