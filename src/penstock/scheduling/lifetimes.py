"""lifetimes: Schedule -> memory.Problem: which blocks of bytes are alive when.

Tick 0 is when the caller writes the inputs, tick k + 1 when step k runs, and the last tick when the
caller reads the outputs.  Storages joined in place are one block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.memory.problem import Buffer, Problem
from penstock.scheduling.schedule import Schedule

ALIGNMENT_BYTES = 4
SCRATCH_ALIGNMENT_BYTES = 16


@dataclass(frozen=True, slots=True)
class Life:
    """A storage: alive in ticks [lower, upper)."""

    name: str
    lower: int
    upper: int
    size_bytes: int


def lives(schedule: Schedule) -> tuple[Life, ...]:
    """Every storage of the schedule, in order of its first tick."""
    storages = schedule.parts.storages()
    sizes = {v.name: v.type.size_bytes for v in schedule.parts.graph.variables()}
    born: dict[str, int] = {}
    dead: dict[str, int] = {}
    end = len(schedule.steps) + 2
    for value in schedule.parts.graph.inputs:
        born[storages[value.name]] = 0
        dead[storages[value.name]] = end if schedule.keep_inputs else 1
    for tick, part in enumerate(schedule.steps, start=1):
        for value in part.variable_inputs:
            dead[storages[value.name]] = max(dead[storages[value.name]], tick + 1)
        born[storages[part.output.name]] = tick
        dead[storages[part.output.name]] = tick + 1
    for value in schedule.parts.graph.outputs:
        if value.data is None:
            dead[storages[value.name]] = end
    return tuple(Life(name, born[name], dead[name], sizes[name]) for name in born)


def blocks(schedule: Schedule) -> Mapping[str, str]:
    """By name of a storage, the one at whose address it lies: the first of an in-place chain."""
    found = {life.name: life.name for life in lives(schedule)}
    for pair in schedule.in_place:
        found[pair.written] = found[pair.read]
    return found


def scratch_name(part: str) -> str:
    """Name of the scratch buffer of a part."""
    return f"{part}/scratch"


def problem(schedule: Schedule) -> Problem:
    """The blocks and scratch buffers to be placed."""
    block = blocks(schedule)
    merged: dict[str, Life] = {}
    for life in lives(schedule):
        name = block[life.name]
        other = merged.get(name, life)
        merged[name] = Life(
            name,
            min(life.lower, other.lower),
            max(life.upper, other.upper),
            max(life.size_bytes, other.size_bytes),
        )
    buffers = [
        Buffer(life.name, life.lower, life.upper, life.size_bytes, ALIGNMENT_BYTES)
        for life in merged.values()
    ]
    for tick, part in enumerate(schedule.steps, start=1):
        size = part.kernel.scratch_bytes
        if size:
            name = scratch_name(part.name)
            buffers.append(Buffer(name, tick, tick + 1, size, SCRATCH_ALIGNMENT_BYTES))
    return Problem(tuple(buffers))
