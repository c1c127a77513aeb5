"""Text of a program: memories, buffers, views, then the commands of each entry.

    program lenet5
    memory sram 2020 writable
    memory flash 61706
    buffer input: io sram 1236..2020
    buffer pool2/scratch: scratch sram 0..608
    buffer conv1/weights: constant flash 0..150
    view conv1: in conv1 pitch 168 ring 4
    inputs input
    outputs scores
    run {
      for conv1 in 0..28 step 2 {
        call conv1(input, conv1/weights, conv1/bias) rows r..r + 2
      }
      call dense1(pool2, dense1/weights, dense1/bias) scratch dense1/scratch
    }

A buffer occupies the bytes `first..end` of its memory.  For constants of the graph, nothing else is
printed; other buffers with data have `type T` and `data @digest`, and `stream` if the data are
commands of an accelerator.

A view has the name of its tensor; a second view of the same tensor is `conv1:2`.  A view that fills
a buffer of the same name is not declared.  Row r of a view is at `r % ring * pitch`, or at `table
(..)[r]`; both are omitted if the rows are contiguous.

A call names its output and its inputs.  Operator, types and kernel follow from the part that
computes the output: its preferred kernel, or the kernel after `by`.  Without `rows a..b`, the call
computes all rows.  A body in braces invokes functions of an accelerator's driver, `invoke f on
npu(..)`, with numbers, addresses, `&buffer + offset`, and memories, `all of sram`; fields of a
record are named, `rows=r + 1`.  The other commands:

    copy a -> b rows 0..9 on dma as "token"      pull x rows r..r + 1      wait dma "token"
    fill s with 128 (every byte)                 load c -> s (a constant)
    advance window counter n by 1 (a queue)

`call conv1(..) of conv2 band 0` calls a part of the first graph that computes conv2 in bands of
columns.  A view of some columns of its tensor states the first one, `column band * 8`.

`submit f on npu(..) {` begins calls whose bodies f receives as one stream.

`waits { invoke f on npu() }`: calls on `npu` may run as late as when `run` invokes f.

A view `rotated by n from k` is a ring whose row r is in slot (k + counter n + r) % ring.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

from penstock.errors import InternalError
from penstock.ir.graph import Value
from penstock.ir.op import Kernel
from penstock.ir.tensor import row_count
from penstock.ir.text.attributes import ConstantTable, data_lines
from penstock.ir.text.printer import Labels, print_type
from penstock.program.expr import Binary, Expr, TableEntry, Var
from penstock.program.lower import first_column
from penstock.program.program import (
    Address,
    Advance,
    Argument,
    Buffer,
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
    Rows,
    Submission,
    Transfer,
    View,
    WholeMemory,
)
from penstock.quoting import name_or_string, quoted
from penstock.scheduling.model.bands import Band, Bands
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts, update_name
from penstock.scheduling.model.schedule import Schedule

PREFERRED, FALLBACK, PREFETCHING = "preferred", "fallback", "prefetching"


@dataclass(frozen=True)
class ProgramContext:
    """The parts that a program runs.

    parts: those of the stage `assign`.
    bands: the cascades that run in bands of columns; their calls are not those of `parts`."""

    parts: Parts
    bands: tuple[Bands, ...] = ()

    @staticmethod
    def of(schedule: Schedule) -> ProgramContext:
        """The context of a schedule's program."""
        return ProgramContext(schedule.assigned_parts, schedule.bands)

    @cached_property
    def values(self) -> Mapping[str, Value]:
        """Values of the graph by name, constants included."""
        graph = self.parts.graph
        every = (*graph.constants(), *graph.variables(), *graph.results)
        return {value.name: value for value in every}

    @cached_property
    def labels(self) -> Labels:
        """The labels by which texts refer to the graph's values."""
        return Labels.of(self.parts.graph)

    @cached_property
    def _parts(self) -> Mapping[str, Part]:
        updates = {update_name(self.parts, part.output): part for part in self.parts.updates}
        return {part.name: part for part in self.parts.parts if part.nodes} | updates

    def part(self, name: str) -> Part | None:
        """The part that computes a tensor, or None."""
        return self._parts.get(name)

    @cached_property
    def _band_parts(self) -> Mapping[tuple[str, int], Mapping[tuple[str, Expr | None], Part]]:
        return {
            (bands.name, k): _parts_by_columns(band)
            for bands in self.bands
            for k, band in enumerate(bands.bands)
        }

    def parts_in_bands(self, view: View) -> Iterator[tuple[str, int, Part]]:
        """The parts that compute the columns of a tensor that a view shows, each with the name and
        index of its band."""
        for (name, k), parts in self._band_parts.items():
            part = parts.get((view.tensor, view.first_column))
            if part is not None:
                yield name, k, part

    def whole_view(self, name: str) -> View | None:
        """The view of a graph tensor that fills the buffer of the same name, or None."""
        value = self.values.get(name)
        return None if value is None else View.whole(name, value.type, name)


def _parts_by_columns(band: Band) -> Mapping[tuple[str, Expr | None], Part]:
    """The parts of a band by the tensor of the network of which they compute columns, and the first
    of these."""
    sections = {section.value: section for section in band.sections}
    return {
        (section.tensor, first_column(band, section)): part
        for part in band.parts.parts
        for section in [sections[part.name]]
    }


def kernels(part: Part) -> Iterable[tuple[str, Kernel]]:
    """The kernels of a part, each with its name in texts."""
    yield PREFERRED, part.kernel
    if part.fallback is not None:
        yield FALLBACK, part.fallback
    for k, kernel in enumerate(part.prefetching):
        yield f"{PREFETCHING}{k}", kernel


def kernel_role(part: Part, call: Call) -> str | None:
    """The name in texts of a call's kernel; None if the kernel is not one of the part's."""
    node = part.nodes[-1]
    mine = (node.op, node.site, node.origin, part.engine)
    if (call.op, call.site, call.origin, call.engine) != mine:
        return None
    return next((role for role, kernel in kernels(part) if kernel == call.kernel), None)


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


def print_program(program: Program, context: ProgramContext, *, with_data: bool = False) -> str:
    """The text of a program.  Large constants are printed as digests; `with_data` appends their
    contents."""
    printer = _Printer(context)
    text = "".join(f"{line}\n" for line in printer.lines(program))
    return text + data_lines(printer.table.found) if with_data else text


class _Printer:
    """Prints a program; collects constants in `table`, and views in the order of their use."""

    def __init__(self, context: ProgramContext) -> None:
        self.table = ConstantTable()
        self._context = context
        self._label = context.labels
        self._views: dict[str, list[View]] = {}

    def lines(self, program: Program) -> Iterator[str]:
        """The lines of the text."""
        ends = [
            f"{word} {', '.join(map(self._view, views))}"
            for word, views in (("inputs", program.inputs), ("outputs", program.outputs))
            if views
        ]
        entries = [
            line
            for word, commands in (
                ("reset", program.reset),
                ("run", program.run),
                ("waits", tuple(Invoke(driver, ()) for driver in program.waits)),
            )
            if commands
            for line in self._block(word, commands, "")
        ]
        yield f"program {name_or_string(program.name)}"
        for memory in program.memories:
            writable = " writable" if memory.writable else ""
            yield f"memory {name_or_string(memory.name)} {memory.size_bytes}{writable}"
        yield from map(self._buffer, program.buffers)
        for tensor, views in self._views.items():
            for k, view in enumerate(views):
                if k > 0 or view != self._context.whole_view(tensor):
                    yield self._declaration(k, view)
        yield from ends
        yield from entries

    def _buffer(self, buffer: Buffer) -> str:
        name, memory = self._label(buffer.name), name_or_string(buffer.memory)
        end = buffer.address + buffer.size_bytes
        text = f"buffer {name}: {buffer.kind.value} {memory} {buffer.address}..{end}"
        value = self._context.values.get(buffer.name)
        of_graph = value is not None and value.data is not None
        if value is None or not of_graph or (value.data, value.type) != (buffer.data, buffer.type):
            if buffer.type is not None:
                text += f" type {print_type(buffer.type, self.table)}"
            if buffer.data is not None:
                text += f" data {self.table.refer(buffer.data.raw)}"
            elif of_graph:
                text += " without data"
        return f"{text} stream" if buffer.is_stream else text

    def _view(self, view: View) -> str:
        """The name of a view at its use."""
        known = self._views.setdefault(view.tensor, [])
        if view not in known:
            known.append(view)
        return self._reference(view.tensor, known.index(view))

    def _reference(self, tensor: str, k: int) -> str:
        return self._label(tensor) + (f":{k + 1}" if k else "")

    def _declaration(self, k: int, view: View) -> str:
        value = self._context.values.get(view.tensor)
        text = f"view {self._reference(view.tensor, k)}:"
        if value is None or value.type != view.type:
            text += f" {print_type(view.type, self.table)}"
        text += f" in {self._label(view.buffer)}"
        if view.rows != Rows.whole(view.type):
            text += f" pitch {view.rows.pitch} ring {view.rows.ring}"
            if view.rows.rotation is not None:
                rotation = view.rows.rotation
                text += f" rotated by {self._label(rotation.counter)} from {rotation.first}"
            if view.rows.table is not None:
                text += f" table {self.table.numbers(view.rows.table, MAX_ENTRIES)}"
        if (view.lower, view.upper) != (0, row_count(view.type.shape)):
            text += f" rows {self._range(view.lower, view.upper)}"
        if view.offset != 0:
            text += f" offset {self._expr(view.offset)}"
        if view.first_column is not None:
            text += f" column {self._expr(view.first_column)}"
        return text

    def _block(self, head: str, commands: Sequence[Command], indent: str) -> Iterator[str]:
        """Yields a block: commands in braces."""
        yield f"{indent}{head} {{"
        for command in commands:
            yield from self._command(command, f"{indent}  ")
        yield f"{indent}}}"

    def _command(self, command: Command, indent: str) -> Iterator[str]:
        match command:
            case Loop():
                yield from self._block(self._loop_head(command), command.body, indent)
            case Submission():
                head = self._simple(command.submit).replace("invoke", "submit", 1)
                yield from self._block(head, tuple(map(_bodiless, command.run)), indent)
            case Call() if command.members:
                yield from self._block("region", (*command.members, *command.body), indent)
            case Call():
                head = self._call(command)
                if command.body:
                    yield from self._block(head, command.body, indent)
                else:
                    yield f"{indent}{head}"
            case Issue() | Transfer():
                raise InternalError(
                    "text-006",
                    f"a program has a {type(command).__name__} that is not part of a stream",
                    why="the stage `lower` encodes all of them",
                )
            case _:
                yield f"{indent}{self._simple(command)}"

    def _loop_head(self, loop: Loop) -> str:
        head = f"for {name_or_string(loop.variable)} in {self._range(loop.lower, loop.upper)}"
        if loop.step != 1:
            head += f" step {loop.step}"
        if loop.period is not None:
            head += f" within {loop.period}"
        if loop.counted is not None:
            counter, limit = map(name_or_string, (loop.counted.counter, loop.counted.limit))
            head += f" counted by {counter} up to {limit}"
        if loop.counters:
            begins = (f"{name_or_string(c.name)} from {c.begin}" for c in loop.counters)
            head += f" with {', '.join(begins)}"
        return head

    def _simple(self, command: Pull | Discard | Invoke | FillTensor | LoadTensor | Advance) -> str:
        match command:
            case Pull(target, lower, upper):
                return f"pull {self._view(target)} rows {self._range(lower, upper)}"
            case Discard(buffer):
                return f"discard {self._label(buffer)}"
            case FillTensor(target, byte):
                return f"fill {self._view(target)} with {byte}"
            case LoadTensor(target, source):
                return f"load {self._view(source)} -> {self._view(target)}"
            case Advance(window, counter, step):
                return f"advance {self._view(window)} counter {self._view(counter)} by {step}"
            case Invoke(driver, given):
                items = list(map(self._argument, command.arguments))
                if not isinstance(given, tuple):
                    names = (field.name for field in fields(given))
                    items = [f"{name}={item}" for name, item in zip(names, items, strict=True)]
                name, engine = name_or_string(driver.name), name_or_string(driver.engine)
                return f"invoke {name} on {engine}({', '.join(items)})"

    def _call(self, call: Call) -> str:
        found = self._part_and_role(call)
        if found is None:
            raise InternalError(
                "text-007",
                f'the call that computes "{call.output.tensor}" is not one of a part',
                why="the text of a program refers to parts for operators and kernels",
            )
        of, role = found
        text = f"call {self._view(call.output)}({', '.join(map(self._view, call.inputs))}){of}"
        if (call.lower, call.upper) != (0, row_count(call.output.type.shape)):
            text += f" rows {self._range(call.lower, call.upper)}"
        if role != PREFERRED:
            text += f" by {role}"
        if call.scratch is not None:
            text += f" scratch {self._label(call.scratch)}"
        if call.prefetched is not None:
            text += f" prefetched {self._view(call.prefetched)}"
        if call.prefetches:
            text += f" prefetches {', '.join(map(self._view, call.prefetches))}"
        return text

    def _part_and_role(self, call: Call) -> tuple[str, str] | None:
        """The clause that selects a call's part, if it is one of a band, and the name of its
        kernel.  None if the call is not one of a part."""
        part = self._context.part(call.output.tensor) if call.output.first_column is None else None
        if part is not None and (role := kernel_role(part, call)) is not None:
            return "", role
        for bands, k, inner in self._context.parts_in_bands(call.output):
            if (role := kernel_role(inner, call)) is not None:
                return f" of {self._label(bands)} band {k}", role
        return None

    def _argument(self, argument: Argument) -> str:
        if isinstance(argument, WholeMemory):
            return f"all of {name_or_string(argument.memory)}"
        if not isinstance(argument, Address):
            return self._expr(argument)
        offset = "" if argument.offset == 0 else f" + {self._expr(argument.offset)}"
        return f"&{self._label(argument.buffer)}{offset}"

    def _range(self, lower: Expr, upper: Expr) -> str:
        return f"{self._expr(lower)}..{self._expr(upper)}"

    def _expr(self, expr: Expr) -> str:
        return print_expr(expr, self.table)


def _bodiless(command: Command) -> Command:
    """The command without the bodies of calls."""
    if isinstance(command, Loop):
        return replace(command, body=tuple(map(_bodiless, command.body)))
    return replace(command, body=()) if isinstance(command, Call) else command
