"""Schedule of a single band: the parts of a cascade, restricted to an interval of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from penstock.ir.op import row_count
from penstock.memory.place import place
from penstock.memory.problem import LiveBuffer, PlacementProblem
from penstock.scheduling.model.bands import Band, KeptTensor
from penstock.scheduling.model.cost import CostModel
from penstock.scheduling.model.memories import MemorySystem
from penstock.scheduling.model.memory_assignment import MemoryAssignment
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.schedule import Gaps, Schedule
from penstock.scheduling.simulate.cost_accounting import CostAccounting
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule
from penstock.scheduling.simulate.placement_problems import (
    ALIGNMENT_BYTES,
    SCRATCH_ALIGNMENT_BYTES,
    placement_problems,
    scratch_name,
    storage_alignments,
)
from penstock.scheduling.simulate.row_tables import Numbers, RowTables

_NO_GAPS = Gaps(0.0, 0.0)


def expanded_band(band: Band, memory: MemoryAssignment) -> ExpandedSchedule:
    """Return the schedule of a single band, expanded into calls.

    memory: memory assignment of the network.  A band uses only the default memory region.
    """
    return _expanded(band.parts, band.plan, replace(memory, exceptions=()))


def _expanded(parts: Parts, plan: Plan, memory: MemoryAssignment) -> ExpandedSchedule:
    return ExpandedSchedule(
        Schedule(parts, (plan,), memory, None, keep_inputs=True, peak_bytes=0, gaps=_NO_GAPS)
    )


def planned(
    parts: Parts,
    stripe: int | None,
    scratch_bytes: int,
    model: CostModel,
    memories: MemorySystem,
) -> tuple[Plan, dict[str, int], int]:
    """Plan one band as a cascade and place its tensors; return (plan, offsets, arena size).

    parts: the parts that compute the band.
    stripe: maximum number of output rows per call; None: all rows.
    scratch_bytes: available scratch memory.  A part runs its preferred kernel if this suffices,
        else its fallback kernel.

    The plan includes its cost.  The offsets, in bytes, are those of the memory blocks in the arena,
    by block name.  The arena size is in bytes.
    """
    bare = _bare_plan(parts, stripe, scratch_bytes)
    expanded = _expanded(parts, bare, memories.default_assignment)
    (cascade,) = expanded.cascades
    plan = CostAccounting(parts, model, memories).costed(expanded.schedule, cascade)
    ((_, problem),) = placement_problems(expanded)
    placement = place(problem)
    return plan, dict(placement.offsets), placement.height_bytes


def _bare_plan(parts: Parts, stripe: int | None, scratch_bytes: int) -> Plan:
    """Return the plan of a band, without costs.

    scratch_bytes: available scratch memory.  A part runs its preferred kernel if this suffices,
        else its fallback kernel.  The plan has the scratch memory that these kernels need.
    """
    scratch = max(part.kernel_within(scratch_bytes).scratch_bytes for part in parts.parts)
    order = tuple(range(len(parts.parts)))
    return Plan(order, stripe, nearest_first=False, costs=(), scratch_bytes=scratch)


def planned_chain(
    parts: Parts, call_rows: int, scratch_bytes: int, memories: MemorySystem
) -> tuple[Plan, Mapping[str, int], Mapping[str, int], int]:
    """Plan one band of a chain, and place its intermediate tensors for one call.

    call_rows: largest number of rows of a call.
    scratch_bytes: available scratch memory.  A part runs its preferred kernel if this suffices,
        else its fallback kernel.

    Returns (plan, offsets, slots, arena size).  The plan has no costs.  The offsets, in bytes, are
    those of the memory blocks in the arena, by block name.  The slots are the number of rows for
    which the arena has space, by name of the intermediate tensor.  The arena size is in bytes.
    """
    plan = _bare_plan(parts, None, scratch_bytes)
    expanded = _expanded(parts, plan, memories.default_assignment)
    tables = expanded.tables
    windows = row_windows(tables)
    slots: dict[str, int] = {}
    alignments = storage_alignments(parts)
    buffers: list[LiveBuffer] = []
    for k, part in enumerate(parts.parts[:-1]):
        storage = int(tables.written[k])
        if parts.owners[part.name] in parts.outside:
            continue
        slots[part.name] = _most_rows(windows[k], call_rows)
        size = slots[part.name] * int(tables.row_bytes[storage])
        dead = int(tables.last[storage]) + 1
        alignment = alignments.get(part.name, ALIGNMENT_BYTES)
        buffers.append(LiveBuffer(part.name, k, dead, size, alignment))
    users = [k for k, part in enumerate(expanded.schedule.steps) if part.kernel.scratch_bytes]
    if users:
        name, size = scratch_name(expanded.schedule, plan), plan.scratch_bytes
        live = users[0], users[-1] + 1
        buffers.append(LiveBuffer(name, *live, size, SCRATCH_ALIGNMENT_BYTES))
    placement = place(PlacementProblem(tuple(buffers)))
    return plan, dict(placement.offsets), slots, placement.height_bytes


def kept_tensors(
    bands: Sequence[tuple[Parts, Mapping[str, tuple[str, int]]]],
    call_rows: int,
    memories: MemorySystem,
    offset: int,
) -> tuple[KeptTensor, ...] | None:
    """Return the memory in which the bands of a chain keep columns, one entry per kept tensor.

    bands: for each band, its parts, and a map that has an entry for each value of the band that is
        stored in the memory of a kept tensor.  Key: name of the value.  Entry: (name of the kept
        tensor, offset in bytes at which the value begins in each row of that memory).
    call_rows: largest number of rows of a call.
    offset: offset in the arena, in bytes, at which the memory of the first kept tensor begins.

    Returns None if two bands compute different rows of a kept tensor in the same call.
    """
    windows: dict[str, tuple[Numbers, Numbers]] = {}
    row_bytes: dict[str, int] = {}
    for parts, values in bands:
        types = {value.name: value.type for value in parts.graph.variables()}
        for value, (tensor, first_byte) in values.items():
            shape, size_bytes = types[value].shape, types[value].size_bytes
            end = first_byte + size_bytes // row_count(shape)
            row_bytes[tensor] = max(row_bytes.get(tensor, 0), end)
        tables = _expanded(parts, _bare_plan(parts, None, 0), memories.default_assignment).tables
        for part, window in zip(parts.parts, row_windows(tables), strict=True):
            owner = parts.owners[part.name]
            if owner in values:
                known = windows.setdefault(values[owner][0], window)
                if not all(map(np.array_equal, known, window)):
                    return None
    found: list[KeptTensor] = []
    for tensor, window in windows.items():
        offset = -(-offset // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        found.append(KeptTensor(tensor, offset, row_bytes[tensor], _most_rows(window, call_rows)))
        offset += found[-1].size_bytes
    return tuple(found)


def _most_rows(window: tuple[Numbers, Numbers], call_rows: int) -> int:
    """Return the largest number of rows of a tensor that a call of a chain computes.

    window: the arrays (lower, upper) of the part that computes the tensor (`row_windows`).
    call_rows: largest number of rows of a call.
    """
    lower, upper = window
    firsts = np.arange(len(lower) - 1)
    ends = np.minimum(firsts + call_rows, len(firsts))
    return int((upper[ends] - lower[firsts]).max())


def row_windows(tables: RowTables) -> tuple[tuple[Numbers, Numbers], ...]:
    """Return which rows each part of a chain computes in a call, as arrays (lower, upper) per part.

    tables: the parts of the chain; each one but the last writes a storage that a later one reads.

    If a call of the chain computes rows [first, end) of its output, the part with the arrays
    (lower, upper) computes rows [lower[first], upper[end]) in this call.
    """
    last = int(tables.written[-1])
    counts = np.arange(int(tables.rows[last]) + 1)
    found: dict[int, tuple[Numbers, Numbers]] = {last: (counts, counts)}
    for k in range(len(tables.written) - 1, -1, -1):
        lower, upper = found[int(tables.written[k])]
        for e in range(tables.reads[k], tables.reads[k + 1]):
            storage = int(tables.storage[e])
            one = tables.done[tables.table[e] + lower], tables.needed[tables.table[e] + upper]
            other = found.get(storage, one)
            found[storage] = np.minimum(one[0], other[0]), np.maximum(one[1], other[1])
    return tuple(found[int(storage)] for storage in tables.written)
