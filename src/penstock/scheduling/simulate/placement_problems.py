"""Placement problems: the buffers of a schedule to be placed in each memory region."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

import numpy as np

from penstock.ir.graph import free_name
from penstock.memory.even_rows import Series
from penstock.memory.problem import LiveBuffer, PlacementProblem
from penstock.scheduling.model.access import Storage
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import Plan, Prefetch
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule, MemoryBlock
from penstock.scheduling.simulate.row_tables import Numbers

ALIGNMENT_BYTES = 4
"""Minimum alignment of tensor blocks."""
SCRATCH_ALIGNMENT_BYTES = 16
"""Minimum alignment of scratch buffers, and alignment of prefetched constants."""


def placement_problems(expanded: ExpandedSchedule) -> tuple[tuple[str, PlacementProblem], ...]:
    """Return (name of a memory region, placement problem) pairs, the default region first.

    The buffers to be placed are tensors (whole or blocks of rows), prefetched constants and scratch
    memory.
    """
    found: dict[str, list[LiveBuffer]] = {expanded.schedule.memory.default: []}
    for memory, buffer in (*_blocks(expanded), *_other_buffers(expanded)):
        found.setdefault(memory, []).append(buffer)
    return tuple((memory, PlacementProblem(tuple(buffers))) for memory, buffers in found.items())


def row_series(expanded: ExpandedSchedule) -> tuple[tuple[str, tuple[Series, ...]], ...]:
    """Return the storages whose rows are placed one by one, for each memory region.

    The placement then tries to move these rows to constant distances (`memory/even_rows.py`), so
    that the code needs no table of row offsets.

    The result consists of pairs (name of the region, series of its storages).  The series of a
    storage is the names of its buffers, one for each row, in order.

    Two kinds of storages are left out:

    - A storage in which a row overwrites a row of another storage.
    - A storage accessed by a kernel whose commands contain the address of each row
      (`Kernel.placed`), unless constant distances save cycles of this kernel (`Kernel.even_rows`).
    """
    parts, memory = expanded.schedule.parts, expanded.schedule.memory
    storages = parts.rows.storages
    addressed = {
        parts.owners[value.name]
        for part in parts.parts
        if part.kernel.placed and not part.kernel.even_rows
        for value in (*part.variable_inputs, part.output)
    }
    table = expanded.block_table
    single = table[table[:, 2] - table[:, 1] == 1]
    found: dict[str, list[Series]] = {}
    for s, count in enumerate(np.bincount(single[:, 0], minlength=len(storages)).tolist()):
        storage = storages[s].name
        if 1 < count == storages[s].rows and storage not in addressed:
            names = tuple(
                _rows_name(expanded.schedule, storages[s], row, row + 1) for row in range(count)
            )
            found.setdefault(memory.region(storage), []).append(names)
    return tuple((name, tuple(series)) for name, series in found.items())


def live_bytes(expanded: ExpandedSchedule, memory: str | None = None) -> Numbers:
    """Return the live bytes in a memory region at each tick of the schedule.

    Scratch memory and prefetched constants are included.  A tick is the time of one kernel call.
    memory: name of the region; None: the default region.
    """
    memory = memory or expanded.schedule.memory.default
    others = [buffer for region, buffer in _other_buffers(expanded) if region == memory]
    return expanded.live_bytes(others, memory)


def block_name(schedule: Schedule, block: MemoryBlock) -> str:
    """Return the name under which the placement lists a block.

    A block that contains all rows of a storage has the name of the storage.  A block of only rows
    [first, end) is named "storage[first:end]", with a number appended if a value has this name.
    """
    rows = schedule.parts.rows
    storage = rows.storages[rows.number[block.storage]]
    return _rows_name(schedule, storage, block.lower, block.upper)


def _rows_name(schedule: Schedule, storage: Storage, lower: int, upper: int) -> str:
    if upper - lower == storage.rows:
        return storage.name
    return _unused_name(schedule, f"{storage.name}[{lower}:{upper}]")


def scratch_name(schedule: Schedule, plan: Plan) -> str:
    """Return the name of a cascade's scratch buffer: "part/scratch", named after its last part.

    A number is appended if a value of the graph has this name.
    """
    return _unused_name(schedule, f"{schedule.parts.parts[plan.parts[-1]].name}/scratch")


def workspace_name(schedule: Schedule, part: Part) -> str:
    """Return the name of the workspace of a part's kernel: "part/workspace".

    A number is appended if a value of the graph has this name.
    """
    return _unused_name(schedule, f"{part.name}/workspace")


def prefetch_name(schedule: Schedule, prefetch: Prefetch) -> str:
    """Return the name of the buffer that receives a prefetched constant.

    It is "part/prefetched", where `part` reads the copy, with a number appended if a value of the
    graph has this name.
    """
    return _unused_name(schedule, f"{schedule.parts.parts[prefetch.part].name}/prefetched")


def table_name(schedule: Schedule, part: Part, table: str) -> str:
    """Return the name of the buffer that holds a constant table of an accelerator's kernel.

    part: the part that runs the kernel.
    table: name of the table in `Kernel.tables`.

    The result is "part: table", with a number appended if a value of the graph has this name.
    """
    return _unused_name(schedule, f"{part.name}: {table}")


def _unused_name(schedule: Schedule, name: str) -> str:
    """Return `name`, with a number appended if a value of the graph has this name."""
    return free_name(name, schedule.parts.names)


def _blocks(expanded: ExpandedSchedule) -> Iterator[tuple[str, LiveBuffer]]:
    """Yield (name of the memory region, buffer) for each memory block of a tensor.

    A block is a whole storage or some rows of it.
    """
    schedule = expanded.schedule
    storages, memory = schedule.parts.rows.storages, schedule.memory
    alignments = storage_alignments(schedule.parts)
    by_storage = groupby(expanded.block_table.tolist(), key=lambda block: block[0])
    for s, blocks in by_storage:
        storage = storages[s]
        region = memory.region(storage.name)
        alignment = alignments.get(storage.name, ALIGNMENT_BYTES)
        anchor, first = None, 0
        for _, lower, upper, born, dead in blocks:
            name = _rows_name(schedule, storage, lower, upper)
            size = min(upper - lower, storage.slots) * storage.row_bytes
            if anchor is None:
                yield region, LiveBuffer(name, born, dead, size, alignment)
            else:
                distance = (lower - first) * storage.row_bytes
                yield region, LiveBuffer(name, born, dead, size, 1, anchor, distance)
            if storage.contiguous and anchor is None:
                anchor, first = name, lower


def storage_alignments(parts: Parts) -> Mapping[str, int]:
    """Return the alignment of each storage that needs more than `ALIGNMENT_BYTES`.

    Keys: names of the storages.  Values: alignments in bytes.
    """
    found: dict[str, int] = {}
    for part in parts.parts:
        for value in (*part.variable_inputs, part.output):
            alignment = max(part.kernel.alignment_bytes, value.type.dtype.size_bytes)
            if alignment > ALIGNMENT_BYTES:
                storage = parts.owners[value.name]
                found[storage] = max(alignment, found.get(storage, 1))
    return found


def scratch_alignment(parts: Iterable[Part]) -> int:
    """Return the alignment of a scratch buffer that the kernels of `parts` share.

    Accelerators copy rows of their inputs to scratch memory, so rows there need the alignment of
    the inputs."""
    return max((SCRATCH_ALIGNMENT_BYTES, *(part.kernel.alignment_bytes for part in parts)))


def _other_buffers(expanded: ExpandedSchedule) -> Iterator[tuple[str, LiveBuffer]]:
    """Yield (name of the memory region, buffer) for prefetched constants and scratch buffers."""
    yield from _prefetched(expanded)
    yield from _scratch(expanded)


def _prefetched(expanded: ExpandedSchedule) -> Iterator[tuple[str, LiveBuffer]]:
    """Yield (name of the memory region, buffer) for the target buffer of each prefetch.

    The buffer is live until the end of the cascade that reads the copy.  It becomes live when this
    cascade begins or, for an early prefetch, when the previous cascade begins.
    """
    before = 1
    for cascade in expanded.cascades:
        for prefetch in cascade.plan.prefetches:
            name = prefetch_name(expanded.schedule, prefetch)
            first = before if prefetch.early else cascade.tick
            size = prefetch.size_bytes
            buffer = LiveBuffer(name, first, cascade.end, size, SCRATCH_ALIGNMENT_BYTES)
            yield prefetch.target, buffer
        before = cascade.tick


def _scratch(expanded: ExpandedSchedule) -> Iterator[tuple[str, LiveBuffer]]:
    """Yield (name of the memory region, buffer) for the working memory of each cascade.

    That is the scratch memory, and the workspaces of kernels in memories of accelerators."""
    for cascade in expanded.cascades:
        for k in cascade.plan.parts:
            part = expanded.schedule.parts.parts[k]
            space = part.kernel.workspace
            if space is not None:
                name, alignment = workspace_name(expanded.schedule, part), scratch_alignment([part])
                buffer = LiveBuffer(name, cascade.tick, cascade.end, space.size_bytes, alignment)
                yield space.memory, buffer
        size = cascade.plan.scratch_block_bytes
        if size:
            name = scratch_name(expanded.schedule, cascade.plan)
            users = [expanded.schedule.parts.parts[k] for k in cascade.plan.parts]
            alignment = scratch_alignment(users)
            buffer = LiveBuffer(name, cascade.tick, cascade.end, size, alignment)
            yield expanded.schedule.memory.default, buffer
