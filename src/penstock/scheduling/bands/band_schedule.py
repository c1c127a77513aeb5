"""The schedule of a band: the parts of a cascade or chain, restricted to an interval of columns.

A band is planned and placed like a network of its own (`planned_band`).  It is simulated and priced
with its calls (`band_cascade`): a cascade in bands runs all rows of a band in one call of the part
that stands for it; a chain runs the rows that each call needs.

`with_bands` replaces each cascade or chain in bands by a single part, `assigned_plans` states plans
in terms of the *original* parts again, those from the stage `assign`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from penstock.frozen import frozen
from penstock.ir.composite import Composite
from penstock.ir.graph import Node
from penstock.ir.op import Kernel
from penstock.ir.tensor import COLUMNS, row_count
from penstock.memory.place import place
from penstock.memory.problem import LiveBuffer, PlacementProblem
from penstock.scheduling.bands.chains import RowWindow, row_windows
from penstock.scheduling.bands.columns import PartColumnReads, computes_columns
from penstock.scheduling.model.bands import Band, Bands, KeptTensor, TensorSection
from penstock.scheduling.model.cost import CostModel
from penstock.scheduling.model.memories import MemoryAssignment, MemorySystem
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import (
    FusedPart,
    FusionSource,
    Parts,
    fused_members,
    joined_nodes,
    update_name,
    with_fused,
)
from penstock.scheduling.model.plan import BufferMode, Chain, Plan, TensorConfig
from penstock.scheduling.model.schedule import Gaps, Schedule
from penstock.scheduling.model.stripe import Stripes, whole_tensor
from penstock.scheduling.simulate.cost_accounting import CostAccounting
from penstock.scheduling.simulate.expanded_schedule import (
    ALIGNMENT_BYTES,
    ExpandedCascade,
    ExpandedSchedule,
    placement_problems,
    scratch_alignment,
    scratch_name,
    storage_alignments,
)
from penstock.scheduling.simulate.walk import WHOLE

_NO_GAPS = Gaps(0.0, 0.0)


def expanded_band(band: Band, memory: MemoryAssignment) -> ExpandedSchedule:
    """The schedule of a single band; `memory` is the assignment of the network."""
    # all tensors of a band are in the scratch memory of a part, which is in the default region
    return _expanded(band.parts, band.plan, replace(memory, exceptions=()))


def _expanded(parts: Parts, plan: Plan, memory: MemoryAssignment) -> ExpandedSchedule:
    return ExpandedSchedule(
        Schedule(parts, (plan,), memory, keep_inputs=True, peak_bytes=0, gaps=_NO_GAPS)
    )


def _every_position(parts: Parts) -> tuple[int, ...]:
    return tuple(range(len(parts.parts)))


def band_windows(inner: ExpandedSchedule) -> tuple[RowWindow, ...]:
    """The rows that each part of a band of a chain computes in a call of the chain."""
    return row_windows(inner.tables, _every_position(inner.schedule.parts))


def band_cascade(
    inner: ExpandedSchedule, bands: Bands, cascade: ExpandedCascade
) -> ExpandedCascade:
    """One band, which is expanded as `inner`, with its calls in a run of the network.

    cascade: the cascade of the network with the part that stands for `bands`.
    """
    if bands.call_rows is None:
        (found,) = inner.cascades
        return found
    windows = band_windows(inner)
    calls = [
        (k, int(lower[first]), int(upper[end]), k)
        for first, end in _calls(bands, cascade).tolist()
        for k, (lower, upper, _) in enumerate(windows)
    ]
    parts, (plan,) = inner.schedule.parts, inner.schedule.plans
    return ExpandedCascade(parts, plan, 0, len(parts.parts), 1, np.array(calls, np.int64))


def _calls(bands: Bands, cascade: ExpandedCascade) -> np.ndarray:
    """The rows [first, end) of each call of the part that stands for `bands`: (calls, 2)."""
    names = [cascade.parts.parts[k].name for k in cascade.plan.parts]
    position = cascade.lower + names.index(bands.name)
    return cascade.calls[cascade.calls[:, 0] == position, 1:3]


# Costs.


@frozen
class BandKey:
    """What determines the cost of a band in a network."""

    keeps_halos: bool
    # such as "conv[0:18] of [0:16]", for columns [0, 18) of "conv" in the band [0, 16)
    parts: tuple[str, ...]
    plan: Plan  # without costs
    memory: MemoryAssignment
    calls: bytes  # of the part that stands for the bands, since arrays cannot be hashed


def with_band_costs(
    expanded: ExpandedSchedule,
    model: CostModel,
    memories: MemorySystem,
    known: dict[BandKey, Plan],
) -> Schedule:
    """The schedule, with costs in the plan of each band.

    known: plans with costs of bands in other schedules of the same graph; extended.
    """
    schedule = expanded.schedule
    if not schedule.bands:
        return schedule
    cascades = {
        schedule.parts.parts[k].name: cascade
        for cascade in expanded.cascades
        for k in cascade.plan.parts
    }

    def costed(bands: Bands) -> Bands:
        cascade = cascades[bands.name]
        calls = _calls(bands, cascade).tobytes()
        found: list[Band] = []
        for band in bands.bands:
            names = tuple(part.name for part in band.parts.parts)
            key = BandKey(bands.keeps_halos, names, band.plan.bare, schedule.memory, calls)
            if key not in known:
                inner = expanded_band(band, schedule.memory)
                accounting = CostAccounting(band.parts, model, memories)
                calls_inside = band_cascade(inner, bands, cascade)
                known[key] = accounting.costed(inner.schedule, calls_inside)
            found.append(replace(band, plan=known[key]))
        return replace(bands, bands=tuple(found))

    return replace(schedule, bands=tuple(map(costed, schedule.bands)))


# Scratch memory.


@frozen
class BandSize:
    """How much a call inside a band computes, and the scratch memory of its kernels."""

    stripe: int | None  # `Plan.stripe`
    call_rows: int | None  # `Bands.call_rows`
    scratch_bytes: int  # a part runs its preferred kernel if that needs no more


def planned_band(
    parts: Parts,
    sections: tuple[TensorSection, ...],
    size: BandSize,
    memories: MemorySystem,
    kept: Mapping[str, int],
) -> Band:
    """Plan a band, without costs, and place its memory blocks in its scratch memory.

    The blocks are its intermediate tensors and a scratch buffer, which the kernels use one after
    the other.

    parts: those that compute the band.
    kept: see `Band.kept`.
    """
    kernels = (part.kernel_within(size.scratch_bytes) for part in parts.parts)
    scratch = max(kernel.most_scratch_bytes for kernel in kernels)
    order = _every_position(parts)
    plan = Plan(order, size.stripe, scratch_bytes=scratch)
    expanded = _expanded(parts, plan, memories.default_assignment)
    slots: dict[str, int] = {}
    if size.call_rows is None:
        ((_, problem),) = placement_problems(expanded)
    else:
        slots = _slots(expanded, size.call_rows)
        problem = _chain_problem(expanded, slots)
    placement = place(problem)
    return Band(parts, plan, sections, dict(placement.offsets), placement.height_bytes, slots, kept)


def _slots(expanded: ExpandedSchedule, call_rows: int) -> dict[str, int]:
    parts = expanded.schedule.parts
    return {
        part.name: window.most_rows(call_rows)
        for part, window in zip(parts.parts[:-1], band_windows(expanded), strict=False)
        if parts.owners[part.name] not in parts.outside
    }


def _chain_problem(expanded: ExpandedSchedule, slots: Mapping[str, int]) -> PlacementProblem:
    """The blocks of a band of a chain; their live ranges are positions of parts, not of calls."""
    schedule, tables = expanded.schedule, expanded.tables
    alignments = storage_alignments(schedule.parts)
    buffers: list[LiveBuffer] = []
    for k, part in enumerate(schedule.parts.parts):
        if part.name in slots:
            storage = int(tables.written[k])
            size = slots[part.name] * int(tables.row_bytes[storage])
            dead = int(tables.last[storage]) + 1
            alignment = alignments.get(part.name, ALIGNMENT_BYTES)
            buffers.append(LiveBuffer(part.name, k, dead, size, alignment))
    users = [k for k, part in enumerate(schedule.steps) if part.kernel.most_scratch_bytes]
    if users:
        (plan,) = schedule.plans
        name, size = scratch_name(schedule, plan), plan.scratch_bytes
        live = users[0], users[-1] + 1
        buffers.append(LiveBuffer(name, *live, size, scratch_alignment(schedule.parts.parts)))
    return PlacementProblem(tuple(buffers))


def kept_tensors(
    bands: Sequence[Band], call_rows: int, memories: MemorySystem, offset: int
) -> tuple[KeptTensor, ...] | None:
    """The memory in which the bands of a chain keep columns, one entry per kept tensor.

    offset: byte in the scratch memory of the chain at which this memory begins.

    None if two bands compute different rows of a kept tensor in the same call.
    """
    windows: dict[str, RowWindow] = {}
    row_bytes: dict[str, int] = {}
    for band in bands:
        parts, tensors = band.parts, band.tensors
        types = {value.name: value.type for value in parts.graph.variables()}
        for value, first_byte in band.kept.items():
            end = first_byte + types[value].size_bytes // row_count(types[value].shape)
            row_bytes[tensors[value]] = max(row_bytes.get(tensors[value], 0), end)
        inner = _expanded(parts, band.plan, memories.default_assignment)
        for part, window in zip(parts.parts, band_windows(inner), strict=True):
            owner = parts.owners[part.name]
            if owner in band.kept:
                known = windows.setdefault(tensors[owner], window)
                if not all(map(np.array_equal, known, window)):
                    return None
    found: list[KeptTensor] = []
    for tensor, window in windows.items():
        offset = -(-offset // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        found.append(KeptTensor(tensor, offset, row_bytes[tensor], window.most_rows(call_rows)))
        offset += found[-1].size_bytes
    return tuple(found)


# Stripes.


def tensor_configs(expanded: ExpandedSchedule) -> Iterator[TensorConfig]:
    """The stripes of each tensor that a schedule computes, in execution order.

    The states, which updates overwrite at the end of a run, come last.
    """
    schedule = expanded.schedule
    for cascade in expanded.cascades:
        yield from plan_configs(expanded, cascade)
    for part in schedule.parts.updates:
        region = schedule.memory.region(schedule.parts.owners[part.output.name])
        stripes = (whole_tensor(part.output.shape),)
        name = update_name(schedule.parts, part.output)
        yield TensorConfig(name, region, BufferMode.FULL, stripes)


def plan_configs(expanded: ExpandedSchedule, cascade: ExpandedCascade) -> Iterator[TensorConfig]:
    schedule = expanded.schedule
    parts, memory = schedule.parts, schedule.memory
    for position, stripes in enumerate(cascade.stripes, cascade.lower):
        part = parts.parts[cascade.plan.parts[position - cascade.lower]]
        bands = schedule.find_bands(part)
        mode = _mode(expanded, cascade, position)
        if bands is not None:
            yield from _configs_in_bands(bands, schedule, cascade, mode)
            continue
        region = memory.region(parts.owners[part.name])
        yield TensorConfig(part.name, region, mode, stripes)


def _configs_in_bands(
    bands: Bands, schedule: Schedule, cascade: ExpandedCascade, output_mode: BufferMode
) -> Iterator[TensorConfig]:
    memory, owners = schedule.memory, schedule.parts.owners
    found: dict[str, Stripes] = {}
    for band in bands.bands:
        for value, stripes in band_stripes(bands, band, cascade, memory).items():
            name = band.tensors[value]
            found[name] = (*found.get(name, ()), *stripes)
    for name, stripes in found.items():
        mode = output_mode if name == bands.name else BufferMode.RECOMPUTE
        yield TensorConfig(name, memory.region(owners.get(name, name)), mode, stripes)


def band_stripes(
    bands: Bands, band: Band, cascade: ExpandedCascade, memory: MemoryAssignment
) -> Mapping[str, Stripes]:
    """The stripes of tensors of the network that one of `bands.bands` computes.

    They cover all bands for which `band` stands.  Keys: names of the tensors in the graph of the
    band, each of which consists of some columns of a tensor of the network.

    cascade, memory: those of the network.
    """
    inner = band_cascade(expanded_band(band, memory), bands, cascade)
    sections = {section.value: section for section in band.sections}
    names = [band.parts.parts[k].name for k in inner.plan.parts]
    return {
        name: tuple(map(sections[name].nested, stripes))
        for name, stripes in zip(names, inner.stripes, strict=True)
    }


def _mode(expanded: ExpandedSchedule, cascade: ExpandedCascade, position: int) -> BufferMode:
    tables = expanded.tables
    inside = int(tables.last[tables.written[position]]) < cascade.upper
    several = len(cascade.calls[cascade.calls[:, 0] == position]) > 1
    return BufferMode.ROLLING if inside and several else BufferMode.FULL


KIND = "bands"
"""Name of the composite of the nodes that run in bands."""


# One source serves a graph and its alternatives, so that they share cached results.
class BandSource(FusionSource, Protocol):
    """Creates the bands of a cascade, and the parts that run groups tile by tile, for a target."""

    @property
    def reads(self) -> PartColumnReads: ...

    def bands(self, parts: Parts, plan: Plan) -> tuple[Bands, ...] | None:
        """The bands, without costs, of a whole cascade or of each chain; None if impossible."""
        ...

    def costed(self, schedule: Schedule) -> Schedule:
        """The schedule with costs of its bands, which depend on the rows that its calls compute."""
        ...

    def row_cycles(self, part: Part) -> float:
        """Cycles of an output row that do not depend on its columns: n bands spend them n times."""
        ...


def can_run_in_bands(parts: Parts, cascade: Sequence[int], width: int, stripe: int | None) -> bool:
    """Whether a cascade, given by the indices of its parts, may run in bands of `width` columns.

    stripe: see `Plan.stripe`.

    Necessary, not sufficient: an operator may be unable to compute the columns of some band.
    """
    found = [parts.parts[k] for k in cascade]
    if not found or not all(map(computes_columns, found)):
        return False
    columns = found[-1].output.shape[COLUMNS]
    if not 1 <= width <= columns or (stripe is not None and not 1 <= stripe <= WHOLE):
        return False
    return all(_is_read_later_only(parts, cascade, p) for p in range(len(cascade) - 1))


def _is_read_later_only(parts: Parts, cascade: Sequence[int], p: int) -> bool:
    name = parts.parts[cascade[p]].name
    if any(value.name == name for value in parts.graph.results):
        return False
    later = {parts.parts[k].name for k in cascade[p + 1 :]}
    readers = parts.graph.consumers().get(name, ())
    return bool(readers) and all(node.name in later for node in readers)


def assigned_plans(schedule: Schedule) -> tuple[Plan, ...]:
    """The plans of a schedule in terms of the original parts, for the schedule's text."""
    if schedule.assigned is None:
        return schedule.plans
    numbers = {part.name: k for k, part in enumerate(schedule.assigned_parts.parts)}
    return tuple(_assigned_plan(schedule, plan, numbers) for plan in schedule.plans)


def _assigned_plan(schedule: Schedule, plan: Plan, numbers: Mapping[str, int]) -> Plan:
    parts = schedule.parts.parts
    members = fused_members(parts[plan.parts[-1]])
    if members:
        return replace(plan, parts=tuple(numbers[name] for name in members), in_tiles=True)
    found = [b for k in plan.parts if (b := schedule.find_bands(parts[k])) is not None]
    # the single part has the name of the last part that it replaces
    plan = _renumbered(plan, {k: numbers[parts[k].name] for k in plan.parts})
    if not found:
        return plan
    plan = replace(plan, scratch_bytes=found[0].scratch_bytes)
    if found[0].call_rows is None:
        (bands,) = found
        return replace(plan, parts=bands.members, stripe=bands.stripe, columns=bands.width)
    chains = tuple(Chain(bands.members, bands.width, bands.keeps_halos) for bands in found)
    ends = {chain.parts[-1]: chain.parts for chain in chains}
    every = tuple(k for last in plan.parts for k in ends.get(last, (last,)))
    return replace(plan, parts=every, chains=chains)


def with_bands(
    parts: Parts, plans: Sequence[tuple[Plan, Sequence[Bands]]]
) -> tuple[Parts, tuple[Plan, ...], tuple[Bands, ...]]:
    """Replace what runs in bands by single parts: (new parts, new plans, all bands in order).

    plans: in execution order, in terms of the original parts, and the bands of the whole plan or of
        each of its chains.
    """
    every = tuple(bands for _, some in plans for bands in some)
    new = with_fused(parts, [(bands.members, _single_part(parts, bands)) for bands in every])
    found: list[Plan] = []
    for plan, some in plans:
        before = {k for bands in some for k in bands.members[:-1]}
        # The single part has the place of the last part that it replaces, and stores the tensors
        # between these parts in scratch memory.
        kept = tuple(k for k in plan.parts if k not in before)
        plan = _renumbered(
            replace(plan, parts=kept, columns=None, chains=()), dict(enumerate(new.index))
        )
        if some:
            scratch = max(bands.call_scratch_bytes for bands in some)
            plan = replace(plan, scratch_bytes=max(plan.scratch_bytes, scratch))
            if some[0].call_rows is None:
                plan = replace(plan, stripe=None, nearest_first=False, scratch_bytes=scratch)
        found.append(plan)
    return new.parts, tuple(found), every


def _renumbered(plan: Plan, index: Mapping[int, int]) -> Plan:
    prefetches = tuple(replace(one, part=index[one.part]) for one in plan.prefetches)
    return replace(plan, parts=tuple(index[k] for k in plan.parts), prefetches=prefetches)


def _single_part(parts: Parts, bands: Bands) -> FusedPart:
    every = [parts.parts[k] for k in bands.members]
    nodes, inputs = joined_nodes(every)
    by_rows = bands.call_rows is not None
    alignment = max(part.kernel.alignment_bytes for part in every)
    scratch = bands.call_scratch_bytes
    kernel = Kernel(
        KIND,
        scratch_bytes=scratch,
        by_rows=by_rows,
        alignment_bytes=alignment,
        cache_line_bytes=max(part.kernel.cache_line_bytes for part in every),
    )
    names = tuple(v.name for v in inputs)
    op = Composite(KIND, every[-1].engine, nodes, names, chosen=kernel)
    node = Node(op, inputs, nodes[-1].output, nodes[-1].origin)
    return FusedPart(Part((node,), op.engine, kernel))
