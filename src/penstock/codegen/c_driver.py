"""c_driver: the bodies of accelerator calls in C: loops and calls of driver functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import chain
from typing import cast

from penstock.codegen import c_text
from penstock.codegen.names import Names
from penstock.errors import BackendError, InternalError
from penstock.frozen import frozen
from penstock.ir.tensor import row_count
from penstock.program.expr import Binary, Expr, TableEntry, Var, binary
from penstock.program.program import (
    END,
    FIRST,
    Address,
    Argument,
    Call,
    Command,
    Invoke,
    Kind,
    Loop,
    Program,
    Submission,
    WholeMemory,
)
from penstock.program.steps import accessed_views

# Formats expressions (loop bounds and offsets) as C with minimal parentheses.


_FUNCTIONS = {
    "min": "penstock_min",
    "max": "penstock_max",
    "//": "penstock_divide",
    "%": "penstock_modulo",
}
_SUM, _PRODUCT, _ATOM = 1, 2, 3  # operator precedence
_PRECEDENCE = {"+": _SUM, "-": _SUM, "*": _PRODUCT}


@frozen
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
    if loop.period is not None:
        step = f"{name} = {expression(loop.after(Var(loop.variable)), inner)}"
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


# DriverCode: how generated C calls the driver of an accelerator, and the driver's files.


class CallTexts(tuple[str, ...]):
    """The texts of a call's arguments; `function` is the name of the called function."""

    function: str

    def __new__(cls, function: str, arguments: Iterable[str]) -> CallTexts:
        found = super().__new__(cls, arguments)
        found.function = function
        return found


@frozen
class DriverCode:
    """How generated C calls an accelerator's driver.

    includes: text at the beginning of the model's C file.
    replace_call_extern: returns the text of a call, given the texts of its arguments (CallTexts);
        None selects NAME(arguments).
    sources: (name, contents) of the driver's header and, until the hardware exists, of a stub.
    fallible: the name of the function whose status is not 0 if it fails; "" if none has one.
    cmake: lines of the CMake project for the driver, with "{prefix}" and "{PREFIX}"."""

    includes: str = ""
    replace_call_extern: Callable[[Sequence[str]], str] | None = None
    sources: tuple[tuple[str, str], ...] = ()
    fallible: str = ""
    cmake: str = ""

    def fails(self, command: Command) -> bool:
        """Whether a command invokes the function that may fail."""
        return isinstance(command, Invoke) and command.driver.name == self.fallible


def body_lines(
    program: Program,
    names: Names,
    drivers: Mapping[str, DriverCode],
    call: Call,
    rows: tuple[str, str] | None,
) -> tuple[str, ...]:
    """The lines of the body of a step (`as_step`) for the interval `rows`, two C expressions, or
    for all rows."""
    offsets = {v.offset.name for v in accessed_views(call) if isinstance(v.offset, Var)}
    variables = {name: name for name in offsets}
    numbers: dict[str, int] = {}
    if rows is None:
        numbers = {FIRST.name: 0, END.name: row_count(call.output.type.shape)}
    else:
        variables |= {FIRST.name: rows[0], END.name: rows[1]}
    taken = frozenset(p.name for p in names.parameters) | {"y", "lower", "upper"}
    writer = _Writer(program, names, drivers, call.engine)
    scope = Scope(names.bounds, taken, variables, numbers)
    return tuple(line for command in call.body for line in writer.lines(command, scope, 1))


def submission_lines(
    program: Program,
    names: Names,
    drivers: Mapping[str, DriverCode],
    submission: Submission,
    variables: Sequence[str],
) -> Iterator[str]:
    """The lines that submit a stream; without calls, nothing is submitted.

    variables: those around the submission, which are parameters of the function."""
    taken = frozenset(p.name for p in names.parameters)
    scope = Scope(names.bounds, taken, {name: name for name in variables})
    invoke = submission.submit
    writer = _Writer(program, names, drivers, invoke.driver.engine)
    if all(submission.ends[k] for k in range(len(submission.ends))):
        yield from writer.lines(invoke, scope, 1)
        return
    size = invoke.arguments[1]
    assert not isinstance(size, Address | WholeMemory)
    yield f"    if ({expression(size, scope)} > 0) {{"
    yield from writer.lines(invoke, scope, 2)
    yield "    }"


def invocation_lines(
    program: Program,
    names: Names,
    drivers: Mapping[str, DriverCode],
    command: Invoke,
    scope: Scope,
    depth: int,
) -> Iterator[str]:
    """The lines of an invocation outside the bodies of calls."""
    yield from _Writer(program, names, drivers, command.driver.engine).lines(command, scope, depth)


@frozen
class _Writer:
    """Writes the commands of one body."""

    program: Program
    names: Names
    drivers: Mapping[str, DriverCode]
    engine: str

    def lines(self, command: Command, scope: Scope, depth: int) -> Iterator[str]:
        """The lines of a command.  Raises BackendError if `replace_call_extern` returns no text."""
        match command:
            case Loop():
                yield from loop_lines(command, scope, depth, self.lines)
            case Invoke():
                yield from self._invocation(command, scope, depth)
            case _:
                raise InternalError(
                    "codegen-005", f"a body has loops and invocations, no {type(command).__name__}"
                )

    def _invocation(self, command: Invoke, scope: Scope, depth: int) -> Iterator[str]:
        pad = c_text.INDENT * depth
        arguments = [self._argument(argument, scope) for argument in command.arguments]
        code = self.drivers.get(self.engine, DriverCode())
        if code.replace_call_extern is None:
            items = c_text.parted(arguments)
            name = command.driver.name
            if code.fails(command):
                yield c_text.wrapped(f"{pad}if ({name}(", items, ") != 0) {")
                yield from self._failure(pad)
            else:
                yield c_text.wrapped(f"{pad}{name}(", items, ");") if items else f"{pad}{name}();"
            return
        text = cast(object, code.replace_call_extern(CallTexts(command.driver.name, arguments)))
        if not isinstance(text, str) or not text.strip():
            raise BackendError(
                "backend-091",
                f"replace_call_extern returned {text!r}, must return C",
                where=f"{self.engine}: {command.driver.name}",
                help="return the call as text, without the semicolon",
            )
        text = text.strip().removesuffix(";")
        if not code.fails(command):
            yield f"{pad}{text};"
            return
        yield f"{pad}if ({text} != 0) {{"
        yield from self._failure(pad)

    def _failure(self, pad: str) -> Iterator[str]:
        """The end of an if statement whose condition is that the driver's function failed."""
        yield f"{pad}{c_text.INDENT}return {self.names.prefix.upper()}_ACCELERATOR_FAILED;"
        yield f"{pad}}}"

    def _argument(self, argument: Argument, scope: Scope) -> str:
        if isinstance(argument, WholeMemory):
            return self.names.memories[argument.memory].name
        if not isinstance(argument, Address):
            return expression(argument, scope)
        buffer = self.program.buffer(argument.buffer)
        symbol = self.names.buffers[argument.buffer]
        base = f"{self.names.memories[buffer.memory].name} + {symbol}" if (
            buffer.kind is not Kind.CONSTANT
        ) else symbol  # fmt: skip
        inside = scope.folded(argument.offset)
        if inside == 0:
            return base
        if buffer.kind is Kind.CONSTANT:
            base = f"(const int8_t *){symbol}"
        offset = expression(inside, scope)
        return f"{base} + {offset}" if _is_sum_safe(offset) else f"{base} + ({offset})"


def _is_sum_safe(text: str) -> bool:
    return " - " not in text


def includes(drivers: Sequence[DriverCode]) -> str:
    """The text at the beginning of the model's C file."""
    return "".join(f"{d.includes.rstrip()}\n" for d in drivers if d.includes)
