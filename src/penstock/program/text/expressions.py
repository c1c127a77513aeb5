"""Expressions as text: infix operators, `min`, `max` and table look-ups.

    min(28, (r + 1) * 2)        table (0, 2, 5)[r]        table @c5029a71db5295a1[r // 2]

`*`, `//` and `%` bind more closely than `+` and `-`; operators of one level associate to the left.
"""

from __future__ import annotations

from penstock.ir.text.constants import ConstantReader, ConstantTable
from penstock.program.expr import Binary, Expr, TableEntry, Var
from penstock.scanner import Scanner, TokenKind, name_or_string, quoted

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


class ExprReader:
    """Reads expressions."""

    def __init__(self, scanner: Scanner, constants: ConstantReader) -> None:
        self._scanner = scanner
        self._constants = constants

    def expr(self) -> Expr:
        """Parses an expression.  Raises ModelError if the next token does not begin one."""
        return self._operations(1)

    def _operations(self, level: int) -> Expr:
        """Parses operands joined by operators of at least a precedence level."""
        if level > max(_LEVELS.values()):
            return self._operand()
        found = self._operations(level + 1)
        operators = [operator for operator, own in _LEVELS.items() if own == level]
        while self._scanner.is_symbol(*operators):
            operator = self._scanner.take().text
            found = Binary(operator, found, self._operations(level + 1))
        return found

    def _operand(self) -> Expr:
        scanner = self._scanner
        if scanner.accept("("):
            found = self.expr()
            scanner.expect(")")
            return found
        match scanner.peek().kind:
            case TokenKind.NUMBER:
                return scanner.integer()
            case TokenKind.STRING:
                return Var(scanner.string())
            case TokenKind.NAME:
                return self._named()
            case _:
                raise scanner.unexpected("an expression")

    def _named(self) -> Expr:
        """Parses a variable, a function of two arguments, or a table look-up."""
        scanner = self._scanner
        name = scanner.name()
        if name in _FUNCTIONS and scanner.accept("("):
            left = self.expr()
            scanner.expect(",")
            right = self.expr()
            scanner.expect(")")
            return Binary(name, left, right)
        if name == "table":
            at = scanner.peek()
            values = tuple(v for v in self._constants.numbers() if isinstance(v, int))
            if not values:
                raise scanner.error("a table has at least one integer", at=at)
            scanner.expect("[")
            index = self.expr()
            scanner.expect("]")
            return TableEntry(values, index)
        return Var(name)
