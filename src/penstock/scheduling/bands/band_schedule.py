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
from penstock.scheduling.model.memories import MemoryAssignment, MemorySystem
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.schedule import Gaps, Schedule
from penstock.scheduling.simulate.cost_accounting import CostAccounting
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule
from penstock.scheduling.simulate.placement_problems import (
    ALIGNMENT_BYTES,
    placement_problems,
    scratch_alignment,
    scratch_name,
    storage_alignments,
)
from penstock.scheduling.simulate.row_tables import Numbers, RowTables

_NO_GAPS = Gaps(0.0, 0.0)


def expanded_band(band: Band, memory: MemoryAssignment) -> ExpandedSchedule:
    """Return the schedule of a single band, expanded into calls.

    memory: memory assignment of the network; its default region holds all tensors of the band.
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
    """Plan one band as a cascade, and place its tensors in the scratch memory of the band.

    The scratch memory of the band consists of memory blocks: those of its intermediate tensors, and
    a scratch buffer, which the kernels use one after the other.

    parts: the parts that compute the band.
    stripe: maximum number of output rows per call; None: all rows.
    scratch_bytes: maximum size of the scratch buffer.  A part runs its preferred kernel if that
        needs no more scratch memory, else its fallback kernel.

    Returns (plan, offsets, size).
    plan: the plan of the band, with its cost.
    offsets: offset of each block in the scratch memory of the band, in bytes, by block name.
    size: bytes of the scratch memory of the band.
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

    scratch_bytes: maximum size of the scratch buffer of the kernels.  A part runs its preferred
        kernel if that needs no more scratch memory, else its fallback kernel.
        `Plan.scratch_bytes` of the result is the size that these kernels need, which may be less.
    """
    scratch = max(part.kernel_within(scratch_bytes).scratch_bytes for part in parts.parts)
    order = tuple(range(len(parts.parts)))
    return Plan(order, stripe, nearest_first=False, costs=(), scratch_bytes=scratch)


def planned_chain(
    parts: Parts, call_rows: int, scratch_bytes: int, memories: MemorySystem
) -> tuple[Plan, Mapping[str, int], Mapping[str, int], int]:
    """Plan one band of a chain, and place its intermediate tensors in the chain's scratch memory.

    During a call, the scratch memory of the chain consists of memory blocks: one for each of these
    tensors, and a scratch buffer, which the kernels use one after the other.

    parts: the parts that compute the band.
    call_rows: maximum number of rows of the chain's output that a call computes.
    scratch_bytes: maximum size of the scratch buffer.  A part runs its preferred kernel if that
        needs no more scratch memory, else its fallback kernel.

    Returns (plan, offsets, slots, size).
    plan: the plan of the band, without costs, because these depend on the calls of the chain.
    offsets: offset of each block in the scratch memory of the chain, in bytes, by block name.
    slots: number of rows that the block of each intermediate tensor can hold, by tensor name.
    size: bytes of the scratch memory that these blocks need.
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
        buffers.append(LiveBuffer(name, *live, size, scratch_alignment(parts.parts)))
    placement = place(PlacementProblem(tuple(buffers)))
    return plan, dict(placement.offsets), slots, placement.height_bytes


def kept_tensors(
    bands: Sequence[tuple[Parts, Mapping[str, tuple[str, int]]]],
    call_rows: int,
    memories: MemorySystem,
    offset: int,
) -> tuple[KeptTensor, ...] | None:
    """Return the memory in which the bands of a chain keep columns, one entry per kept tensor.

    A kept tensor is a tensor of the network of which each band keeps some columns for the next
    band.  The graph of a band has a tensor for the columns that the band holds.
    bands: for each band, (parts, places).  `places` maps the name of each such tensor to (name of
        the kept tensor, byte at which the columns begin in each row of the kept tensor's memory).
    call_rows: maximum number of rows of the chain's output that a call computes.
    offset: byte in the scratch memory of the chain at which the memory of the kept tensors begins.

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
    """Return the maximum number of rows of a tensor that a call of a chain computes.

    window: arrays (lower, upper).  A call that computes rows [first, end) of the chain's output
        computes rows [lower[first], upper[end]) of the tensor.
    """
    lower, upper = window
    firsts = np.arange(len(lower) - 1)
    ends = np.minimum(firsts + call_rows, len(firsts))
    return int((upper[ends] - lower[firsts]).max())


def row_windows(tables: RowTables) -> tuple[tuple[Numbers, Numbers], ...]:
    """Return which rows each part of a chain computes in a call, as arrays (lower, upper) per part.

    tables: the parts of the chain; each one but the last writes a storage that a later one reads.

    If a call of the chain computes rows [first, end) of its output, the part with the arrays
    (lower, upper) computes rows [lower[first], upper[end]) in this call.  Example: the last part is
    a 3x3 convolution with padding, and its output has 8 rows.  The part that computes its input has
    the arrays lower = [0, 0, 1, 2, ..] and upper = [0, 2, 3, 4, ..].  A call for rows [1, 3) of the
    output computes rows [lower[1], upper[3]) = [0, 4) of the input.
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
