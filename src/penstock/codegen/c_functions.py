"""The functions of generated C: the body of the run function, and the static functions that it
calls: one per step, streamed input and outermost loop."""

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
    body_lines,
    expression,
    invocation_lines,
    loop_lines,
    submission_lines,
    with_counters,
)
from penstock.codegen.names import Names, Parameter
from penstock.errors import InternalError
from penstock.frozen import frozen
from penstock.ir.op import Kernel
from penstock.ir.tensor import TensorType, row_count
from penstock.program.expr import Var
from penstock.program.program import (
    Advance,
    Call,
    Command,
    Discard,
    FillTensor,
    Invoke,
    Issue,
    Kind,
    LoadTensor,
    Loop,
    Program,
    Pull,
    Submission,
    Transfer,
    View,
)
from penstock.program.steps import (
    accessed_views,
    as_step,
    as_stream,
    counting_loops,
    free_variables,
    row_table,
    used_buffers,
    walk,
    walk_in_c,
)

Doing = Call | Pull | Submission  # Commands that a function executes.


def all_rows(command: Doing) -> bool:
    """Whether a command processes all rows of its tensor in every iteration."""
    if isinstance(command, Submission):
        return True
    view = command.output if isinstance(command, Call) else command.target
    return (command.lower, command.upper) == (0, row_count(view.type.shape))


@frozen
class StaticFunction:
    """A static C function.

    Its parameters are, in this order: `given`; an interval of rows (if `by_rows`); the offsets of
    views whose offset depends on loop variables, or the variables around a submission.  `failure`:
    the status that it returns if it fails; "" if it cannot fail and returns nothing."""

    symbol: str
    given: tuple[Parameter, ...]
    by_rows: bool
    text: str
    failure: str = ""


def common(command: Doing) -> Doing:
    """The command without its rows and loop variables: equal for commands of one function."""
    match command:
        case Call():
            return as_step(command)
        case Pull():
            return as_stream(command)
        case Submission():
            return command


def variables_around(submission: Submission) -> tuple[str, ...]:
    """The variables on which it depends what a submission submits."""
    return tuple(sorted(free_variables((replace(submission, run=()),))))


def functions(
    program: Program, names: Names, drivers: Mapping[str, DriverCode]
) -> dict[Doing, StaticFunction]:
    """All functions of the run entry in order, by the `common` part of their commands."""
    by_rows: dict[Doing, bool] = {}
    for command in walk_in_c(program.run):
        if isinstance(command, Doing):
            shared = common(command)
            by_rows[shared] = by_rows.get(shared, False) or not all_rows(command)
    return {
        shared: _function(_Frame(program, names, drivers, rows), shared)
        for shared, rows in by_rows.items()
    }


def given(program: Program, names: Names, command: Command) -> tuple[Parameter, ...]:
    """Parameters for the memories that a command accesses and for the inputs that it pulls."""
    buffers = map(program.buffer, used_buffers(command))
    touched = {b.memory for b in buffers if b.kind is not Kind.CONSTANT}
    pulled = {c.target.tensor for c in walk((command,)) if isinstance(c, Pull)}
    memories = (p for memory, p in names.memories.items() if memory in touched)
    callbacks = (p for tensor, pair in names.pulls.items() if tensor in pulled for p in pair)
    return (*memories, *callbacks)


def view_text(program: Program, names: Names, view: View) -> str:
    """Initialiser of the penstock_source or penstock_sink of a view."""
    rows = view.rows
    base, table = _base(program, names, view), row_table(rows)
    if table is None:
        return f"{{{base}, NULL, {rows.pitch}, {rows.ring}}}"
    first = names.rows[view.buffer, table]
    if rows.rotation is not None:
        first += f" + {rows.rotation.first}" if rows.rotation.first else ""
        first += f" + penstock_first_slot({_address(program, names, rows.rotation.counter)})"
    return f"{{{base}, {first}, {rows.pitch}, 0}}"


def advance_text(program: Program, names: Names, advance: Advance) -> str:
    """The statement that rotates the ring of a queue."""
    counter = _address(program, names, advance.counter.buffer)
    rows = row_count(advance.window.type.shape)
    return f"penstock_advance({counter}, {advance.step}, {rows});"


def _function(frame: _Frame, shared: Doing) -> StaticFunction:
    names, failure = frame.names, ""
    match shared:
        case Call():
            symbol = names.steps[shared]
            text = _offloaded(frame, shared) if shared.body else _step(frame, shared)
            failure = "ACCELERATOR_FAILED" if frame.fails(shared) else ""
        case Pull():
            symbol, text, failure = names.streams[shared], _stream(frame, shared), "PULL_FAILED"
        case Submission():
            symbol, text = names.submissions[shared.buffer], _submission(frame, shared)
            failure = "ACCELERATOR_FAILED" if frame.fails(shared) else ""
    failure = failure and f"{names.prefix.upper()}_{failure}"
    return StaticFunction(symbol, given(frame.program, names, shared), frame.by_rows, text, failure)


@frozen
class _Frame:
    """Context for formatting the functions of a program."""

    program: Program
    names: Names
    drivers: Mapping[str, DriverCode]
    by_rows: bool

    def head(self, result: str, symbol: str, command: Doing) -> str:
        taken = [p.declaration for p in given(self.program, self.names, command)]
        taken += ["int32_t lower", "int32_t upper"] if self.by_rows else []
        offsets = (view.offset for view in accessed_views(command))
        taken += [f"int32_t {offset.name}" for offset in offsets if isinstance(offset, Var)]
        if isinstance(command, Submission):
            taken += [f"int32_t {name}" for name in variables_around(command)]
        return c_text.wrapped(f"{result} {symbol}(", c_text.parted(taken), ") {")

    def fails(self, command: Call | Submission) -> bool:
        """Whether the driver's functions that a command invokes may fail."""
        match command:
            case Call(engine=engine):
                invoked = command.body
            case Submission(submit=submit):
                engine, invoked = submit.driver.engine, (submit,)
        code = self.drivers.get(engine)
        return code is not None and any(map(code.fails, walk(invoked)))

    def view(self, view: View) -> str:
        return view_text(self.program, self.names, view)

    def rows(self, type: TensorType) -> tuple[str, str]:
        return ("lower", "upper") if self.by_rows else ("0", str(row_count(type.shape)))


def _scratch(frame: _Frame, call: Call) -> str:
    """The argument for a kernel's working memory; empty if it takes none."""
    if call.kernel.stack_bytes:
        return ", (int8_t *)scratch"
    return f", {_address(frame.program, frame.names, call.scratch)}" if call.scratch else ""


def _step(frame: _Frame, call: Call) -> str:
    names, kernel = frame.names, call.kernel
    _check_rows(frame, call)
    number = names.numbers[call]
    params = [f"step_{number:02d}_params{k or ''}" for k, _ in enumerate(kernel.sequence)]
    symbols = _tables(names, call, number)
    members = {*(member for member, _ in kernel.constants), *kernel.folded}
    sources = ", ".join(frame.view(v) for k, v in enumerate(call.inputs) if k not in members)
    lower, upper = frame.rows(call.output.type)
    passed = f"x, &y, {lower}, {upper}"
    return "\n".join(
        (
            _step_comment(call, number),
            *_parameters(kernel, params[0], _constants(frame, call), symbols),
            *(
                line
                for later, own in zip(kernel.sequence[1:], params[1:], strict=True)
                for line in _parameters(later, own, {}, symbols)
            ),
            frame.head("PENSTOCK_STEP void", names.steps[call], call),
            f"    const penstock_source x[] = {{{sources}}};",
            f"    const penstock_sink y = {frame.view(call.output)};",
            *(
                [f"    int32_t scratch[{-(-kernel.stack_bytes // 4)}];"]
                if kernel.stack_bytes
                else []
            ),
            f"    {kernel.name}(&{params[0]}, {passed}{_scratch(frame, call)});",
            *(
                f"    {later.name}(&{own}, {passed});"
                for later, own in zip(kernel.sequence[1:], params[1:], strict=True)
            ),
            f"    PENSTOCK_TRACE({number}, &y, {lower}, {upper});",
            "}",
        )
    )


def _parameters(
    kernel: Kernel, symbol: str, constants: Mapping[str, str], tables: Mapping[str, str]
) -> tuple[str, ...]:
    """The parameter structure of a kernel; `constants` and `tables` are symbols by member."""
    own = {name: tables[name] for name, _ in kernel.tables}
    lines = _initialisers(kernel, {**constants, **own})
    return (f"static const struct {kernel.name} {symbol} = {{", *lines, "};")


def _check_rows(frame: _Frame, call: Call) -> None:
    if frame.by_rows and not call.kernel.by_rows:
        raise InternalError(
            "codegen-002",
            f'kernel {call.kernel.name} computes whole tensors, not rows of "{call.output.tensor}"',
        )


def _offloaded(frame: _Frame, call: Call) -> str:
    names = frame.names
    _check_rows(frame, call)
    number = names.numbers[call]
    rows = frame.rows(call.output.type)
    fails = frame.fails(call)
    result = "int" if fails else "void"
    return "\n".join(
        (
            _step_comment(call, number),
            frame.head(f"PENSTOCK_STEP {result}", names.steps[call], call),
            *body_lines(frame.program, names, frame.drivers, call, rows if frame.by_rows else None),
            f"    const penstock_sink y = {frame.view(call.output)};",
            "    (void)y;",
            f"    PENSTOCK_TRACE({number}, &y, {', '.join(rows)});",
            *([f"    return {names.prefix.upper()}_OK;"] if fails else []),
            "}",
        )
    )


def _submission(frame: _Frame, submission: Submission) -> str:
    names = frame.names
    fails = frame.fails(submission)
    success = f"    return {names.prefix.upper()}_OK;"
    inside = dict.fromkeys(as_step(c) for c in walk(submission.run) if isinstance(c, Call))
    shown = [line for s in inside for line in _described_step(s, names.numbers[s])]
    symbol = names.submissions[submission.buffer]
    around = variables_around(submission)
    return "\n".join(
        (
            f"/* {submission.submit.driver.engine} executes as one stream:",
            *(f" * {line}" for line in shown[:-1]),
            f" * {shown[-1]} */",
            frame.head(f"PENSTOCK_STEP {'int' if fails else 'void'}", symbol, submission),
            *submission_lines(frame.program, names, frame.drivers, submission, around),
            *([success] if fails else []),
            "}",
        )
    )


def _step_comment(call: Call, number: int) -> str:
    title, *lines = _described_step(call, number)
    return "\n".join([f"/* {title}", *(f" * {line}" for line in lines)]) + " */"


def _described_step(call: Call, number: int) -> tuple[str, ...]:
    # Constants whose values are in the kernel's tables are labelled "folded".
    origin = c_text.comment(call.origin.split(": ", 1)[-1])
    members = dict.fromkeys(call.kernel.folded, "folded") | dict(call.kernel.constants)
    shown = [
        f"  {members.get(k, 'x'):<8}{c_text.type_comment(view.type)}  {c_text.short(view.tensor)}"
        for k, view in enumerate(call.inputs)
    ]
    out = f"  {'y':<8}{c_text.type_comment(call.output.type)}  {c_text.short(call.output.tensor)}"
    title = f"step {number}  {c_text.short(origin, 88)}".rstrip()
    return (title, *shown, out)


def _constants(frame: _Frame, call: Call) -> dict[str, str]:
    """The arrays of constants that a kernel reads as the model stores them, by member."""
    return {member: _array(frame, call.inputs[k]) for k, member in call.kernel.constants}


def _array(frame: _Frame, view: View) -> str:
    """The array of a constant, which the view shows as a whole."""
    if view.offset != 0 or not view.contiguous:
        raise InternalError(
            "codegen-003",
            f'a kernel cannot read constant "{view.tensor}" through a view that has gaps, or that '
            "begins within it",
        )
    return frame.names.buffers[view.buffer]


def _initialisers(kernel: Kernel, pointers: Mapping[str, str]) -> tuple[str, ...]:
    items = [f".{name} = {c_text.integer(value)}," for name, value in kernel.params]
    items += [f".{member} = {pointer}," for member, pointer in pointers.items()]
    lines: list[str] = []
    for item in items:
        if lines and len(lines[-1]) + len(item) < 96:
            lines[-1] += f" {item}"
        else:
            lines.append(c_text.INDENT + item)
    return tuple(lines)


def _stream(frame: _Frame, pull: Pull) -> str:
    names = frame.names
    callback, context = (p.name for p in names.pulls[pull.target.tensor])
    lower, upper = frame.rows(pull.target.type)
    return "\n".join(
        (
            f"/* takes rows of {_described(pull.target)} */",
            frame.head("static int", names.streams[pull], pull),
            f"    const penstock_sink y = {frame.view(pull.target)};",
            f"    for (int32_t row = {lower}; row < {upper}; row++) {{",
            f"        if ({callback}({context}, row, penstock_write_row(&y, row)) != 0) {{",
            f"            return {names.prefix.upper()}_PULL_FAILED;",
            "        }",
            "    }",
            f"    return {names.prefix.upper()}_OK;",
            "}",
        )
    )


def _described(view: View) -> str:
    return f"{c_text.short(view.tensor)}, {c_text.type_comment(view.type)}"


def _tables(names: Names, call: Call, number: int) -> dict[str, str]:
    return {name: names.kernel_tables[number, name] for name, _ in call.kernel.every_table}


def _base(program: Program, names: Names, view: View) -> str:
    base = _address(program, names, view.buffer)
    if program.buffer(view.buffer).kind is Kind.CONSTANT:
        base = base if c_text.C_TYPES[view.type.dtype] == "int8_t" else f"(const int8_t *){base}"
    match view.offset:
        case 0:
            return base
        case Var(name):
            return f"{base} + {name}"
        case offset:
            return f"{base} + {offset}"


def _address(program: Program, names: Names, buffer: str) -> str:
    found = program.buffer(buffer)
    symbol = names.buffers[buffer]
    if found.kind is Kind.CONSTANT:
        return symbol
    return f"{names.memories[found.memory].name} + {symbol}"


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
