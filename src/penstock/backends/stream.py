"""stream: an accelerator's calls as bytes.  Its driver is handed a stream of commands, and where
the buffers lie that these use; it does them one after the other.

No control depends on data, so the body of a call is unrolled for every interval of rows that the
program asks it for; each becomes a stream, a constant of the program.  What is left of the body is
one invocation: submit(stream, bytes, bases...), in C submit(stream, bytes, bases), an array of
pointers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from penstock.backends.accelerator import Accelerator, Codegen
from penstock.errors import BackendError
from penstock.ir.graph import free_name
from penstock.ir.op import row_axis, row_count
from penstock.ir.tensor import Data, DType, TensorType
from penstock.program.expr import Expr, TableEntry, evaluate
from penstock.program.program import (
    END,
    FIRST,
    Address,
    Buffer,
    Call,
    Command,
    Driver,
    Invoke,
    Kind,
    Loop,
    Program,
)
from penstock.program.steps import as_step

ALIGNMENT_BYTES = 16
"""Each stream begins at a multiple of it."""
Variables = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Place:
    """An address in a stream: a number of bytes behind one of the bases of the submission, and the
    name of the memory in which that lies."""

    base: int
    offset_bytes: int
    memory: str = ""


@dataclass(frozen=True, slots=True)
class StreamCommand:
    """An invocation, as an encoder is handed it."""

    name: str
    arguments: tuple[int | Place, ...]

    @property
    def numbers(self) -> tuple[int, ...]:
        """The arguments that are numbers."""
        return tuple(n for n in self.arguments if isinstance(n, int))

    @property
    def places(self) -> tuple[Place, ...]:
        """The arguments that are addresses."""
        return tuple(p for p in self.arguments if isinstance(p, Place))


@dataclass(frozen=True, slots=True)
class RowCall:
    """A call that computes rows [first, end) of its output: numbers that say what, places of its
    tables and of its working memory, and, by number of a tensor, the place of each row."""

    numbers: tuple[int, ...]
    places: tuple[Place, ...]
    rows: Mapping[int, Mapping[int, Place]]
    first: int
    end: int

    @staticmethod
    def of(commands: Sequence[StreamCommand]) -> RowCall:
        """What commands say whose names end in begin (numbers), places (if there are any), row
        (tensor, row, place) and run (first, end)."""
        by_name: dict[str, list[StreamCommand]] = {}
        for command in commands:
            by_name.setdefault(command.name.rpartition("_")[2], []).append(command)
        (begin,), (run,) = by_name["begin"], by_name["run"]
        rows: dict[int, dict[int, Place]] = {}
        for command in by_name["row"]:
            tensor, row = command.numbers
            (rows.setdefault(tensor, {})[row],) = command.places
        places = (place for command in by_name.get("places", ()) for place in command.places)
        return RowCall(begin.numbers, tuple(places), rows, *run.numbers)


Encoder = Callable[[Sequence[StreamCommand]], bytes]
"""Makes the bytes of the commands of one call."""


def with_streams(program: Program, accelerator: Accelerator) -> Program:
    """The program in which the accelerator's calls are submissions of streams; as it is where the
    accelerator has no encoder.

    Raises BackendError where the encoder fails."""
    encoder, submit = accelerator.codegen.encoder, accelerator.codegen.submit
    if encoder is None or submit is None:
        return program
    rows = _rows_by_step(program, accelerator.name)
    memory = next(m for m in program.memories if not m.writable)
    address = memory.size_bytes
    bodies: dict[Call, tuple[Command, ...]] = {}
    buffers: list[Buffer] = []
    taken = {buffer.name for buffer in program.buffers}
    for number, (step, intervals) in enumerate(rows.items()):
        bases = _Bases.of(step, program)
        encoded = _Streams.of(step, sorted(intervals), bases, encoder, accelerator.name)
        name = free_name(f"{step.output.tensor}: commands {number}", taken)
        type = TensorType((len(encoded.raw),), DType.UINT8)
        data = Data(encoded.raw)
        size = type.size_bytes
        buffers.append(
            Buffer(name, Kind.CONSTANT, memory.name, address, size, data, type, is_stream=True)
        )
        address += type.size_bytes
        bodies[step] = (encoded.submission(submit, name),)
    grown = replace(memory, size_bytes=address)
    return replace(
        program,
        memories=tuple(grown if m is memory else m for m in program.memories),
        buffers=(*program.buffers, *buffers),
        run=tuple(_replaced(command, bodies) for command in program.run),
    )


@dataclass(frozen=True, slots=True)
class _Bases:
    """Buffers that a submission is handed, of those that it uses: every constant, and of those in
    a writable memory the first one."""

    buffers: Mapping[str, Buffer]
    names: tuple[str, ...]
    writable: frozenset[str]

    @staticmethod
    def of(step: Call, program: Program) -> _Bases:
        buffers = {buffer.name: buffer for buffer in program.buffers}
        writable = frozenset(memory.name for memory in program.memories if memory.writable)
        used = [buffers[name] for name in dict.fromkeys(a.buffer for a in _addresses(step.body))]
        first: dict[str, Buffer] = {}
        for buffer in used:
            key = buffer.memory if buffer.memory in writable else buffer.name
            first[key] = min(first.get(key, buffer), buffer, key=lambda b: b.address)
        names = tuple(buffer.name for buffer in first.values())
        return _Bases(buffers, names, writable)

    def place(self, buffer: str, offset_bytes: int) -> Place:
        """Where a byte of a buffer is, behind one of the bases."""
        found, at = self.buffers[buffer], offset_bytes
        if found.memory not in self.writable:
            return Place(self.names.index(buffer), at, found.memory)
        bases = [self.buffers[name] for name in self.names]
        k = next(k for k, base in enumerate(bases) if base.memory == found.memory)
        return Place(k, at + found.address - bases[k].address, found.memory)


@dataclass(frozen=True, slots=True)
class _Streams:
    """The streams of a step, one behind the other; where each begins and how long it is, by the
    first row that it computes."""

    raw: bytes
    begin: tuple[int, ...]
    size: tuple[int, ...]
    bases: tuple[str, ...]

    @staticmethod
    def of(
        step: Call,
        intervals: Sequence[tuple[int, int]],
        bases: _Bases,
        encoder: Encoder,
        engine: str,
    ) -> _Streams:
        count = row_count(step.output.type.shape)
        begin, size, raw = [0] * count, [0] * count, b""
        for first, end in intervals:
            flat = _flat(step.body, {FIRST.name: first, END.name: end})
            commands = [_command(invoke, variables, bases) for invoke, variables in flat]
            found = _encoded(encoder, commands, f'{engine}, "{step.output.tensor}"')
            begin[first], size[first] = len(raw), len(found)
            raw += found + bytes(-len(found) % ALIGNMENT_BYTES)
        return _Streams(raw, tuple(begin), tuple(size), bases.names)

    def submission(self, submit: Driver, buffer: str) -> Invoke:
        """The invocation that is left: which stream it is follows from the first row."""
        used = [k for k, size in enumerate(self.size) if size]
        one = used[0] if len(used) == 1 else None
        begin: Expr = TableEntry(self.begin, FIRST) if one is None else self.begin[one]
        size: Expr = TableEntry(self.size, FIRST) if one is None else self.size[one]
        return Invoke(submit, (Address(buffer, begin), size, *map(Address, self.bases)))


def call_writer(codegen: Codegen) -> Callable[[Sequence[str]], str] | None:
    """What writes a call in C from its arguments' texts, None: NAME(arguments); of a submission,
    unless the author says otherwise, bases are one array."""
    submit = codegen.submit
    if submit is None or codegen.replace_call_extern is not None:
        return codegen.replace_call_extern

    def text(arguments: Sequence[str]) -> str:
        stream, size, *bases = arguments
        pointers = ", ".join(f"(void *)({base})" for base in bases)
        return f"{submit.name}({stream}, {size}, (void *[]){{{pointers}}})"

    return text


def _encoded(encoder: Encoder, commands: Sequence[StreamCommand], where: str) -> bytes:
    try:
        found = cast(object, encoder(commands))
    except Exception as error:
        raise BackendError(
            "backend-083",
            "the encoder fails",
            where=where,
            why=f"{type(error).__name__}: {error}",
            help="an encoder takes the commands of a call, StreamCommands, and gives bytes",
        ) from error
    if not isinstance(found, bytes) or not found:
        raise BackendError(
            "backend-084",
            f"the encoder gives {found!r:.60}, must give bytes",
            where=where,
            help="return the commands of the call as bytes, at least one",
        )
    return found


def _command(invoke: Invoke, variables: Variables, bases: _Bases) -> StreamCommand:
    arguments = tuple(
        bases.place(a.buffer, evaluate(a.offset, variables))
        if isinstance(a, Address)
        else evaluate(a, variables)
        for a in invoke.arguments
    )
    return StreamCommand(invoke.driver.name, arguments)


def _flat(commands: Sequence[Command], variables: Variables) -> Iterator[tuple[Invoke, Variables]]:
    """Every invocation in order, with the values of the variables around it."""
    for command in commands:
        if isinstance(command, Loop):
            for value in _values(command, variables):
                yield from _flat(command.body, {**variables, command.variable: value})
        elif isinstance(command, Invoke):
            yield command, variables


def _values(loop: Loop, variables: Variables) -> range:
    """The values that a loop's variable takes."""
    return range(evaluate(loop.lower, variables), evaluate(loop.upper, variables), loop.step)


def _addresses(commands: Sequence[Command]) -> Iterator[Address]:
    for command in commands:
        if isinstance(command, Loop):
            yield from _addresses(command.body)
        elif isinstance(command, Invoke):
            yield from (a for a in command.arguments if isinstance(a, Address))


def _rows_by_step(program: Program, engine: str) -> dict[Call, set[tuple[int, int]]]:
    """By step of the accelerator, the intervals of rows that the program calls it for."""
    found: dict[Call, set[tuple[int, int]]] = {}
    for call, variables in _calls(program.run, {}):
        if call.engine == engine and call.body:
            rows = _rows(call, variables)
            if rows[0] < rows[1]:
                found.setdefault(as_step(call), set()).add(rows)
    return found


def _rows(call: Call, variables: Variables) -> tuple[int, int]:
    """The rows of its output that a call computes."""
    shape = call.output.type.shape
    axis = row_axis(len(shape))
    if (call.out.lower, call.out.upper) == ((0,) * len(shape), shape):
        return 0, row_count(shape)
    lower, upper = call.out.lower[axis], call.out.upper[axis]
    return evaluate(lower, variables), evaluate(upper, variables)


def _calls(commands: Sequence[Command], variables: Variables) -> Iterator[tuple[Call, Variables]]:
    """Every call in order, with the values of the variables around it."""
    for command in commands:
        if isinstance(command, Loop):
            for value in _values(command, variables):
                yield from _calls(command.body, {**variables, command.variable: value})
        elif isinstance(command, Call):
            yield command, variables


def _replaced(command: Command, bodies: Mapping[Call, tuple[Command, ...]]) -> Command:
    if isinstance(command, Loop):
        return replace(command, body=tuple(_replaced(inner, bodies) for inner in command.body))
    if isinstance(command, Call) and as_step(command) in bodies:
        return replace(command, body=bodies[as_step(command)])
    return command
