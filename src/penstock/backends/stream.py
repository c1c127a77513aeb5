"""Encoding of an accelerator's calls as command streams, which become constants of the program.

The accelerator's driver receives a stream of commands and the base addresses of the buffers that
the commands use, and executes the commands in order.

Control flow does not depend on data, so the compiler can unroll it.  Calls that differ only in the
rows that they compute, and in offsets of tensors that depend on loop variables, form a step
(`program/steps.py`).  For each combination of rows and offsets that occurs in a step, the compiler
encodes the unrolled commands of the call as one stream.  For example, two calls that compute rows
[0, 2) and [2, 4) in each of two bands of columns have four streams.

A single command replaces the body of each call: submit(stream, size in bytes, base addresses...).
The rows and offsets of the call select the stream.  The generated C passes the base addresses as
an array.

If the backend states the numbers of memory regions (`RegionNumbers`), submit receives the address
and the size of each region instead.  All constants of the accelerator form one region.

If the backend states how calls are joined (`JoinedStreams`), one stream contains all consecutive
calls of the accelerator, also those of several iterations of loops: a `Submission`.  For example,
the calls of a network that the accelerator computes alone are one stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import gcd
from typing import Generic, NamedTuple, TypeVar, cast

from penstock.backends.accelerator import Accelerator, Codegen, JoinedStreams, RegionNumbers
from penstock.errors import BackendError, InternalError, PenstockError
from penstock.frozen import frozen
from penstock.ir.graph import free_name
from penstock.ir.tensor import Data, DType, TensorType, row_count
from penstock.memory.problem import round_up
from penstock.program.expr import Expr, TableEntry, Var, binary, evaluate
from penstock.program.program import (
    END,
    FIRST,
    Address,
    Argument,
    Buffer,
    Call,
    Command,
    Discard,
    Driver,
    Invoke,
    Issue,
    Kind,
    Loop,
    Memory,
    Program,
    Submission,
    TensorRows,
    Transfer,
    WholeMemory,
)
from penstock.program.steps import (
    Variables,
    accessed_views,
    addressed_buffers,
    as_step,
    computed_rows,
    executions,
    free_variables,
    iterations,
    steps,
    unrolled_calls,
    used_buffers,
    walk,
)

# The commands that an encoder converts to bytes, with integers instead of expressions.
#
# Addresses in a stream are relative to base addresses, which the driver receives at submission.  A
# `Place` states the index of a base address and an offset in bytes.


Record = TypeVar("Record")


@frozen
class Place:
    """An address in a stream: `offset_bytes` bytes after a base address of the submission.

    base: the index of the base address.
    memory: the name of the memory region that contains the address; "" if not stated."""

    base: int
    offset_bytes: int
    memory: str = ""


class StreamRows(NamedTuple):
    """The addresses of consecutive rows of a tensor.

    base: the index of the base address, the same for all rows.
    lower: the index of the first row in the tensor.
    offsets: the offset of each row from the base address, in bytes.
    memory: the name of the memory region that contains the rows; "" if not stated."""

    base: int
    lower: int
    offsets: Sequence[int]
    memory: str = ""

    def between(self, lower: int, upper: int) -> Sequence[int]:
        """Return the offset of each row in [lower, upper) from the base address, in bytes."""
        return self.offsets[lower - self.lower : upper - self.lower]

    def place(self, row: int) -> Place:
        """Return the address of row `row` of the tensor."""
        return Place(self.base, self.offsets[row - self.lower], self.memory)


@frozen
class StreamCommand:
    """The call of a driver function in a stream: its name, and its arguments in order.

    It is made from an `Invoke` command: integers replace expressions, and places (each a base
    address and an offset) replace addresses.

    record: for commands from `KernelCall.invoke_record`, the dataclass with these integers and
        places in its fields; None for commands from `KernelCall.invoke`."""

    name: str
    arguments: tuple[int | Place, ...]
    record: object = None

    @property
    def numbers(self) -> tuple[int, ...]:
        """The arguments that are integers, in order."""
        return tuple(n for n in self.arguments if isinstance(n, int))

    @property
    def places(self) -> tuple[Place, ...]:
        """The arguments that are addresses, in order."""
        return tuple(p for p in self.arguments if isinstance(p, Place))


@frozen
class StreamOperation(Generic[Record]):
    """An operation of the accelerator in a stream, and the addresses that it uses.

    It is made from an `Issue` command.

    operation: the dataclass that the kernel passed to `KernelCall.issue`, unchanged.
    first, end: the operation computes rows [first, end) of its result.
    inputs: the rows that it reads of each input, in the order of the `Issue`.
    result: the rows that it writes.
    tables, scratch, prefetched: addresses of constants, of working memory, and of prefetched
        constants; () or None if it uses none."""

    operation: Record
    first: int
    end: int
    inputs: tuple[StreamRows, ...]
    result: StreamRows
    tables: tuple[Place, ...] = ()
    scratch: Place | None = None
    prefetched: Place | None = None


@frozen
class StreamTransfer:
    """A copy of `size_bytes` bytes in a stream, made from a `Transfer` command."""

    source: Place
    target: Place
    size_bytes: int


AnyStreamCommand = StreamCommand | StreamOperation[object] | StreamTransfer

# Returns the stream of bytes for the commands of one call, which are given in order.
Encoder = Callable[[Sequence[AnyStreamCommand]], bytes]


# Numbers of command streams: which stream each call of a step submits.
#
# A step represents all calls that differ only in their rows and in offsets that depend on loop
# variables (`program/steps.py`).  Each combination of rows and offsets has a stream of its own.


class RowsAndOffsets(NamedTuple):
    """The values by which a call of a step differs from the step's other calls.

    Each combination of these values is encoded as a command stream of its own.

    first, end: the call computes the output rows [first, end).
    offsets: where tensors of the call begin in their buffers, in bytes.  It contains the offsets
        that vary between calls, for example between bands of columns; `offset_variables` determines
        which and in what order."""

    first: int
    end: int
    offsets: tuple[int, ...]

    def variables(self, offsets: Sequence[Var]) -> Mapping[str, int]:
        """Return the values of the variables in the step's body for this call, by name.

        offsets: the result of `offset_variables` for the step."""
        # The variables are `FIRST` and `END`, for the interval of rows, and those for the offsets.
        values = zip((offset.name for offset in offsets), self.offsets, strict=True)
        return {FIRST.name: self.first, END.name: self.end, **dict(values)}


def offset_variables(step: Call) -> tuple[Var, ...]:
    """Return the variables that stand for offsets of tensors in the body of a step.

    step: the call that stands for all calls of the step (`as_step`)."""
    # A call accesses each tensor at an offset, in bytes, in a buffer.  If this offset depends on
    # loop variables, it differs between the calls of the step, so `as_step` replaces it by a
    # variable.  The variables are in the order of `accessed_views`: inputs first, the output last.
    offsets = (view.offset for view in accessed_views(step))
    return tuple(offset for offset in offsets if isinstance(offset, Var))


def stream_index(calls: Sequence[RowsAndOffsets], offsets: Sequence[Var], rows: int) -> Expr:
    """Return the number of a call's stream, as an expression of the call's rows and offsets.

    For example, let the output have 4 rows, which two calls compute: [0, 2) and [2, 4).  They are
    executed for two bands: an offset is 16 bytes in the first one and 48 in the second.  The result
    is first + 4 * ((offset - 16) / 32), which is 0 and 2 in the first band, 4 and 6 in the second.
    """
    # The numbers are at least 0, and different for all `calls`.  They need not be consecutive.

    def is_unique(index: Expr) -> bool:
        return len({evaluate(index, call.variables(offsets)) for call in calls}) == len(calls)

    # The first term has a different value, less than `count`, for each interval [first, end).
    intervals = {(call.first, call.end) for call in calls}
    index, count = cast(Expr, FIRST), rows
    if len({first for first, _ in intervals}) < len(intervals):
        index, count = binary("+", FIRST, END), 2 * rows
        if len({sum(one) for one in intervals}) < len(intervals):
            index, count = binary("+", binary("*", FIRST, rows + 1), END), (rows + 1) ** 2
    return _distinguishing(index, count, [call.offsets for call in calls], offsets, is_unique)


def _distinguishing(
    index: Expr,
    count: int,
    every: Sequence[tuple[int, ...]],
    variables: Sequence[Var],
    is_unique: Callable[[Expr], bool],
) -> Expr:
    """Return the sum of `index`, which is less than `count`, and terms of variables with which it
    is unique.

    every: the values of the variables that occur."""
    # Each further term, for one variable, is rank * count: `rank` numbers the values of the
    # variable, and `count` exceeds every value of the sum so far, so different ranks give different
    # sums.
    for k in sorted(range(len(variables)), key=lambda k: -len({values[k] for values in every})):
        values = sorted({one[k] for one in every})
        if is_unique(index):
            break
        step = gcd(*(value - values[0] for value in values)) or 1
        rank = binary("//", binary("-", variables[k], values[0]), step)
        index = binary("+", index, binary("*", rank, count))
        count *= (values[-1] - values[0]) // step + 1
    assert is_unique(index)
    return index


ALIGNMENT_BYTES = 16  # Alignment of each stream.


def with_streams(program: Program, accelerator: Accelerator) -> Program:
    """Return the program in which calls on the accelerator submit encoded command streams."""
    # Without an encoder, the program is unchanged.  Raises BackendError if the encoder fails, or if
    # a kernel issues stream commands but the accelerator has no encoder.
    encoder, driver = accelerator.codegen.encoder, accelerator.codegen.driver
    if encoder is None or driver is None:
        _require_no_stream_commands(program, accelerator.name)
        return program
    own = tuple(s for s in steps(program) if s.engine == accelerator.name and s.body)
    region: _ConstantRegion | None = None
    if driver.regions is not None:
        region = _ConstantRegion.of(own, program, accelerator.name, driver.regions)
        program = region.joined(program)
    if driver.joined is not None and accelerator.target.instances == 1:
        return _with_submissions(program, accelerator, driver.joined, driver.submit, region)
    added = _StreamBuffers(program)
    bodies: dict[Call, tuple[Command, ...]] = {}
    for step, stepped in _calls_by_step(program, accelerator.name).items():
        used = tuple(addressed_buffers(step.body))
        bases = _Regions.of(used, program, region) if region else _Bases.of(used, program)
        encoded = _Streams.of(step, sorted(stepped), bases, encoder, accelerator.name)
        name = added.add(step.output.tensor, encoded.raw)
        bodies[step] = (encoded.submission(driver.submit, name),)
    run = tuple(_replaced(command, bodies) for command in program.run)
    return replace(added.program, run=run)


class _StreamBuffers:
    """Adds the constants that contain command streams to a program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._taken = {buffer.name for buffer in program.buffers}
        self._memory = next(m for m in program.memories if not m.writable)
        self._end = self._memory.size_bytes
        self._buffers: list[Buffer] = []

    def add(self, tensor: str, raw: bytes) -> str:
        """Add the streams of calls of which the first computes `tensor`; return the name of the
        constant."""
        name = free_name(f"{tensor}: commands {len(self._buffers)}", self._taken)
        type = TensorType((len(raw),), DType.UINT8)
        self._buffers.append(
            Buffer(
                name, Kind.CONSTANT, self._memory.name, self._end, len(raw), Data(raw), type,
                is_stream=True,
            )
        )  # fmt: skip
        self._end += len(raw)
        return name

    @property
    def program(self) -> Program:
        """The program with the constants."""
        grown = replace(self._memory, size_bytes=self._end)
        memories = tuple(grown if m is self._memory else m for m in self._program.memories)
        buffers = (*self._program.buffers, *self._buffers)
        return replace(self._program, memories=memories, buffers=buffers)


def _with_submissions(
    program: Program,
    accelerator: Accelerator,
    joined: JoinedStreams,
    submit: Driver,
    region: _ConstantRegion | None,
) -> Program:
    """Return the program in which consecutive calls on the accelerator are submissions."""
    run = tuple(_in_submissions(program.run, accelerator.name, joined, submit))
    every: dict[int, tuple[Submission, list[_Execution]]] = {}
    for one, variables, found in executions(run):
        every.setdefault(id(one), (one, []))[1].append((variables, found))
    added = _StreamBuffers(program)
    new: dict[int, Submission] = {}
    for key, (one, executed) in every.items():
        inside = (c for c in walk(one.run) if isinstance(c, Call))
        used = tuple(name for call in inside for name in addressed_buffers(call.body))
        bases = _Regions.of(used, program, region) if region else _Bases.of(used, program)
        encoded = _JoinedStreams.of(one, executed, bases, joined, accelerator.name)
        name = added.add(executed[0][1][0][0].output.tensor, encoded.raw)
        new[key] = encoded.submission(one, submit, name)
    return replace(added.program, run=tuple(_encoded_submissions(run, new)))


# The values of the variables around a submission, and its calls, each with those of all variables.
_Execution = tuple[Variables, tuple[tuple[Call, Variables], ...]]


def _in_submissions(
    commands: Sequence[Command], engine: str, joined: JoinedStreams, submit: Driver
) -> Iterator[Command]:
    """Yield the commands with consecutive ones that only the accelerator executes in submissions,
    which have no streams yet."""
    together: list[Command] = []
    for command in commands:
        if _is_alone(command, engine):
            together.append(command)
            continue
        yield from _as_submission(together, joined, submit)
        together = []
        if isinstance(command, Loop):
            inside = tuple(_in_submissions(command.body, engine, joined, submit))
            command = replace(command, body=inside)
        yield command
    yield from _as_submission(together, joined, submit)


def _as_submission(
    together: Sequence[Command], joined: JoinedStreams, submit: Driver
) -> Iterator[Command]:
    # Discards at the end, which no engine executes, remain outside.
    end = len(together)
    while end and isinstance(together[end - 1], Discard):
        end -= 1
    if end:
        yield Submission(tuple(together[:end]), Invoke(submit, ()), 0, (), joined.parts)
    yield from together[end:]


def _is_alone(command: Command, engine: str) -> bool:
    """Whether no engine but an accelerator executes a command."""
    if isinstance(command, Loop):
        return all(_is_alone(inner, engine) for inner in command.body)
    if isinstance(command, Call):
        return command.engine == engine and bool(command.body)
    return isinstance(command, Discard)


def _encoded_submissions(
    commands: Iterable[Command], new: Mapping[int, Submission]
) -> Iterator[Command]:
    """Yield the commands with the submissions `new`, by the identity of those that they replace.
    Those that are never executed are left out."""
    for command in commands:
        if isinstance(command, Loop):
            yield replace(command, body=tuple(_encoded_submissions(command.body, new)))
        elif not isinstance(command, Submission):
            yield command
        elif id(command) in new:
            yield new[id(command)]


def _require_no_stream_commands(program: Program, engine: str) -> None:
    """Raise BackendError if a call on `engine`, which has no encoder, has commands for one."""
    for call in steps(program):
        issued = [c for c in walk(call.body) if isinstance(c, Issue | Transfer)]
        if call.engine == engine and issued:
            raise BackendError(
                "backend-085",
                f"kernel {call.kernel.name} issues stream commands, but {engine} has no encoder",
                where=f'{engine}, "{call.output.tensor}"',
                help='register an encoder (fmt="stream"), or invoke driver functions',
            )


@frozen
class _Bases:
    """The base buffers of a stream: the driver receives their addresses.

    They are the same for all calls of a step (calls that differ only in rows and offsets):

    - each constant that the stream uses;
    - for each writable memory, the buffer with the lowest address among those that the stream uses.
      The stream states addresses in this memory relative to this buffer.

    buffers: all buffers of the program, by name.
    names: names of the bases, in the order in which they are passed.
    writable: names of the writable memories."""

    buffers: Mapping[str, Buffer]
    names: tuple[str, ...]
    writable: frozenset[str]

    @staticmethod
    def of(addressed: Sequence[str], program: Program) -> _Bases:
        """The base buffers for commands with addresses in the buffers `addressed`."""
        # They are in the order in which the commands of a call first use each constant or memory.
        buffers = {buffer.name: buffer for buffer in program.buffers}
        writable = frozenset(memory.name for memory in program.memories if memory.writable)
        used = [buffers[name] for name in dict.fromkeys(addressed)]
        first: dict[str, Buffer] = {}
        for buffer in used:
            key = buffer.memory if buffer.memory in writable else buffer.name
            first[key] = min(first.get(key, buffer), buffer, key=lambda b: b.address)
        names = tuple(buffer.name for buffer in first.values())
        return _Bases(buffers, names, writable)

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """What the driver receives besides the stream and its size."""
        return tuple(map(Address, self.names))

    def place(self, buffer: str, offset_bytes: int) -> Place:
        found, at = self.buffers[buffer], offset_bytes
        if found.memory not in self.writable:
            return Place(self.names.index(buffer), at, found.memory)
        bases = [self.buffers[name] for name in self.names]
        k = next(k for k, base in enumerate(bases) if base.memory == found.memory)
        return Place(k, at + found.address - bases[k].address, found.memory)


INDENT = " " * 12  # Of the further lines of a submission in C.
REGION_ALIGNMENT_BYTES = 16  # Alignment of each constant in the region of constants.


@frozen
class _ConstantRegion:
    """The region of all constants to which the streams of an accelerator refer.

    numbers: the numbers of the regions.
    buffer: a constant that contains all of them, each at a multiple of `REGION_ALIGNMENT_BYTES`;
        None without constants.
    offsets: the offset of each constant in the region, by the name of its own buffer."""

    numbers: RegionNumbers
    buffer: Buffer | None
    offsets: Mapping[str, int]

    @staticmethod
    def of(
        every: Sequence[Call], program: Program, engine: str, numbers: RegionNumbers
    ) -> _ConstantRegion:
        """The region for all steps of an accelerator that numbers its regions."""
        memory = next(m for m in program.memories if not m.writable)
        line = max((step.kernel.cache_line_bytes for step in every), default=1)
        used = dict.fromkeys(name for step in every for name in addressed_buffers(step.body))
        buffers = {buffer.name: buffer for buffer in program.buffers}
        raw, offsets = b"", dict[str, int]()
        for found in (buffers[name] for name in used if buffers[name].memory == memory.name):
            assert found.data is not None
            offsets[found.name] = len(raw)
            raw += found.data.raw + bytes(-found.size_bytes % REGION_ALIGNMENT_BYTES)
        if not offsets:
            return _ConstantRegion(numbers, None, {})
        raw += bytes(-len(raw) % line)
        type = TensorType((len(raw),), DType.UINT8)
        name = free_name(f"{engine}: constants", set(buffers))
        start = round_up(memory.size_bytes, line)
        buffer = Buffer(
            name, Kind.CONSTANT, memory.name, start, len(raw), Data(raw), type, alignment_bytes=line
        )
        return _ConstantRegion(numbers, buffer, offsets)

    def joined(self, program: Program) -> Program:
        """The program with this region, without the constants that only streams use."""
        if self.buffer is None:
            return program
        own, end = self.buffer, self.buffer.address + self.buffer.size_bytes
        seen = {
            name for command in (*program.run, *program.reset) for name in used_buffers(command)
        }
        seen |= {view.buffer for view in program.outputs}
        obsolete = self.offsets.keys() - seen
        return replace(
            program,
            buffers=(*(b for b in program.buffers if b.name not in obsolete), own),
            memories=tuple(
                replace(m, size_bytes=end) if m.name == own.memory else m for m in program.memories
            ),
        )


@frozen
class _Regions:
    """The memory regions of a stream: the driver receives their addresses and sizes.

    buffers: all buffers of the program, by name.
    constants: the region of constants.
    memories: the writable memories that the stream uses, by their numbers."""

    buffers: Mapping[str, Buffer]
    constants: _ConstantRegion
    memories: Mapping[int, Memory]

    @staticmethod
    def of(addressed: Sequence[str], program: Program, constants: _ConstantRegion) -> _Regions:
        """The regions for commands with addresses in the buffers `addressed`."""
        buffers = {buffer.name: buffer for buffer in program.buffers}
        used = {buffers[name].memory for name in addressed if name in buffers}
        writable = [memory for memory in program.memories if memory.writable]
        numbers = constants.numbers.memories
        if len(writable) > len(numbers):
            raise InternalError(
                "stream-001", f"{len(writable)} writable memories, the driver takes {len(numbers)}"
            )
        memories = {n: m for n, m in zip(numbers, writable, strict=False) if m.name in used}
        return _Regions(buffers, constants, memories)

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """What the driver receives besides the stream and its size: address and size of each
        region."""
        every: dict[int, tuple[Argument, Argument]] = {
            number: (WholeMemory(memory.name), memory.size_bytes)
            for number, memory in self.memories.items()
        }
        if self.constants.buffer is not None:
            own = self.constants.buffer
            every[self.constants.numbers.constants] = Address(own.name), own.size_bytes
        numbers = range(max(every, default=-1) + 1)
        return tuple(argument for k in numbers for argument in every.get(k, (0, 0)))

    def place(self, buffer: str, offset_bytes: int) -> Place:
        if buffer in self.constants.offsets:
            own = self.constants.buffer
            assert own is not None
            offset_bytes += self.constants.offsets[buffer]
            return Place(self.constants.numbers.constants, offset_bytes, own.memory)
        found = self.buffers[buffer]
        number = next(n for n, memory in self.memories.items() if memory.name == found.memory)
        return Place(number, found.address + offset_bytes, found.memory)


@frozen
class _Resolver:
    """Converts commands to the form that an encoder receives.

    Integers replace expressions.  A place, which is the index of a base buffer and an offset in
    bytes, replaces each address.

    bases: the base buffers or memory regions, to whose addresses the offsets are relative.
    variables: the values of the variables in the expressions, such as loop variables."""

    bases: _Bases | _Regions
    variables: Variables

    def command(self, command: Invoke | Issue | Transfer) -> AnyStreamCommand:
        # Integers replace expressions.  Places, each the index of a base buffer and an offset in
        # bytes, replace addresses.
        match command:
            case Invoke():
                arguments = tuple(map(self.argument, command.arguments))
                record = command.with_values(arguments)
                return StreamCommand(command.driver.name, arguments, record)
            case Issue():
                return StreamOperation(
                    command.operation,
                    evaluate(command.first, self.variables),
                    evaluate(command.end, self.variables),
                    tuple(map(self.rows, command.inputs)),
                    self.rows(command.result),
                    tuple(map(self.place, command.tables)),
                    None if command.scratch is None else self.place(command.scratch),
                    None if command.prefetched is None else self.place(command.prefetched),
                )
            case Transfer():
                source, target = self.place(command.source), self.place(command.target)
                return StreamTransfer(source, target, command.size_bytes)

    def argument(self, argument: Argument) -> int | Place:
        # A place consists of the index of a base address and an offset in bytes.
        assert not isinstance(argument, WholeMemory)  # only submissions have such arguments
        if isinstance(argument, Address):
            return self.place(argument)
        return evaluate(argument, self.variables)

    def place(self, address: Address) -> Place:
        """An address as the index of a base address and an offset in bytes."""
        return self.bases.place(address.buffer, evaluate(address.offset, self.variables))

    def rows(self, tensor: TensorRows) -> StreamRows:
        """The addresses of rows of a tensor, in bytes from one of the base buffers."""
        lower, upper = (
            evaluate(tensor.lower, self.variables),
            evaluate(tensor.upper, self.variables),
        )
        origin = self.bases.place(tensor.buffer, evaluate(tensor.offset, self.variables))
        offsets = [origin.offset_bytes + tensor.rows.offset(row) for row in range(lower, upper)]
        return StreamRows(origin.base, lower, offsets, origin.memory)


@frozen
class _Streams:
    """The concatenated streams of a step, one for each combination of rows and offsets.

    A step represents all calls that differ only in their rows and in offsets that depend on loop
    variables.

    raw: the bytes of all streams.
    index: the number of the stream that a call submits, as an expression of the call's rows and
        offsets (`stream_index`).  The numbers may have gaps.
    begin: for each number from 0 on, the offset of its stream in `raw`; 0 in a gap.
    size: for each number from 0 on, the bytes of its stream without padding; 0 in a gap.
    arguments: what the driver receives besides the stream and its size."""

    raw: bytes
    index: Expr
    begin: tuple[int, ...]
    size: tuple[int, ...]
    arguments: tuple[Argument, ...]

    @staticmethod
    def of(
        step: Call,
        calls: Sequence[RowsAndOffsets],
        bases: _Bases | _Regions,
        encoder: Encoder,
        engine: str,
    ) -> _Streams:
        offsets = offset_variables(step)
        index = stream_index(calls, offsets, row_count(step.output.type.shape))
        found: dict[int, tuple[int, int]] = {}
        raw = b""
        for call in calls:
            variables = call.variables(offsets)
            flat = _unrolled(step.body, variables)
            commands = [_Resolver(bases, values).command(each) for each, values in flat]
            stream = _encoded(encoder, commands, f'{engine}, "{step.output.tensor}"')
            found[evaluate(index, variables)] = len(raw), len(stream)
            raw += stream + bytes(-len(stream) % ALIGNMENT_BYTES)
        count = max(row_count(step.output.type.shape), *(k + 1 for k in found))
        pairs = [found.get(k, (0, 0)) for k in range(count)]
        begin, size = (tuple(column) for column in zip(*pairs, strict=True))
        return _Streams(raw, index, begin, size, bases.arguments)

    def submission(self, submit: Driver, buffer: str) -> Invoke:
        """The command that submits a stream; it becomes the body of each call of the step."""
        # At run time, the rows and offsets of the call select the stream in `buffer`.
        used = [k for k, size in enumerate(self.size) if size]
        one = used[0] if len(used) == 1 else None
        begin: Expr = TableEntry(self.begin, self.index) if one is None else self.begin[one]
        size: Expr = TableEntry(self.size, self.index) if one is None else self.size[one]
        return Invoke(submit, (Address(buffer, begin), size, *self.arguments))


@frozen
class _JoinedStreams:
    """The concatenated streams of a submission, one for each combination of the values of the
    variables around it on which its calls depend.

    raw, number, begin, size, arguments: as in `_Streams`.
    ends: for each number, the offset at which the part of each call ends, in its stream."""

    raw: bytes
    number: Expr
    begin: tuple[int, ...]
    ends: tuple[tuple[int, ...], ...]
    arguments: tuple[Argument, ...]

    @staticmethod
    def of(
        submission: Submission,
        executed: Sequence[_Execution],
        bases: _Bases | _Regions,
        joined: JoinedStreams,
        engine: str,
    ) -> _JoinedStreams:
        names = sorted(free_variables(submission.run))
        distinct = {tuple(around[name] for name in names): calls for around, calls in executed}

        def is_unique(number: Expr) -> bool:
            around = (dict(zip(names, values, strict=True)) for values in distinct)
            return len({evaluate(number, one) for one in around}) == len(distinct)

        number = _distinguishing(0, 1, [*distinct], tuple(map(Var, names)), is_unique)
        found: dict[int, tuple[int, tuple[int, ...]]] = {}
        raw, resolved = b"", _CallResolver(bases)
        for values, calls in distinct.items():
            stream, ends = b"", tuple[int, ...]()
            if calls:
                where = f'{engine}, "{calls[0][0].output.tensor}" and what follows'
                commands = [resolved.commands(*call) for call in calls]
                stream, ends = _encoded(joined.encoder, commands, where)
            variables = dict(zip(names, values, strict=True))
            found[evaluate(number, variables)] = len(raw), ends
            raw += stream + bytes(-len(stream) % ALIGNMENT_BYTES)
        pairs = [found.get(k, (0, ())) for k in range(max(found) + 1)]
        begin, every = zip(*pairs, strict=True)
        return _JoinedStreams(raw, number, begin, every, bases.arguments)

    def submission(self, old: Submission, submit: Driver, buffer: str) -> Submission:
        """The submission `old` with its streams, which are in `buffer`."""
        sizes = tuple(ends[-1] if ends else 0 for ends in self.ends)
        begin, size = (
            values[0] if len(values) == 1 else TableEntry(values, self.number)
            for values in (self.begin, sizes)
        )
        invoke = Invoke(submit, (Address(buffer, begin), size, *self.arguments))
        return replace(old, submit=invoke, number=self.number, ends=self.ends)


class _CallResolver:
    """Converts the calls of a submission to commands of a stream."""

    def __init__(self, bases: _Bases | _Regions) -> None:
        self._bases = bases
        self._offsets: dict[int, tuple[tuple[str, Expr], ...]] = {}

    def commands(self, call: Call, variables: Variables) -> list[AnyStreamCommand]:
        """The commands of a call for its rows, with these values of the variables around it."""
        if id(call) not in self._offsets:
            pairs = zip(accessed_views(as_step(call)), accessed_views(call), strict=True)
            self._offsets[id(call)] = tuple(
                (kept.offset.name, view.offset)
                for kept, view in pairs
                if isinstance(kept.offset, Var)
            )
        first, end = computed_rows(call, variables)
        inside = {FIRST.name: first, END.name: end}
        inside |= {name: evaluate(of, variables) for name, of in self._offsets[id(call)]}
        flat = _unrolled(call.body, inside)
        return [_Resolver(self._bases, values).command(each) for each, values in flat]


def call_writer(codegen: Codegen) -> Callable[[Sequence[str]], str] | None:
    """Return the function that formats a driver call in C, given the C texts of its arguments.

    The backend's `replace_call_extern` takes precedence.  Otherwise, for an accelerator with
    command streams, the function formats a submission.  It passes all base addresses in one array;
    if regions are numbered, an array of their addresses, one of their sizes, and their number.
    If the result is None, the call is written NAME(arguments)."""
    driver = codegen.driver
    if driver is None or codegen.replace_call_extern is not None:
        return codegen.replace_call_extern

    def text(arguments: Sequence[str]) -> str:
        submit = driver.submit.name
        function = getattr(arguments, "function", submit)
        if function != submit:
            return f"{function}({', '.join(arguments)})"
        stream, size, *bases = arguments
        sizes: list[str] = []
        if driver.regions is not None:
            bases, sizes = bases[::2], bases[1::2]
        pointers = f"(void *[]){{{', '.join(f'(void *)({base})' for base in bases)}}}"
        begin = f"{submit}({stream}, {size},"
        if driver.regions is None:
            return f"{begin} {pointers})"
        extents = f"(const size_t[]){{{', '.join(sizes)}}}"
        return f"{begin}\n{INDENT}{pointers},\n{INDENT}{extents}, {len(bases)})"

    return text


_Encoded = TypeVar("_Encoded")


def _encoded(encoder: Callable[..., _Encoded], commands: Sequence[object], where: str) -> _Encoded:
    """What an encoder returns for `commands`: the stream, or, for those of several calls, also the
    offset at which the part of each ends."""
    try:
        found = encoder(commands)
    except PenstockError:
        raise
    except Exception as error:
        raise BackendError(
            "backend-083",
            "the encoder fails",
            where=where,
            why=f"{type(error).__name__}: {error}",
            help="an encoder takes a sequence of stream commands and returns bytes",
        ) from error
    stream = cast(object, found[0] if isinstance(found, tuple) else found)
    if not isinstance(stream, bytes) or not stream:
        raise BackendError(
            "backend-084",
            f"the encoder returns {stream!r:.60}, must return bytes",
            where=where,
            help="return at least one byte",
        )
    return found


def _unrolled(
    commands: Sequence[Command], variables: Variables
) -> Iterator[tuple[Invoke | Issue | Transfer, Variables]]:
    """(command, values of all variables) in execution order."""
    # A command in a loop is yielded once for each iteration.
    for command in commands:
        if isinstance(command, Loop):
            for inside in iterations(command, variables, {}):  # bodies of calls have no counters
                yield from _unrolled(command.body, inside)
        elif isinstance(command, Invoke | Issue | Transfer):
            yield command, variables


def _calls_by_step(program: Program, engine: str) -> dict[Call, set[RowsAndOffsets]]:
    # A step consists of the calls that differ in nothing else.  The key is the call that stands for
    # all of them (`as_step`).  Calls that compute no row are left out.
    found: dict[Call, set[RowsAndOffsets]] = {}

    def select(call: Call) -> tuple[Call, Call] | None:
        return (call, as_step(call)) if call.engine == engine and call.body else None

    for (call, step), variables in unrolled_calls(program.run, select):
        first, end = computed_rows(call, variables)
        pairs = zip(accessed_views(step), accessed_views(call), strict=True)
        offsets = tuple(
            evaluate(view.offset, variables) for kept, view in pairs if isinstance(kept.offset, Var)
        )
        if first < end:
            found.setdefault(step, set()).add(RowsAndOffsets(first, end, offsets))
    return found


def _replaced(command: Command, bodies: Mapping[Call, tuple[Command, ...]]) -> Command:
    """Return `command` with new bodies of calls: of the command itself, if it is a call, or of all
    calls inside it, if it is a loop."""
    if isinstance(command, Loop):
        return replace(command, body=tuple(_replaced(inner, bodies) for inner in command.body))
    if isinstance(command, Call) and as_step(command) in bodies:
        return replace(command, body=bodies[as_step(command)])
    return command
