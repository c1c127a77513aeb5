"""The constant buffers of a program: weights, tables, constant outputs, initial elements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import prod

from penstock.ir.graph import Graph, Queue, State, Value, Values, free_name
from penstock.ir.op import Table
from penstock.ir.tensor import Data, row_axis, row_count
from penstock.program.expr import evaluate
from penstock.program.program import Buffer, Kind, Program
from penstock.program.steps import (
    addressed_buffers,
    executions,
    folded_constants,
    steps,
    table_bytes,
    used_buffers,
)
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule, table_name

CONSTANT_ALIGNMENT_BYTES = 4


def only_byte(data: Data) -> int | None:
    """The value of all bytes; None if they differ."""
    return data.raw[0] if len(set(data.raw)) == 1 else None


def initial_name(expanded: ExpandedSchedule, state: State | Queue) -> str:
    """The name of the constant that holds the initial elements of a state or queue."""
    return free_name(f"{state.before.name}/initial", expanded.schedule.parts.names)


def _tables(schedule: Schedule) -> Iterator[Value]:
    """The tables of accelerators' kernels; the tables of other kernels are part of their
    parameters."""
    for part in schedule.steps:
        if part.kernel.body is not None:
            for name, table in part.kernel.tables:
                yield Value(table_name(schedule, part, name), table.type, table.data)
    yield from band_tables(schedule).values()


def band_tables(schedule: Schedule) -> Mapping[tuple[str, str], Value]:
    """The tables of accelerators' kernels in bands, by part of the band and name of the table.

    Bands that compute the same tensor share equal tables."""
    shared: dict[tuple[str, str, Table], Value] = {}
    found: dict[tuple[str, str], Value] = {}
    taken = set(schedule.parts.names)
    for band in (band for bands in schedule.bands for band in bands.bands):
        tensors = {section.value: section.tensor for section in band.sections}
        for k in band.plan.parts:
            part = band.plan.with_selected_kernel(k, band.parts.parts[k])
            for name, table in part.kernel.tables if part.kernel.body is not None else ():
                key = tensors[part.name], name, table
                if key not in shared:
                    buffer = free_name(f"{tensors[part.name]}: {name}", taken)
                    taken.add(buffer)
                    shared[key] = Value(buffer, table.type, table.data)
                found[part.name, name] = shared[key]
    return found


def constant_buffers(expanded: ExpandedSchedule, memory: str) -> tuple[Buffer, ...]:
    """One buffer for each constant that is read or an output, at consecutive addresses."""
    steps, graph = expanded.schedule.steps, expanded.schedule.parts.graph
    values = (
        *_read_constants(steps),
        *_constant_outputs(graph),
        *_tables(expanded.schedule),
        *_initial_constants(expanded),
    )
    found: list[Buffer] = []
    address = 0
    for value in {v.name: v for v in values}.values():
        assert value.data is not None
        size = value.type.size_bytes
        found.append(
            Buffer(value.name, Kind.CONSTANT, memory, address, size, value.data, value.type)
        )
        address += -(-size // CONSTANT_ALIGNMENT_BYTES) * CONSTANT_ALIGNMENT_BYTES
    return tuple(found)


def _initial_constants(expanded: ExpandedSchedule) -> Iterator[Value]:
    """The initial elements of the states and queues whose bytes differ."""
    graph = expanded.schedule.parts.graph
    for state in (*graph.states, *graph.queues):
        if only_byte(state.initial) is None:
            yield initial_constant(initial_name(expanded, state), state)


def initial_constant(name: str, state: State | Queue) -> Value:
    """The initial elements of a state or queue; if all its rows are the same, one of them."""
    type, raw = state.before.type, state.initial.raw
    rows = row_count(type.shape)
    if prod(type.shape[: row_axis(type.rank)]) > 1 or raw != raw[: len(raw) // rows] * rows:
        return Value(name, type, state.initial)
    axis = row_axis(type.rank)
    row = type.with_shape((*type.shape[:axis], 1, *type.shape[axis + 1 :])) if rows > 1 else type
    return Value(name, row, Data(raw[: len(raw) // rows]))


def _read_constants(steps: tuple[Part, ...]) -> Values:
    return tuple(v for part in steps for v in part.inputs if v.data is not None)


def _constant_outputs(graph: Graph) -> Values:
    return tuple(v for v in graph.outputs if v.data is not None)


def weight_bytes(program: Program) -> int:
    """Return the bytes of constants: tensors of the model, tables of kernels, row tables and tables
    of loop bounds."""
    constants = (b for b in program.buffers if b.kind is Kind.CONSTANT)
    folded = folded_constants(program)
    tensors = sum(b.size_bytes for b in constants if b.name not in folded)
    stored = {  # steps share equal tables of one name
        (name, table)
        for step in steps(program)
        if not step.body
        for name, table in step.kernel.every_table
    }
    kernels = sum(table.type.size_bytes for _, table in stored)
    return tensors + kernels + table_bytes(program)


def weight_bytes_by_tensor(program: Program) -> Mapping[str, int]:
    """The bytes of constants by the tensor that the first call that uses them computes.

    Constants are tensors in the layout of the model, tables of kernels, and command streams.
    Tables of rows and of loop bounds belong to no call."""
    folded = folded_constants(program)
    constants = {
        buffer.name: buffer
        for buffer in program.buffers
        if buffer.kind is Kind.CONSTANT and buffer.name not in folded
    }
    streams = {name for name, buffer in constants.items() if buffer.is_stream}
    found: Counter[str] = Counter()
    counted: set[object] = set()
    for step in steps(program):
        encoded = (name for name in addressed_buffers(step.body) if name in streams)
        sizes: list[tuple[str, object, int]] = [
            (step.output.tensor, name, constants[name].size_bytes)
            for name in (*used_buffers(step), *encoded)
            if name in constants
        ]
        for call in step.members or (step,):
            tensor = call.output.tensor
            tables = call.kernel.every_table
            sizes += [(tensor, (name, t), t.type.size_bytes) for name, t in tables]
        for tensor, key, size_bytes in sizes:
            if key not in counted:
                counted.add(key)
                found[tensor] += size_bytes
    for tensor, size_bytes in _submitted_bytes(program):
        found[tensor] += size_bytes
    return found


def _submitted_bytes(program: Program) -> Iterator[tuple[str, int]]:
    """The tensors that the calls of submitted streams compute, and the bytes of their parts; what
    aligns streams is part of the first call."""
    counted: Counter[str] = Counter()
    first: dict[str, str] = {}
    known: set[tuple[str, int]] = set()
    for submission, variables, every in executions(program.run):
        buffer, number = submission.buffer, evaluate(submission.number, variables)
        if every and (buffer, number) not in known:
            known.add((buffer, number))
            ends = submission.ends[number]
            for (call, _), begin, end in zip(every, (0, *ends), ends, strict=False):
                yield call.output.tensor, end - begin
            counted[buffer] += ends[-1]
            first.setdefault(buffer, every[0][0].output.tensor)
    for name, tensor in first.items():
        yield tensor, program.buffer(name).size_bytes - counted[name]
