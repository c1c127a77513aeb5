"""Formats the run entry as C: the body of the run function, and one function per outermost loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import TypeGuard

from penstock.codegen import c_text
from penstock.codegen.c_driver import (
    COUNTERS,
    DriverCode,
    Scope,
    expression,
    invocation_lines,
    loop_lines,
    with_counters,
)
from penstock.codegen.c_functions import (
    Doing,
    StaticFunction,
    advance_text,
    common,
    given,
    variables_around,
)
from penstock.codegen.names import Names
from penstock.errors import InternalError
from penstock.frozen import frozen
from penstock.program.expr import Var
from penstock.program.program import (
    Advance,
    Call,
    Command,
    Discard,
    FillTensor,
    Invoke,
    Issue,
    LoadTensor,
    Loop,
    Program,
    Pull,
    Submission,
    Transfer,
)
from penstock.program.steps import (
    accessed_views,
    as_step,
    counting_loops,
    free_variables,
    walk,
    walk_in_c,
)


@frozen
class RunBody:
    """The lines of the run function (`lines`), and the functions of its outermost loops."""

    loops: tuple[str, ...]
    lines: str


def body(
    program: Program,
    names: Names,
    functions: Mapping[Doing, StaticFunction],
    drivers: Mapping[str, DriverCode],
) -> RunBody:
    """The run entry with one statement per command; an outermost loop becomes a function of its
    own."""
    writer = _Writer(program, names, functions, drivers)
    loops: list[str] = []
    lines: list[str] = []
    for command in program.run:
        if isinstance(command, Loop):
            symbol = _loop_symbol(names.prefix, len(loops), command)
            loops += writer.row_functions(len(loops), command)
            loops.append(writer.loop_function(symbol, command))
            lines += writer.loop_call(symbol, command)
        else:
            lines += writer.command(command, writer.scope, 1)
    return RunBody(tuple(loops), "\n".join(lines))


def _loop_symbol(prefix: str, number: int, loop: Loop) -> str:
    tensors = [c.output.tensor for c in walk((loop,)) if isinstance(c, Call)]
    last = f"_{c_text.identifier(tensors[-1])}" if tensors else ""
    return f"{prefix}_loop_{number:02d}{last}"


_SharedKey = tuple[Loop, tuple[str | None, ...]]


@frozen
class _Writer:
    """Formats commands of a program as lines of C."""

    program: Program
    names: Names
    functions: Mapping[Doing, StaticFunction]
    drivers: Mapping[str, DriverCode]
    shared: dict[_SharedKey, str] = field(default_factory=dict[_SharedKey, str])
    """The functions of counted loops that stand in several places, by `_shared_key`."""

    @property
    def scope(self) -> Scope:
        taken = frozenset(p.name for p in self.names.parameters)
        return Scope(self.names.bounds, taken, {})

    def loop_function(self, symbol: str, loop: Loop) -> str:
        """The function of an outermost loop, which contains all inner loops."""
        return self.function(symbol, loop, (), self.command(loop, self.scope, 1))

    def function(self, symbol: str, loop: Loop, more: Iterable[str], lines: Iterable[str]) -> str:
        """The function of a loop: its parameters are those of the loop, and more."""
        fails = bool(self.failures(loop))
        taken = [*(p.declaration for p in given(self.program, self.names, loop)), *more]
        head = f"static {'int' if fails else 'void'} {symbol}("
        return "\n".join(
            (
                self.loop_comment(loop),
                c_text.wrapped(head, c_text.parted(taken), ") {"),
                *lines,
                *([f"    return {self.names.prefix.upper()}_OK;"] if fails else []),
                "}",
            )
        )

    def row_functions(self, number: int, root: Loop) -> Iterator[str]:
        for around in walk_in_c((root,)):
            if not isinstance(around, Loop) or not around.counters:
                continue
            found = Counter(_anywhere(c) for c in walk_in_c(around.body) if _is_counted(c))
            inner_first = sorted(found, key=lambda loop: sum(1 for _ in walk_in_c((loop,))))
            for loop in inner_first:
                key = _shared_key(loop, with_counters(around, self.scope))
                if found[loop] < 2 or key in self.shared:
                    continue
                if not free_variables((loop,)) - _counter_names(around):
                    symbol = f"{self.names.prefix}_rows_{number:02d}_{len(self.shared):02d}"
                    yield self.row_function(symbol, loop, around)
                    self.shared[key] = symbol

    def row_function(self, symbol: str, loop: Loop, around: Loop) -> str:
        """The function that computes the rows of a counted loop up to a limit, as far as they are
        missing; its loop is in `around`, which has the counters."""
        assert loop.counted is not None
        scope = with_counters(around, self.scope)
        named = {loop.counted.limit: "limit"}
        scope = replace(
            scope, variables={**scope.variables, **named}, taken=scope.taken | {"limit"}
        )
        more = (f"int32_t *{COUNTERS}", f"int32_t {scope.variables[loop.counted.limit]}")
        lines = loop_lines(replace(loop, upper=Var(loop.counted.limit)), scope, 1, self.command)
        return self.function(symbol, loop, more, lines)

    def loop_comment(self, loop: Loop) -> str:
        inside = dict.fromkeys(as_step(c) for c in walk((loop,)) if isinstance(c, Call))
        if not inside:
            return "/* moves rows */"
        shown = [
            f" *   {self.names.numbers[s]:>3}  {c_text.short(s.output.tensor)}" for s in inside
        ]
        return "\n".join(("/* steps, row by row:", *shown)) + " */"

    def loop_call(self, symbol: str, loop: Loop) -> Iterator[str]:
        handed = [p.name for p in given(self.program, self.names, loop)]
        yield from self.line(symbol, handed, 1, self.failures(loop))

    def failures(self, command: Command) -> frozenset[str]:
        """The statuses with which a command may end the run, other than success."""
        inside = (common(c) for c in walk_in_c((command,)) if isinstance(c, Doing))
        return frozenset(self.functions[c].failure for c in inside) - {""}

    def command(self, command: Command, scope: Scope, depth: int) -> Iterator[str]:
        match command:
            case Loop() if _is_counted(command) and _shared_key(command, scope) in self.shared:
                symbol = self.shared[_shared_key(command, scope)]
                handed = [p.name for p in given(self.program, self.names, command)]
                handed += [COUNTERS, expression(command.upper, scope)]
                yield from self.line(symbol, handed, depth, self.failures(command))
            case Loop():
                yield from loop_lines(command, scope, depth, self.command)
            case Invoke(driver, ()) if driver in self.program.waits:
                yield f"{c_text.INDENT * depth}{driver.name}();"
            case Invoke():
                yield from invocation_lines(
                    self.program, self.names, self.drivers, command, scope, depth
                )
            case Issue() | Transfer() | FillTensor() | LoadTensor():
                raise InternalError("codegen-006", f"{command} has no place in a run")
            case Discard():
                pass
            case Advance():
                statement = advance_text(self.program, self.names, command)
                yield f"{c_text.INDENT * depth}{statement}"
            case Submission() | Call() | Pull():
                yield from self.call(command, scope, depth)

    def call(self, command: Doing, scope: Scope, depth: int) -> Iterator[str]:
        """The lines that call the function of a command."""
        symbol = self.functions[common(command)].symbol
        yield from self.line(symbol, self.handed(command, scope), depth, self.failures(command))
        if isinstance(command, Submission):
            for loop in counting_loops(command):
                yield from loop_lines(loop, scope, depth, self.command)

    def handed(self, command: Doing, scope: Scope) -> list[str]:
        """The arguments with which a command calls its function."""
        shared = common(command)
        function = self.functions[shared]
        found = [p.name for p in function.given]
        if isinstance(command, Submission):
            return found + [expression(Var(v), scope) for v in variables_around(command)]
        if function.by_rows:
            found += [expression(bound, scope) for bound in (command.lower, command.upper)]
        pairs = zip(accessed_views(command), accessed_views(shared), strict=True)
        found += [
            expression(view.offset, scope)
            for view, kept in pairs
            if not isinstance(kept.offset, int)
        ]
        return found

    def line(
        self, symbol: str, handed: Iterable[str], depth: int, failures: Collection[str]
    ) -> Iterator[str]:
        """The lines of a function call, with a check that ends the run if the function returns one
        of the statuses `failures`."""
        pad, items = c_text.INDENT * depth, c_text.parted(list(handed))
        inner = pad + c_text.INDENT
        match tuple(failures):
            case ():
                yield c_text.wrapped(f"{pad}{symbol}(", items, ");")
            case (failed,):
                yield c_text.wrapped(f"{pad}if ({symbol}(", items, ") != 0) {")
                yield f"{inner}return {failed};"
                yield f"{pad}}}"
            case _:
                yield f"{pad}{{"
                yield c_text.wrapped(f"{inner}const int status = {symbol}(", items, ");")
                yield f"{inner}if (status != 0) {{"
                yield f"{inner}{c_text.INDENT}return status;"
                yield f"{inner}}}"
                yield f"{pad}}}"


def _is_counted(command: Command) -> TypeGuard[Loop]:
    return isinstance(command, Loop) and command.counted is not None


def _anywhere(loop: Loop) -> Loop:
    """A counted loop without its limit: equal in all places."""
    return replace(loop, upper=0)


def _shared_key(loop: Loop, scope: Scope) -> _SharedKey:
    """What a function for a counted loop depends on: the loop and its counters, which equal loops
    around it may number differently."""
    anywhere = _anywhere(loop)
    return anywhere, tuple(map(scope.variables.get, sorted(free_variables((anywhere,)))))


def _counter_names(loop: Loop) -> set[str]:
    return {counter.name for counter in loop.counters}
