"""Replaces each cascade or chain that runs in bands of columns by a single part, and back.

The *original* parts are those before the replacement, from the stage `assign`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from penstock.ir.columns import COLUMNS
from penstock.ir.composite import Composite
from penstock.ir.graph import Node
from penstock.ir.op import Kernel
from penstock.scheduling.bands.columns import PartColumnReads, computes_columns
from penstock.scheduling.model.bands import Bands
from penstock.scheduling.model.fused_parts import FusedPart, FusionSource, fused_members, with_fused
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import Chain, Plan
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.simulate.walk import WHOLE

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
    columns = found[-1].output.type.shape[COLUMNS]
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
    nodes = tuple(node for part in every for node in part.nodes)
    made = {node.name for node in nodes}
    read = (v for node in nodes for v in node.inputs if v.name not in made)
    inputs = tuple({v.name: v for v in read}.values())
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
