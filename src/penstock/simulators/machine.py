"""Machine: executes a Program on modelled memories, independently of schedules and backends.

Checks that each view and region is inside its buffer, that each read sees the data of the right
writer, and that calls and copies do not overlap.  Counts multiply-accumulates and the bytes of
regions moved per memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from penstock.errors import BackendError, InternalError
from penstock.ir.op import row_axis, row_before, row_count
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.program.expr import evaluate
from penstock.program.program import (
    END,
    FIRST,
    Advance,
    Call,
    Command,
    Copy,
    Discard,
    FillTensor,
    Invoke,
    LoadTensor,
    Loop,
    Program,
    Pull,
    View,
    Wait,
)
from penstock.program.steps import buffers_inside, last_uses, offset_name
from penstock.program.unroll import iterations
from penstock.simulators.devices import Devices, Queued, ReadyCall
from penstock.simulators.memories import POISON, Memories, lies_whole
from penstock.simulators.operand import ConcreteOperand, evaluate_box, rows_region, whole_operands

Trace = Callable[[str, Region, Array], None]
"""Callback for every computed region: tensor, region, elements."""

Variables = Mapping[str, int]


@dataclass(slots=True)
class Counts:
    """Counts of a run: nominal multiply-accumulates, and bytes of regions read and written.

    `constant_macs`: multiply-accumulates of channels that kernels skip because they are
    constant.  `stripes` counts how often each region of a tensor is computed or pulled, and
    `windows` how often a call reads it."""

    macs: int = 0
    constant_macs: int = 0
    read_bytes: dict[str, int] = field(default_factory=dict[str, int])
    written_bytes: dict[str, int] = field(default_factory=dict[str, int])
    stripes: dict[str, Counter[Region]] = field(default_factory=dict[str, Counter[Region]])
    windows: dict[str, Counter[Region]] = field(default_factory=dict[str, Counter[Region]])


class Machine:
    """A program loaded into its memories.  State buffers keep their contents between runs."""

    def __init__(self, program: Program, trace: Trace | None = None) -> None:
        self._program = program
        self._trace = trace
        self.counts = Counts()
        self._memories = Memories(program)
        self._pending: dict[tuple[str, str], list[tuple[ConcreteOperand, ConcreteOperand]]] = {}
        self._streams: Mapping[str, Array] = {}
        self._counters: dict[str, int] = {}
        self._devices = Devices(self._memories)
        self._queued = Queued(self._memories, program.waits)
        self._execute(program.init, {})
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
                    self._write(self._whole(command.target), np.resize(source, shape))
                case _:
                    self._execute((command,), {})

    def device(self, engine: str) -> object | None:
        """The state of an accelerator (`Driver.device`); None if it has not been invoked."""
        return self._devices.states.get(engine)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Runs one inference; inputs and the returned outputs are elements by name."""
        self._streams = inputs
        for view in self._program.inputs:
            self._write(ConcreteOperand.whole(view), inputs[view.tensor])
        last = last_uses(self._program)
        for step, command in enumerate(self._program.run):
            self._execute((command,), {})
            for name in last.get(step, ()):
                self._queued.free(name)
        if self._pending:
            raise InternalError("machine-006", f"copies never waited for: {sorted(self._pending)}")
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
                case Copy():
                    self._copy(command, variables)
                case Pull():
                    self._pull(command, variables)
                case Invoke(driver):
                    self._queued.complete(driver)
                    self._devices.invoke(command, variables)
                case _:
                    self._execute_simple(command)

    def _execute_simple(self, command: Command) -> None:
        """Executes a command without loop variables."""
        match command:
            case Wait():
                self._wait(command)
            case Advance():
                self._advance(command)
            case Discard(buffer):
                self._queued.free(buffer)
            case _:
                raise InternalError("machine-011", f"{command} has no place in this entry")

    def _call(self, call: Call, variables: Variables) -> None:
        """Runs a call, now or when the program waits for it."""
        out = evaluate_box(call.out, variables)
        if out.empty:
            return
        needed = zip(call.inputs, call.op.needs(call.site, out), strict=True)
        inputs = tuple(self._operand(view, need, variables) for view, need in needed)
        output = self._operand(call.output, out, variables)
        self._check_apart(call, inputs, output)
        if call.kernel.recurrent:
            inputs = (*inputs, self._operand(call.output, row_before(out), variables))
        run = partial(self._compute, call, inputs, output)
        read = (*inputs, *whole_operands(call.prefetched))
        written = (output, *self._inside(call), *whole_operands(*_filled(call, output)))
        self._queued.submit(ReadyCall(call.engine, run, read, written))

    def _compute(
        self, call: Call, inputs: tuple[ConcreteOperand, ...], output: ConcreteOperand
    ) -> None:
        """Runs a call whose operands are known."""
        computed = tuple(self._members(call)) if call.members else ((call, inputs, output),)
        for member in computed:
            _check_kernel(*member)
        windows = tuple(self._window(x) for x in inputs)
        if call.scratch is not None:
            self._memories.take(self._memories.buffers[call.scratch])
        if call.prefetched is not None and call.prefetched not in _filled(call, output):
            self._memories.read(ConcreteOperand.whole(call.prefetched))
        if call.body:
            self._offload(call, inputs, output)
            result = self._memories.read(output)
        else:
            result = call.op.evaluate(call.site, windows, output.region)
            self._write(output, result)
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
            needed = zip(call.inputs, call.op.needs(call.site, out), strict=True)
            inputs = tuple(self._operand(view, need, {}) for view, need in needed)
            yield call, inputs, self._whole(call.output)

    def _offload(
        self, call: Call, inputs: tuple[ConcreteOperand, ...], output: ConcreteOperand
    ) -> None:
        """Runs a call's body on its accelerator.

        The body may write the output and scratch; if it computes row 0, also prefetched constants.
        Raises BackendError if it writes anything else."""
        first, end = output.rows
        before = self._memories.copied()
        variables = {FIRST.name: first, END.name: end}
        for k, (view, operand) in enumerate(zip(call.inputs, inputs, strict=True)):
            if not isinstance(view.offset, int):
                variables[offset_name(k)] = evaluate(operand.view.offset, {})
        if not isinstance(call.output.offset, int):
            variables[offset_name()] = evaluate(output.view.offset, {})
        self._execute(call.body, variables)
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
        """The buffers that only the call uses: its scratch, and those of a region call's body."""
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

    def _copy(self, copy: Copy, variables: Variables) -> None:
        lower, upper = evaluate(copy.lower, variables), evaluate(copy.upper, variables)
        region = rows_region(copy.source.type.shape, lower, upper)
        if region.empty:
            return
        source = self._operand(copy.source, region, variables)
        target = self._operand(copy.target, region, variables)
        if self._memories.overlap(source, target):
            raise InternalError("machine-007", f'"{copy.source.tensor}" is copied over itself')
        self._queued.check(copy.engine, (source,), (target,))
        self._write(target, self._memories.read(source))
        self._count_moved((source,), target)
        if copy.token is not None:
            self._memories.disown(target)
            self._pending.setdefault((copy.engine, copy.token), []).append((source, target))

    def _wait(self, wait: Wait) -> None:
        for source, target in self._pending.pop((wait.engine, wait.token), []):
            self._write(target, self._memories.read(source))

    def _pull(self, pull: Pull, variables: Variables) -> None:
        lower, upper = evaluate(pull.lower, variables), evaluate(pull.upper, variables)
        region = rows_region(pull.target.type.shape, lower, upper)
        if region.empty:
            return
        target = self._operand(pull.target, region, variables)
        self._queued.check("the processor", (), (target,))
        elements = self._streams[pull.target.tensor].reshape(pull.target.type.shape)
        self._write(target, elements[region.slices])
        self._count_moved((), target)
        _add_region(self.counts.stripes, target)

    def _fill(self, fill: FillTensor) -> None:
        target = self._whole(fill.target)
        raw = np.full(target.view.type.size_bytes, fill.byte, np.uint8)
        elements = raw.view(target.view.type.dtype.value).reshape(target.view.type.shape)
        self._write(target, elements)

    def _advance(self, advance: Advance) -> None:
        """Rotates a ring: the kept rows belong to the window of the next run, the others to
        nobody."""
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
        """A region of a view for given loop variables, in a ring for the present counter."""
        rotation = view.rows.rotation
        if rotation is not None:
            type = TensorType((1,), DType.INT16)
            counter = ConcreteOperand.whole(View.whole(rotation.counter, type, rotation.counter))
            view = replace(view, rows=view.rows.rotated(int(self._memories.read(counter)[0])))
        return ConcreteOperand.of(view, region, variables)

    def _write(self, operand: ConcreteOperand, elements: Array) -> None:
        """Writes an operand, after a check that it is not part of a copy in progress."""
        for (engine, _), copies in self._pending.items():
            for used in (x for copy in copies for x in copy):
                if self._memories.overlap(operand, used):
                    raise InternalError(
                        "machine-008",
                        f'"{operand.view.tensor}" is written over "{used.view.tensor}", of which a '
                        f"copy is under way on {engine}",
                    )
        self._memories.write(operand, elements)

    def _count_moved(self, sources: tuple[ConcreteOperand, ...], target: ConcreteOperand) -> None:
        for source in sources:
            _add(self.counts.read_bytes, self._memories.operand_memory(source), source.size_bytes)
        _add(self.counts.written_bytes, self._memories.operand_memory(target), target.size_bytes)


def _filled(call: Call, output: ConcreteOperand) -> tuple[View, ...]:
    """The prefetched constants that a call writes: those of `prefetches` if it computes row 0."""
    return call.prefetches if output.rows[0] == 0 else ()


def _add(counts: dict[str, int], memory: str, size: int) -> None:
    if size:  # a window may lie in padding alone
        counts[memory] = counts.get(memory, 0) + size


def _add_region(counts: dict[str, Counter[Region]], operand: ConcreteOperand) -> None:
    if not operand.region.empty:
        counts.setdefault(operand.view.tensor, Counter())[operand.region_of_tensor] += 1


def _check_kernel(call: Call, inputs: tuple[ConcreteOperand, ...], output: ConcreteOperand) -> None:
    """Checks that a kernel computes whole rows or, if it does not work by rows, whole tensors."""
    shape = output.view.type.shape
    row = slice(row_axis(len(shape)) + 1 if len(shape) > 1 else 0, None)
    rows_only = output.region.shape[row] == shape[row]
    lies = partial(lies_whole, as_columns=call.kernel.by_columns)
    whole = output.region.shape == shape and all(map(lies, (*inputs, output)))
    if not (rows_only if call.kernel.by_rows else whole):
        raise InternalError(
            "machine-009",
            f"kernel {call.kernel.name} cannot compute region {output.region.intervals} of "
            f'"{output.view.tensor}" through these views',
        )
