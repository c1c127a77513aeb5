"""lower: Schedule + addresses -> Program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.ir.graph import Graph, Value
from penstock.program.program import Box, Buffer, Call, Kind, Memory, Program, View
from penstock.scheduling.lifetimes import blocks, lives, scratch_name
from penstock.scheduling.part import Part
from penstock.scheduling.schedule import Schedule

CONSTANT_ALIGNMENT_BYTES = 4


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the blocks of a schedule lie in the arena, which is `height_bytes` high."""

    arena_memory: str
    constant_memory: str
    offsets: Mapping[str, int]
    height_bytes: int


def lower(schedule: Schedule, addresses: Addresses) -> Program:
    """The commands that run the schedule, each part whole, one after the other."""
    graph = schedule.parts.graph
    storages = schedule.parts.storages()
    constants = _constants(schedule, addresses.constant_memory)
    constant_bytes = max((b.address + b.size_bytes for b in constants), default=0)
    run = tuple(_call(part, storages) for part in schedule.steps)
    return Program(
        graph.name,
        (
            Memory(addresses.arena_memory, addresses.height_bytes, writable=True),
            Memory(addresses.constant_memory, constant_bytes, writable=False),
        ),
        (*_arena(schedule, addresses), *constants),
        tuple(View.whole(v.name, v.type, storages[v.name]) for v in graph.inputs),
        tuple(_view(v, storages) for v in graph.outputs),
        init=(),
        reset=(),
        run=run,
    )


def _call(part: Part, storages: Mapping[str, str]) -> Call:
    node = part.nodes[-1]
    shape = node.output.type.shape
    return Call(
        node.op,
        node.site,
        part.kernel,
        part.engine,
        tuple(_view(value, storages) for value in node.inputs),
        _view(node.output, storages),
        Box((0,) * len(shape), shape),
        scratch_name(part.name) if part.kernel.scratch_bytes else None,
        node.origin,
    )


def _view(value: Value, storages: Mapping[str, str]) -> View:
    return View.whole(value.name, value.type, storages.get(value.name, value.name))


def _arena(schedule: Schedule, addresses: Addresses) -> tuple[Buffer, ...]:
    """A buffer for every storage, then the scratch buffers."""
    graph = schedule.parts.graph
    storages = schedule.parts.storages()
    io = {storages[v.name] for v in (*graph.inputs, *graph.outputs) if v.data is None}
    block = blocks(schedule)
    found = [
        Buffer(
            life.name,
            Kind.IO if life.name in io else Kind.ARENA,
            addresses.arena_memory,
            addresses.offsets[block[life.name]],
            life.size_bytes,
        )
        for life in lives(schedule)
    ]
    for part in schedule.steps:
        if part.kernel.scratch_bytes:
            name = scratch_name(part.name)
            offset, size = addresses.offsets[name], part.kernel.scratch_bytes
            found.append(Buffer(name, Kind.SCRATCH, addresses.arena_memory, offset, size))
    return tuple(found)


def _constants(schedule: Schedule, memory: str) -> tuple[Buffer, ...]:
    """A buffer for every constant that a part or output reads, one behind the other."""
    values = (*_read_constants(schedule), *_constant_outputs(schedule.parts.graph))
    found: list[Buffer] = []
    address = 0
    for value in {v.name: v for v in values}.values():
        assert value.data is not None
        size = value.type.size_bytes
        found.append(Buffer(value.name, Kind.CONSTANT, memory, address, size, value.data))
        address += -(-size // CONSTANT_ALIGNMENT_BYTES) * CONSTANT_ALIGNMENT_BYTES
    return tuple(found)


def _read_constants(schedule: Schedule) -> tuple[Value, ...]:
    return tuple(v for part in schedule.steps for v in part.nodes[-1].inputs if v.data is not None)


def _constant_outputs(graph: Graph) -> tuple[Value, ...]:
    return tuple(v for v in graph.outputs if v.data is not None)
