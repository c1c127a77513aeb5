"""The four points at which program passes run: before and after stripes, after placement, before
emission (`PassPhase`).

All accelerators complete a phase before the next phase begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from penstock.backends.accelerator import PROGRAM_PHASES, Accelerator, AcceleratorTarget, PassPhase
from penstock.backends.added_buffers import ADDED_KINDS, with_room
from penstock.backends.driver_calls import with_instances, with_region_calls, with_waits
from penstock.backends.stream import with_streams
from penstock.errors import BackendError, PenstockError
from penstock.frozen import frozen
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node, Value, free_name
from penstock.ir.op import Kernel
from penstock.ir.tensor import DType, TensorType, row_count
from penstock.ir.verify import verify
from penstock.program.lower import lower
from penstock.program.program import (
    Address,
    Buffer,
    Call,
    Command,
    Invoke,
    Kind,
    Loop,
    Memory,
    Program,
    View,
)
from penstock.program.steps import calls, submissions, walk
from penstock.program.writer import Addresses
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import storage_owners
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule, placement_problems

# Execution of an accelerator's passes: errors of a pass are reported with its name and phase.


_Result = TypeVar("_Result", Graph, Program)


def after_passes(result: _Result, accelerator: Accelerator, phase: PassPhase) -> _Result:
    """Return the graph or program after the accelerator's passes of a phase.

    Raises BackendError if a pass fails, if its result is not of the type of its argument, or if
    it changes more of a program than the phase permits."""
    for run in accelerator.passes(phase):
        found = _run(run, result, accelerator.target, phase)
        if type(found) is not type(result):
            raise _wrong_pass(run, accelerator, phase, f"it returns {found!r:.80}")
        if isinstance(result, Program) and isinstance(found, Program):
            permission = _Permission(accelerator.name, phase)
            if change := next(permission.violations(result, found), ""):
                raise _forbidden_change(run, accelerator, phase, change)
            found = with_room(result, found)
        result = found
    return result


def _run(
    run: Callable[[_Result, AcceleratorTarget], _Result],
    result: _Result,
    target: AcceleratorTarget,
    phase: PassPhase,
) -> _Result:
    try:
        found = run(result, target)
        if isinstance(found, Graph):
            verify(found)
    except BackendError:
        raise
    except PenstockError as error:
        raise _wrong_pass(run, target, phase, error.what) from error
    except Exception as error:
        raise _wrong_pass(run, target, phase, f"{type(error).__name__}: {error}") from error
    return found


def _wrong_pass(
    run: object, of: Accelerator | AcceleratorTarget, phase: PassPhase, why: str
) -> BackendError:
    kind = "program" if phase in PROGRAM_PHASES else "graph"
    return BackendError(
        "backend-082",
        f"pass {_name(run)} fails",
        where=f"{of.name}, phase {phase.name}",
        why=why,
        help=f"a pass of this phase takes a {kind} and the target, and returns a {kind}",
    )


def _forbidden_change(run: object, of: Accelerator, phase: PassPhase, change: str) -> BackendError:
    return BackendError(
        "backend-064",
        f"pass {_name(run)} changes {change}",
        where=f"{of.name}, phase {phase.name}",
        why=f"a pass of this phase may change {PERMITTED[phase]}",
        help="the docstring of PassPhase lists what each phase sees and may change",
    )


def _name(run: object) -> str:
    return getattr(run, "__name__", type(run).__name__)


# What the passes of a phase may change, for messages.
PERMITTED = {
    PassPhase.PROGRAM_PHASE_0: "the kernels of the accelerator's calls, and nothing else",
    PassPhase.PROGRAM_PHASE_1: "name, body, tables and traffic of the kernels of the accelerator's "
    "calls, and nothing else",
    PassPhase.PROGRAM_PHASE_2: "the bodies of the accelerator's calls, and add constants, working "
    "memory and invocations of its driver, and nothing else",
    PassPhase.PROGRAM_PHASE_3: "the bodies of the accelerator's calls and the bytes of its command "
    "streams, and add constants, working memory and invocations of its driver, and nothing else",
}


# Checks that a program pass changes only what its phase permits (`PassPhase`).
#
# A check compares the program before the pass with the program after it.


@frozen
class _Permission:
    """What an accelerator's passes may change in a program during a phase."""

    engine: str
    phase: PassPhase

    def violations(self, before: Program, after: Program) -> Iterator[str]:
        """Yield descriptions of the changes that are not permitted."""
        for part in ("name", "inputs", "outputs", "reset"):
            if getattr(before, part) != getattr(after, part):
                yield f"the {part} of the program"
        if before.memories != after.memories and before.buffers == after.buffers:
            yield "the memories of the program"
        yield from self._buffers(before, after)
        yield from self._commands(before.run, self._without_added(before.run, after.run))

    @property
    def _adds(self) -> bool:
        return self.phase in (PassPhase.PROGRAM_PHASE_2, PassPhase.PROGRAM_PHASE_3)

    def _without_added(
        self, before: Sequence[Command], after: Sequence[Command]
    ) -> Sequence[Command]:
        """The commands `after` a pass without the invocations that it may add, outside loops."""
        if not self._adds:
            return after
        known = [command for command in before if isinstance(command, Invoke)]

        def is_added(command: Command) -> bool:
            own = isinstance(command, Invoke) and command.driver.engine == self.engine
            return own and command not in known

        return [command for command in after if not is_added(command)]

    def _buffers(self, before: Program, after: Program) -> Iterator[str]:
        count, memories = len(before.buffers), {m.name: m for m in before.memories}
        added = after.buffers[count:]
        if [b.name for b in before.buffers] != [b.name for b in after.buffers[:count]]:
            yield "the list of buffers"
            return
        if added and not self._adds:
            yield "the list of buffers"
        names = {buffer.name for buffer in before.buffers}
        for new in added:
            is_constant = new.kind is Kind.CONSTANT
            has_data = is_constant == (new.data is not None and new.type is not None)
            is_placed = new.memory in memories and memories[new.memory].writable != is_constant
            if new.kind not in ADDED_KINDS or not has_data or not is_placed or new.name in names:
                yield (
                    f'the list of buffers by "{new.name}", which is no constant with elements '
                    "and no working memory in RAM"
                )
            names.add(new.name)
        own = _stream_buffers(before, self.engine)
        for old, new in zip(before.buffers, after.buffers[:count], strict=True):
            free = self.phase is PassPhase.PROGRAM_PHASE_3 and old.name in own
            if old != (_with_same_bytes(new, old) if free else new):
                yield f'buffer "{old.name}"'

    def _commands(self, before: Sequence[Command], after: Sequence[Command]) -> Iterator[str]:
        if len(before) != len(after):
            yield "the number of commands"
            return
        for old, new in zip(before, after, strict=True):
            if old is new:
                continue
            if isinstance(old, Loop) and isinstance(new, Loop):
                if replace(old, body=()) != replace(new, body=()):
                    yield f'the loop over "{old.variable}"'
                yield from self._commands(old.body, new.body)
            elif isinstance(old, Call) and isinstance(new, Call):
                yield from self._call(old, new)
            elif old != new:
                yield f"a command of type {type(old).__name__}"

    def _call(self, old: Call, new: Call) -> Iterator[str]:
        where = f'the call that computes "{old.output.tensor}"'
        if old.engine != self.engine:
            if old != new:
                yield f"{where} on {old.engine}"
        elif self.phase in (PassPhase.PROGRAM_PHASE_2, PassPhase.PROGRAM_PHASE_3):
            if replace(old, body=()) != replace(new, body=()):
                yield f"{where} in more than its body"
        elif replace(old, kernel=new.kernel) != new:
            yield f"{where} in more than its kernel"
        elif self.phase is PassPhase.PROGRAM_PHASE_1 and not _same_memory_and_cost(old, new):
            yield f"memory or cost of the kernel of {where}"


def _same_memory_and_cost(old: Call, new: Call) -> bool:
    def rest(kernel: Kernel) -> Kernel:
        return replace(kernel, name="", body=None, tables=(), traffic=None)

    return rest(old.kernel) == rest(new.kernel)


def _stream_buffers(program: Program, engine: str) -> frozenset[str]:
    streams = {buffer.name for buffer in program.buffers if buffer.is_stream}
    calls = (c for c in walk(program.run) if isinstance(c, Call) and c.engine == engine)
    submitted = [c for call in calls for c in walk(call.body) if isinstance(c, Invoke)]
    joined = (one.submit for one in submissions(program))
    submitted += (submit for submit in joined if submit.driver.engine == engine)
    used = (a.buffer for c in submitted for a in c.arguments if isinstance(a, Address))
    return frozenset(name for name in used if name in streams)


def _with_same_bytes(new: Buffer, old: Buffer) -> Buffer:
    """The buffer `new` with the bytes of `old`, so that a comparison ignores changed bytes."""
    # If the numbers of bytes differ, the result is `new` itself, which differs from `old`.
    same = new.data is not None and len(new.data.raw) == old.size_bytes
    return replace(new, data=old.data) if same else new


# The program of a network before stripes: one call for each node, on whole tensors.
#
# Every tensor has a buffer of its own; the addresses are provisional.  The passes of
# PROGRAM_PHASE_0 receive this program and may replace the kernels of its calls.  The compiler then
# gives each composite the kernel of the call that computes it (`program_passes.py`).


TENSORS, CONSTANTS = "tensors", "constants"
ALIGNMENT_BYTES = 64


def all_kernels(composite: Composite) -> tuple[Kernel, ...]:
    """Return all kernels of a composite in order: preferred one, fallback, prefetching ones."""
    fallback = () if composite.fallback is None else (composite.fallback,)
    assert composite.chosen is not None
    return (composite.chosen, *fallback, *composite.prefetching)


def with_replaced_kernels(composite: Composite, found: tuple[Kernel, ...]) -> Composite:
    """Return the composite with its kernels replaced by `found`.

    found: the new kernels, in the order in which `all_kernels` returns the old ones."""
    after = 1 if composite.fallback is None else 2
    fallback = None if composite.fallback is None else found[1]
    return replace(composite, chosen=found[0], fallback=fallback, prefetching=found[after:])


def layer_program(graph: Graph, processor: str, kernel: Callable[[Composite], Kernel]) -> Program:
    """Return the program of a graph before stripes, in which each call computes a whole tensor.

    kernel: returns the kernel that the program calls for a composite."""
    owners = storage_owners(graph)
    calls: list[Call] = []
    buffers = dict(_tensors(graph, owners))
    for node in graph.nodes:
        if node.op.ALIAS:
            continue
        call, more = _call(node, processor, kernel, owners, graph.names())
        calls.append(call)
        buffers |= {buffer.name: buffer for buffer in more}
    placed = tuple(_stacked(tuple(buffers.values())))
    ends = {memory: 0 for memory in (TENSORS, CONSTANTS)}
    for buffer in placed:
        ends[buffer.memory] = buffer.address + buffer.size_bytes
    return Program(
        graph.name,
        tuple(Memory(name, size, name == TENSORS) for name, size in ends.items()),
        placed,
        tuple(_view(value, owners) for value in graph.inputs),
        tuple(_view(value, owners) for value in graph.outputs),
        reset=(),
        run=tuple(calls),
    )


def _tensors(graph: Graph, owners: Mapping[str, str]) -> Iterator[tuple[str, Buffer]]:
    """(name, buffer) for each constant and for each tensor that is not an alias."""
    # All addresses are 0; `_stacked` replaces them.
    read = (value for node in graph.nodes for value in (*node.inputs, node.output))
    for value in (*graph.sources, *read, *graph.results):
        if value.data is not None:
            data = Buffer(value.name, Kind.CONSTANT, CONSTANTS, 0, value.type.size_bytes)
            yield value.name, replace(data, data=value.data, type=value.type)
        elif owners[value.name] == value.name:
            yield value.name, Buffer(value.name, Kind.ARENA, TENSORS, 0, value.type.size_bytes)


def _call(
    node: Node,
    processor: str,
    kernel: Callable[[Composite], Kernel],
    owners: Mapping[str, str],
    taken: frozenset[str],
) -> tuple[Call, tuple[Buffer, ...]]:
    """The call that computes a node, and the buffers that only this call uses."""
    # These buffers hold the kernel's tables, its scratch and its prefetched constants.
    op, rows = node.op, row_count(node.output.shape)
    chosen = kernel(op) if isinstance(op, Composite) else op.kernel(node.site)
    inputs = tuple(_view(value, owners) for value in node.inputs)
    output = _view(node.output, owners)
    engine = op.engine if isinstance(op, Composite) else processor
    call = Call(op, node.site, chosen, engine, inputs, output, 0, rows, origin=node.origin)
    if chosen.body is None:
        return call, ()
    tables = {name: free_name(f"{node.name}: {name}", taken) for name, _ in chosen.tables}
    buffers = [
        Buffer(tables[name], Kind.CONSTANT, CONSTANTS, 0, t.type.size_bytes, t.data, t.type)
        for name, t in chosen.tables
    ]
    scratch = prefetched = None
    if chosen.scratch_bytes:
        scratch = free_name(f"{node.name}/scratch", taken)
        buffers.append(Buffer(scratch, Kind.SCRATCH, TENSORS, 0, chosen.scratch_bytes))
    if chosen.prefetch is not None:
        prefetched = free_name(f"{node.name}/prefetched", taken)
        buffers.append(Buffer(prefetched, Kind.ARENA, TENSORS, 0, chosen.prefetch.size_bytes))
    body = chosen.body(inputs, output, rows, tables, scratch, prefetched)
    type = TensorType((chosen.prefetch.size_bytes,), DType.UINT8) if chosen.prefetch else None
    copied = View.whole(prefetched, type, prefetched) if prefetched and type else None
    return replace(call, body=body, scratch=scratch, prefetched=copied), tuple(buffers)


def _view(value: Value, owners: Mapping[str, str]) -> View:
    return View.whole(value.name, value.type, owners.get(value.name, value.name))


def _stacked(buffers: tuple[Buffer, ...]) -> Iterator[Buffer]:
    """The buffers with provisional addresses."""
    # In each memory, the buffers follow one another from address 0, in the given order, without
    # overlap.
    ends = {TENSORS: 0, CONSTANTS: 0}
    for buffer in buffers:
        at = -(-ends[buffer.memory] // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        ends[buffer.memory] = at + buffer.size_bytes
        yield replace(buffer, address=at)


_LAYERS, _STRIPES, _PLACED, _EMITTED = (
    PassPhase.PROGRAM_PHASE_0,
    PassPhase.PROGRAM_PHASE_1,
    PassPhase.PROGRAM_PHASE_2,
    PassPhase.PROGRAM_PHASE_3,
)


def before_stripes(graph: Graph, accelerators: Sequence[Accelerator]) -> Graph:
    """Return the graph after the accelerators' passes of PROGRAM_PHASE_0."""
    # The passes may replace the kernels of composites.  If a composite has several kernels, the
    # passes run once for each of them.
    for accelerator in accelerators:
        if accelerator.passes(_LAYERS):
            most = max((len(all_kernels(op)) for op in _composites(graph, accelerator)), default=0)
            for k in range(most):
                graph = _with_kernel(graph, accelerator, k)
    return graph


def _composites(graph: Graph, accelerator: Accelerator) -> list[Composite]:
    ops = (node.op for node in graph.nodes)
    return [op for op in ops if isinstance(op, Composite) and op.engine == accelerator.name]


def _with_kernel(graph: Graph, accelerator: Accelerator, k: int) -> Graph:
    """Run the accelerator's passes of PROGRAM_PHASE_0 once, for kernel `k` of each composite."""
    # The passes receive a program that calls kernel `k` of each composite of the accelerator.  The
    # program that they return may call other kernels; in the returned graph, these replace the
    # kernels `k`.  A composite with at most `k` kernels is unchanged.

    def selected(composite: Composite) -> Kernel:
        every = all_kernels(composite)
        return every[k] if k < len(every) else every[0]

    processor = accelerator.target.chip.engines[0].name
    before = layer_program(graph, processor, selected)
    after = after_passes(before, accelerator, _LAYERS)
    found = {call.output.tensor: call.kernel for call in calls(after)}

    def changed(node: Node) -> Node:
        op = node.op
        if not isinstance(op, Composite) or op.engine != accelerator.name:
            return node
        old = all_kernels(op)
        if k >= len(old):
            return node
        every = (*old[:k], found[node.name], *old[k + 1 :])
        return replace(node, op=with_replaced_kernels(op, every))

    return graph.with_nodes(tuple(map(changed, graph.nodes)))


def after_stripes(schedule: Schedule, accelerators: Sequence[Accelerator]) -> Schedule:
    """Run the accelerators' passes of PROGRAM_PHASE_1 on a schedule without addresses.

    The passes receive a program with provisional addresses, made from the schedule, and return a
    program.  The result is the schedule with the kernels of the returned program."""
    for accelerator in accelerators:
        if accelerator.passes(_STRIPES):
            expanded = ExpandedSchedule(schedule)
            before = lower(expanded, _provisional_addresses(expanded))
            after = after_passes(before, accelerator, _STRIPES)
            found = {call.output.tensor: call.kernel for call in calls(after)}
            swap = partial(_with_new_kernel, schedule.steps, found)
            parts = tuple(map(swap, schedule.parts.parts))
            schedule = replace(schedule, parts=replace(schedule.parts, parts=parts))
    return schedule


def _with_new_kernel(scheduled: Sequence[Part], found: dict[str, Kernel], part: Part) -> Part:
    # A part that the schedule does not run, or that has no new kernel, is returned unchanged.
    own = next((one for one in scheduled if one.name == part.name), None)
    if own is None or part.name not in found or found[part.name] is own.kernel:
        return part
    old, new = own.kernel, found[part.name]
    prefetching = tuple(new if kernel is old else kernel for kernel in part.prefetching)
    return replace(
        part,
        kernel=new if part.kernel is old else part.kernel,
        fallback=new if part.fallback is old else part.fallback,
        prefetching=prefetching,
    )


def _provisional_addresses(expanded: ExpandedSchedule) -> Addresses:
    """An address for each block, without regard to the sizes of the memories."""
    # In each memory, the blocks follow one another, so no two overlap.  Blocks that must have a
    # fixed distance from each other, such as the rows of one tensor, have this distance.
    offsets: dict[str, int] = {}
    heights: list[tuple[str, int]] = []
    for memory, problem in placement_problems(expanded):
        height = 0
        for root in (buffer for buffer in problem.buffers if buffer.anchor is None):
            tied = [b for b in problem.buffers if b is root or b.anchor == root.name]
            lowest = min(b.distance_bytes for b in tied)
            start = -(-height // root.alignment) * root.alignment - lowest
            start = -(-start // root.alignment) * root.alignment
            offsets |= {b.name: start + b.distance_bytes for b in tied}
            height = max(start + b.distance_bytes + b.size_bytes for b in tied)
        heights.append((memory, height))
    return Addresses(offsets, tuple(heights))


def after_placement(program: Program, accelerators: Sequence[Accelerator]) -> Program:
    """Return the program after the passes of PROGRAM_PHASE_2 and 3, with encoded streams."""
    # The passes of PROGRAM_PHASE_2 receive the program before its commands are encoded as streams,
    # and the passes of PROGRAM_PHASE_3 receive the program with the streams.
    for accelerator in accelerators:
        program = after_passes(program, accelerator, _PLACED)
    for accelerator in accelerators:
        program = with_streams(with_region_calls(program, accelerator), accelerator)
        program = with_waits(with_instances(program, accelerator), accelerator)
    for accelerator in accelerators:
        program = after_passes(program, accelerator, _EMITTED)
    return program
