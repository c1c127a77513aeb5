"""c_driver: the bodies of accelerator calls in C: loops and calls of driver functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from penstock.codegen import c_text
from penstock.codegen.c_expr import Scope, expression, loop_lines
from penstock.codegen.names import Names
from penstock.errors import BackendError, InternalError
from penstock.ir.op import row_count
from penstock.program.expr import Expr, Var
from penstock.program.program import END, FIRST, Address, Call, Command, Invoke, Kind, Loop, Program
from penstock.program.steps import accessed_views

# DriverCode: how generated C calls the driver of an accelerator, and the driver's files.


class CallTexts(tuple[str, ...]):
    """The texts of a call's arguments; `function` is the name of the called function."""

    function: str

    def __new__(cls, function: str, arguments: Iterable[str]) -> CallTexts:
        found = super().__new__(cls, arguments)
        found.function = function
        return found


@dataclass(frozen=True, slots=True)
class DriverCode:
    """How generated C calls an accelerator's driver.

    includes: text at the beginning of the model's C file.
    replace_call_extern: returns the text of a call, given the texts of its arguments (CallTexts);
        None selects NAME(arguments).
    sources: (name, contents) of the driver's header and, until the hardware exists, of a stub."""

    includes: str = ""
    replace_call_extern: Callable[[Sequence[str]], str] | None = None
    sources: tuple[tuple[str, str], ...] = ()


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


@dataclass(frozen=True, slots=True)
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
        yield f"{pad}{text.strip().removesuffix(';')};"

    def _argument(self, argument: Expr | Address, scope: Scope) -> str:
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
