"""Machine: executes a Program on modelled memories, independently of schedules and backends.

Checks that each view and region is inside its buffer, that each read sees the data of the right
writer, and that calls and copies do not overlap.  Counts multiply-accumulates and the bytes of
regions moved per memory.
"""

from __future__ import annotations

import math
import os
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import product
from numbers import Real
from typing import Any

import numpy as np

from penstock.errors import BackendError, InternalError, PenstockError
from penstock.frozen import frozen
from penstock.ir.tensor import Array, DType, Region, TensorType, row_before, row_count, rows_region
from penstock.program.expr import evaluate
from penstock.program.program import (
    END,
    FIRST,
    Address,
    Advance,
    Argument,
    Call,
    Command,
    Discard,
    Driver,
    FillTensor,
    Invoke,
    LoadTensor,
    Loop,
    Program,
    Pull,
    Submission,
    View,
    WholeMemory,
)
from penstock.program.steps import (
    buffers_inside,
    computed_rows,
    expanded,
    iterations,
    last_uses,
    offset_name,
)
from penstock.simulators.memories import (
    POISON,
    ConcreteOperand,
    Memories,
    lies_whole,
    whole_operands,
)

# The accelerators of a program, the functional models of their drivers, and their queues.
#
# The driver of an accelerator may return before a call has run.  The machine runs such a call as
# late as possible: when the program waits.  Until then, no other engine may read what the call
# writes, or write what it reads or writes.


class Devices:
    """The state of each accelerator, created when the accelerator is first invoked.

    `states`: the states, by engine.  `cycles`: by engine, the sum of the durations that its driver
    functions state."""

    def __init__(self, memories: Memories) -> None:
        self._memories = memories
        self.states: dict[str, Any] = {}
        self.cycles: dict[str, float] = {}

    def invoke(self, command: Invoke, variables: Mapping[str, int]) -> None:
        """Runs the functional model of a driver function.

        Raises BackendError if the model raises, or if an argument cannot be evaluated."""
        arguments = self._arguments(command, variables)
        record = command.with_values(arguments)
        given = arguments if record is None else [record]
        with _reported(command, arguments, record):
            command.driver.model(self._device(command.driver), *given)
        self._add_cycles(command.driver, arguments, record)

    def parts(self, submission: Submission, variables: Mapping[str, int]) -> Iterator[None]:
        """Executes the stream of a submission, one part with each step of the result."""
        command = submission.submit
        arguments = self._arguments(command, variables)
        stream, _, *others = arguments
        ends = submission.ends[evaluate(submission.number, variables)]
        if ends:
            with _reported(command, arguments, None):
                yield from submission.parts(self._device(command.driver), stream, ends, *others)
            self._add_cycles(command.driver, arguments, None)

    def _device(self, driver: Driver) -> Any:
        if driver.engine not in self.states:
            self.states[driver.engine] = driver.device()
        return self.states[driver.engine]

    def _add_cycles(self, driver: Driver, arguments: Sequence[Any], record: object) -> None:
        if driver.cycles is not None:
            given = [record]
            if record is None:
                given = [a if isinstance(a, int) else None for a in arguments]
            taken = self.cycles.get(driver.engine, 0.0)
            device = self._device(driver)
            self.cycles[driver.engine] = taken + _duration(driver, driver.cycles, [device, *given])

    def _arguments(self, command: Invoke, variables: Mapping[str, int]) -> list[Any]:
        return [
            self._argument(command, k, argument, variables)
            for k, argument in enumerate(command.arguments)
        ]

    def _argument(
        self, command: Invoke, k: int, argument: Argument, variables: Mapping[str, int]
    ) -> Any:
        """The value of argument number k: a number, or the bytes from an address on."""
        try:
            if isinstance(argument, Address):
                offset = evaluate(argument.offset, variables)
                return self._memories.bytes_from(argument.buffer, offset)
            if isinstance(argument, WholeMemory):
                return self._memories.all_bytes(argument.memory)
            return evaluate(argument, variables)
        except (InternalError, LookupError, ZeroDivisionError) as error:
            at = ", ".join(f"{name} = {value}" for name, value in variables.items())
            raise BackendError(
                "backend-093",
                f"argument {k} of {command.driver.name} cannot be resolved",
                where=f"{command.driver.engine}, {at}" if at else command.driver.engine,
                why=error.what if isinstance(error, InternalError) else str(error),
                help="a tensor has rows 0 to its height, less one: keep `row(r)` within them, and "
                "addresses within their tensor, table or scratch",
            ) from error


@contextmanager
def _reported(command: Invoke, arguments: Sequence[Any], record: object) -> Generator[None]:
    """Raises BackendError if a functional model raises."""
    driver = command.driver
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:
        names = [""] * len(arguments)
        if record is not None:
            assert not isinstance(command.given, tuple)
            names = [f"{field.name}=" for field in fields(command.given)]
        words = (str(a) if isinstance(a, int) else "bytes" for a in arguments)
        shown = ", ".join(name + word for name, word in zip(names, words, strict=True))
        model = traceback.extract_tb(error.__traceback__)[2:3]  # below this and its caller
        lines = [f", {os.path.basename(f.filename)}:{f.lineno}" for f in model]
        raise BackendError(
            "backend-090",
            f"the functional model of {driver.name} fails",
            where=f"{driver.engine}: {driver.name}({shown}){''.join(lines)}",
            why=f"{type(error).__name__}: {error}",
            help="a model takes the device's state, then the arguments of the invocation",
        ) from error


def _duration(driver: Driver, cycles: Callable[..., object], given: Sequence[object]) -> float:
    """The cycles of an invocation.  Raises BackendError if `cycles` fails or returns no number."""
    try:
        found = cycles(*given)
        if not isinstance(found, bool) and isinstance(found, Real) and 0 <= float(found) < math.inf:
            return float(found)
        why = f"it returned {found!r:.60}"
    except PenstockError:
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
    raise BackendError(
        "backend-095",
        f"the cycles of {driver.name} are unknown",
        where=f'{driver.engine}, Driver("{driver.name}", cycles=..)',
        why=why,
        help="return the cycles of an invocation, given the device's state and the arguments; "
        "addresses are None",
    )


@frozen
class ReadyCall:
    """A call of which the operands are known.

    run: computes the output.
    reads, writes: the operands of the call, its scratch among those that it writes."""

    engine: str
    run: Callable[[], None]
    reads: Sequence[ConcreteOperand]
    writes: Sequence[ConcreteOperand]


class Queued:
    """The calls in the queues of all accelerators, in the order of submission."""

    def __init__(self, memories: Memories, waits: Sequence[Driver]) -> None:
        """`waits`: the driver functions that wait, of the accelerators whose calls are queued."""
        self._memories = memories
        self._waits = {(driver.engine, driver.name) for driver in waits}
        self._engines = {driver.engine for driver in waits}
        self._calls: list[ReadyCall] = []

    def submit(self, call: ReadyCall) -> None:
        """Appends a call to the queue of its engine, or runs it now if the engine has none."""
        self.check(call.engine, call.reads, call.writes)
        if call.engine in self._engines:
            self._calls.append(call)
        else:
            call.run()

    def free(self, buffer: str) -> None:
        """Poisons the bytes that a buffer owns, after the calls that are in a queue now."""
        run = partial(self._memories.free, self._memories.buffers[buffer])
        if self._calls:
            self._calls.append(ReadyCall(self._calls[-1].engine, run, (), ()))
        else:
            run()

    def complete(self, driver: Driver) -> None:
        """If `driver` waits for an accelerator, runs the calls in its queue, in order."""
        if (driver.engine, driver.name) not in self._waits:
            return
        calls = [call for call in self._calls if call.engine == driver.engine]
        self._calls = [call for call in self._calls if call.engine != driver.engine]
        for call in calls:
            call.run()

    def check_empty(self) -> None:
        """Raises InternalError if a queue is not empty."""
        if self._calls:
            engines = ", ".join(sorted({call.engine for call in self._calls}))
            raise InternalError("machine-012", f"calls never waited for on {engines}")

    def check(
        self, engine: str, reads: Sequence[ConcreteOperand], writes: Sequence[ConcreteOperand]
    ) -> None:
        """Raises InternalError if a command of `engine` reads what a call in the queue of another
        engine writes, or writes what such a call reads or writes."""
        for call in (call for call in self._calls if call.engine != engine):
            pairs = (*product(reads, call.writes), *product(writes, (*call.reads, *call.writes)))
            for mine, other in pairs:
                if self._memories.overlap(mine, other):
                    raise InternalError(
                        "machine-012",
                        f'"{mine.view.tensor}" is used on {engine} before the program waits for '
                        f'the call on {call.engine} that uses "{other.view.tensor}"',
                    )


# Callback for every computed region: tensor, region, elements.
Trace = Callable[[str, Region, Array], None]

Variables = Mapping[str, int]


@dataclass(slots=True)
class Counts:
    """Counts of a run: nominal multiply-accumulates, and bytes of regions read and written.

    `constant_macs`: multiply-accumulates of channels that kernels skip because they are
    constant.  `stripes` counts how often each region of a tensor is computed or pulled, and
    `windows` how often a call reads it."""

    macs: int = 0
    constant_macs: int = 0
    read_bytes: Counter[str] = field(default_factory=Counter[str])
    written_bytes: Counter[str] = field(default_factory=Counter[str])
    stripes: dict[str, Counter[Region]] = field(default_factory=dict[str, Counter[Region]])
    windows: dict[str, Counter[Region]] = field(default_factory=dict[str, Counter[Region]])


class Machine:
    """A program loaded into its memories.  State buffers keep their contents between runs."""

    def __init__(self, program: Program, trace: Trace | None = None) -> None:
        self._program = program
        self._trace = trace
        self.counts = Counts()
        self._memories = Memories(program)
        self._streams: Mapping[str, Array] = {}
        self._counters: dict[str, int] = {}
        self._parts: Iterator[None] | None = None
        self._devices = Devices(self._memories)
        self._queued = Queued(self._memories, program.waits)
        self.reset()

    @property
    def driver_cycles(self) -> Mapping[str, float]:
        """By accelerator, the cycles that its driver functions state, of all runs."""
        return dict(self._devices.cycles)

    def reset(self) -> None:
        """Sets the state buffers to their initial contents."""
        for command in self._program.reset:
            match command:
                case FillTensor():
                    self._fill(command)
                case LoadTensor():
                    source = self._memories.read(self._whole(command.source))
                    shape = command.target.type.shape
                    self._memories.write(self._whole(command.target), np.resize(source, shape))
                case _:
                    self._execute((command,), {})

    def device(self, engine: str) -> object | None:
        """The state of an accelerator (`Driver.device`); None if it has not been invoked."""
        return self._devices.states.get(engine)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Runs one inference; inputs and the returned outputs are elements by name."""
        self._streams = inputs
        for view in self._program.inputs:
            self._memories.write(ConcreteOperand.whole(view), inputs[view.tensor])
        last = last_uses(self._program)
        step = 0
        for command in self._program.run:
            with self._submitted(command, {}):
                for inner in expanded((command,)):
                    self._execute((inner,), {})
                    for name in last.get(step, ()):
                        self._queued.free(name)
                    step += 1
        self._queued.check_empty()
        outputs = self._program.outputs
        return {view.tensor: self._memories.read(ConcreteOperand.whole(view)) for view in outputs}

    def _execute(self, commands: tuple[Command, ...], variables: Variables) -> None:
        for command in commands:
            match command:
                case Loop():
                    for inside in iterations(command, variables, self._counters):
                        self._execute(command.body, inside)
                case Call():
                    self._call(command, variables)
                case Submission():
                    with self._submitted(command, variables):
                        self._execute(command.run, variables)
                case Pull():
                    self._pull(command, variables)
                case Invoke(driver):
                    self._queued.complete(driver)
                    self._devices.invoke(command, variables)
                case Advance():
                    self._advance(command)
                case Discard(buffer):
                    self._queued.free(buffer)
                case _:
                    raise InternalError("machine-011", f"{command} has no place in this entry")

    @contextmanager
    def _submitted(self, command: Command, variables: Variables) -> Generator[None]:
        """Submits the stream of a submission, of which each call inside executes its part."""
        if isinstance(command, Submission):
            self._parts = self._devices.parts(command, {**variables, **self._counters})
        yield
        self._parts = None

    def _call(self, call: Call, variables: Variables) -> None:
        out = rows_region(call.output.type.shape, *computed_rows(call, variables))
        if out.empty:
            return
        inputs = self._inputs(call, out, variables)
        output = self._operand(call.output, out, variables)
        self._check_apart(call, inputs, output)
        if call.kernel.recurrent:
            inputs = (*inputs, self._operand(call.output, row_before(out), variables))
        run = partial(self._compute, call, inputs, output, self._parts)
        read = (*inputs, *whole_operands(call.prefetched))
        written = (output, *self._inside(call), *whole_operands(*_filled(call, output)))
        self._queued.submit(ReadyCall(call.engine, run, read, written))

    def _inputs(self, call: Call, out: Region, variables: Variables) -> tuple[ConcreteOperand, ...]:
        needed = zip(call.inputs, call.op.needs(call.site, out), strict=True)
        return tuple(self._operand(view, need, variables) for view, need in needed)

    def _compute(
        self,
        call: Call,
        inputs: tuple[ConcreteOperand, ...],
        output: ConcreteOperand,
        parts: Iterator[None] | None,
    ) -> None:
        """Runs a call whose operands are known.

        parts: executes the call's part of a stream, if it is in a submission."""
        computed = tuple(self._members(call)) if call.members else ((call, inputs, output),)
        for member in computed:
            _check_kernel(*member)
        windows = tuple(self._window(x) for x in inputs)
        if call.scratch is not None:
            self._memories.take(self._memories.buffers[call.scratch])
        if call.prefetched is not None and call.prefetched not in _filled(call, output):
            self._memories.read(ConcreteOperand.whole(call.prefetched))
        if call.body:
            self._offload(call, inputs, output, parts)
            result = self._memories.read(output)
        else:
            result = call.op.evaluate(call.site, windows, output.region)
            self._memories.write(output, result)
        for member in computed:
            self._count(*member)
        if self._trace:
            self._trace(call.output.tensor, output.region_of_tensor, result)

    def _count(
        self, call: Call, inputs: tuple[ConcreteOperand, ...], output: ConcreteOperand
    ) -> None:
        """Counts the work of a call, the bytes that it moves, and its regions."""
        out = output.region
        nominal = call.op.work(call.site, out).macs
        executed = call.kernel.executed_macs(nominal, out.shape[-1] if out.shape else 1)
        self.counts.macs += executed
        self.counts.constant_macs += nominal - executed
        self._count_moved(inputs, output)
        for operand in inputs:
            _add_region(self.counts.windows, operand)
        _add_region(self.counts.stripes, output)

    def _members(
        self, region: Call
    ) -> Iterator[tuple[Call, tuple[ConcreteOperand, ...], ConcreteOperand]]:
        """Yields the calls of which a region call consists, each with its inputs and output."""
        for call in region.members:
            out = Region.whole(call.output.type.shape)
            yield call, self._inputs(call, out, {}), self._whole(call.output)

    def _offload(
        self,
        call: Call,
        inputs: tuple[ConcreteOperand, ...],
        output: ConcreteOperand,
        parts: Iterator[None] | None,
    ) -> None:
        # The body may write the output and scratch; if it computes row 0, also prefetched
        # constants.
        first, end = output.rows
        before = self._memories.copied()
        variables = {FIRST.name: first, END.name: end}
        for k, (view, operand) in enumerate(zip(call.inputs, inputs, strict=True)):
            if not isinstance(view.offset, int):
                variables[offset_name(k)] = evaluate(operand.view.offset, {})
        if not isinstance(call.output.offset, int):
            variables[offset_name()] = evaluate(output.view.offset, {})
        if parts is None:
            self._execute(call.body, variables)
        else:
            next(parts)
        filled = whole_operands(*_filled(call, output))
        others = [operand.view.buffer for operand in (*filled, *self._inside(call))]
        if (stray := self._memories.strayed(before, output, others)) is not None:
            raise BackendError(
                "machine-010",
                f'{call.engine} writes beyond rows [{first}, {end}) of "{call.output.tensor}", '
                f"at byte {stray[1]} of {stray[0]}",
                where=f"{call.engine}, {call.kernel.name}, {call.origin or call.output.tensor}",
                why="a call may write these rows of its output, its scratch and its prefetched "
                "constants",
                help="compare the addresses and sizes that the kernel passes to the driver's "
                "functions with the bytes that their functional models write",
            )
        for member in call.members[:-1]:
            self._memories.disown(self._whole(member.output))
        for operand in (output, *filled):
            self._memories.own(operand)

    def _inside(self, call: Call) -> list[ConcreteOperand]:
        names = [name for name in (*buffers_inside(call), call.scratch) if name is not None]
        types = (TensorType((self._memories.buffers[n].size_bytes,), DType.INT8) for n in names)
        return whole_operands(*map(View.whole, names, types, names))

    def _window(self, operand: ConcreteOperand) -> Array:
        """A whole input in which all elements outside the needed region are poisoned."""
        type = operand.view.type
        poison = np.full(type.size_bytes, POISON, np.uint8)
        window = poison.view(type.dtype.value).reshape(type.shape).copy()
        if not operand.region.empty:
            window[operand.region.slices] = self._memories.read(operand)
        return window

    def _check_apart(
        self, call: Call, inputs: tuple[ConcreteOperand, ...], output: ConcreteOperand
    ) -> None:
        """Checks that the output overlaps an input only element by element and if the operator or
        the kernel allows it, and that the scratch overlaps no operand."""
        memories = self._memories
        in_place = (*call.op.in_place(call.site), *call.kernel.whole_in_place)
        overwritten = [
            x
            for k, x in enumerate(inputs)
            if memories.overlap(output, x)
            and not call.members  # the members read their inputs before the last one writes
            and not (k in in_place and memories.lie_alike(output, x))
        ]
        scratch = [x for x in self._inside(call) if x.view.buffer == call.scratch]
        overwritten += [x for x in (*inputs, output) for s in scratch if memories.overlap(s, x)]
        if overwritten:
            raise InternalError(
                "machine-007",
                f'the call that computes "{call.output.tensor}" writes over '
                f'"{overwritten[0].view.tensor}", which it uses itself',
            )

    def _pull(self, pull: Pull, variables: Variables) -> None:
        lower, upper = evaluate(pull.lower, variables), evaluate(pull.upper, variables)
        region = rows_region(pull.target.type.shape, lower, upper)
        if region.empty:
            return
        target = self._operand(pull.target, region, variables)
        self._queued.check("the processor", (), (target,))
        elements = self._streams[pull.target.tensor].reshape(pull.target.type.shape)
        self._memories.write(target, elements[region.slices])
        self._count_moved((), target)
        _add_region(self.counts.stripes, target)

    def _fill(self, fill: FillTensor) -> None:
        target = self._whole(fill.target)
        raw = np.full(target.view.type.size_bytes, fill.byte, np.uint8)
        elements = raw.view(target.view.type.dtype.value).reshape(target.view.type.shape)
        self._memories.write(target, elements)

    def _advance(self, advance: Advance) -> None:
        counter = ConcreteOperand.whole(advance.counter)
        self._queued.check("the processor", (), (self._whole(advance.window), counter))
        self._memories.disown(self._whole(advance.window))
        rows = row_count(advance.window.type.shape)
        self._memories.write(counter, (self._memories.read(counter) + advance.step) % rows)
        kept = rows_region(advance.window.type.shape, 0, rows - advance.step)
        self._memories.own(self._operand(advance.window, kept, {}))

    def _whole(self, view: View) -> ConcreteOperand:
        """The whole tensor of a view without loop variables."""
        return self._operand(view, Region.whole(view.type.shape), {})

    def _operand(self, view: View, region: Region, variables: Variables) -> ConcreteOperand:
        rotation = view.rows.rotation
        if rotation is not None:
            type = TensorType((1,), DType.INT16)
            counter = ConcreteOperand.whole(View.whole(rotation.counter, type, rotation.counter))
            view = replace(view, rows=view.rows.rotated(int(self._memories.read(counter)[0])))
        return ConcreteOperand.of(view, region, variables)

    def _count_moved(self, sources: tuple[ConcreteOperand, ...], target: ConcreteOperand) -> None:
        for source in sources:
            _add(self.counts.read_bytes, self._memories.operand_memory(source), source.size_bytes)
        _add(self.counts.written_bytes, self._memories.operand_memory(target), target.size_bytes)


def _filled(call: Call, output: ConcreteOperand) -> tuple[View, ...]:
    """The prefetched constants that a call writes: those of `prefetches` if it computes row 0."""
    return call.prefetches if output.rows[0] == 0 else ()


def _add(counts: Counter[str], memory: str, size: int) -> None:
    if size:  # a window may lie in padding alone
        counts[memory] += size


def _add_region(counts: dict[str, Counter[Region]], operand: ConcreteOperand) -> None:
    if not operand.region.empty:
        counts.setdefault(operand.view.tensor, Counter())[operand.region_of_tensor] += 1


def _check_kernel(call: Call, inputs: tuple[ConcreteOperand, ...], output: ConcreteOperand) -> None:
    """Checks that a kernel that does not work by rows computes whole tensors."""
    lies = partial(lies_whole, as_columns=call.kernel.by_columns)
    is_whole = output.region.shape == output.view.type.shape
    if not call.kernel.by_rows and not (is_whole and all(map(lies, (*inputs, output)))):
        raise InternalError(
            "machine-009",
            f"kernel {call.kernel.name} cannot compute region {output.region.intervals} of "
            f'"{output.view.tensor}" through these views',
        )
