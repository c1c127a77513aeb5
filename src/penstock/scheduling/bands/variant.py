"""Replaces each cascade or chain that runs in bands (intervals of columns) by a single part.  The
*original* parts are those before the replacement, from the stage `assign`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node
from penstock.ir.op import Kernel
from penstock.scheduling.bands.columns import PartColumnReads
from penstock.scheduling.cascades.candidate import Candidate, Chain
from penstock.scheduling.model.bands import Bands
from penstock.scheduling.model.fused_parts import FusionSource, fused_members
from penstock.scheduling.model.memories import MemoryAssignment
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.prefetch import Prefetch
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.row_copies.variant import without_row_copies
from penstock.scheduling.simulate.walk import WHOLE

KIND = "bands"
"""Name of the composite of the nodes that run in bands."""


@dataclass(frozen=True, slots=True)
class BandedCascade:
    """Parts that run as a single part, in bands of columns: a whole cascade, or one of its chains.

    parts: indices of these original parts in `Parts.parts`, in execution order.
    bands: the bands, each with a plan of its own.
    """

    parts: tuple[int, ...]
    bands: Bands


class BandSource(FusionSource, Protocol):
    """Creates the bands of a cascade, and the parts that run groups tile by tile, for a target.

    One source serves the searches for schedules of a graph and of its alternatives (graphs that
    compute the same outputs), so that they share cached results.
    """

    @property
    def reads(self) -> PartColumnReads:
        """Determines and caches which input columns a part reads to compute output columns."""
        ...

    def bands(
        self, parts: Parts, cascade: Sequence[int], candidate: Candidate
    ) -> tuple[BandedCascade, ...] | None:
        """Return the bands of a cascade: one entry for the whole cascade, or one for each chain.

        cascade: indices of the parts of the cascade, in execution order.
        candidate: the cascade as the search describes it.  It states the width of the bands, either
            for the whole cascade or for each of its chains.

        Returns None if a part cannot compute the columns of some band.
        """
        ...

    def costed(self, schedule: Schedule) -> Schedule:
        """Return a schedule with the costs of its chains.

        The costs depend on how many rows each call of a chain computes.  The schedule determines
        this number.
        """
        ...

    def row_cycles(self, part: Part) -> float:
        """Return the cycles of an output row of a part that do not depend on its number of columns.

        Such cycles are, for example, those before and after the loop over the columns.  If n bands
        divide a row, the part spends these cycles n times on the row.
        """
        ...


@dataclass(frozen=True, slots=True)
class AssignedPlan:
    """A plan (how one cascade runs) that refers to the original parts.

    plan: the plan; its field `parts` contains indices of original parts.
    columns: number of columns of a band; None if the plan does not run in bands.
    chains: the chains of the plan, in execution order.
    in_tiles: whether an accelerator runs the parts as one, tile by tile; `costs` then has a single
        entry.

    Some fields of `plan` have a special meaning.  If the plan runs in bands:
    - `stripe` and `scratch_bytes` apply inside each band.
    - `costs` has a single entry, the cost of all bands together.

    If the plan has chains:
    - `scratch_bytes` does not include the memory of the chains' intermediate tensors.
    - `costs` has one entry for all parts of a chain, in the place of the last one.
    """

    plan: Plan
    columns: int | None = None
    chains: tuple[Chain, ...] = ()
    in_tiles: bool = False

    @property
    def in_bands(self) -> bool:
        """Whether some parts run in bands of columns."""
        return self.columns is not None or bool(self.chains)

    def candidate(self, memory: MemoryAssignment) -> Candidate:
        """Return the plan as a candidate cascade, from which `BandSource.bands` creates its bands.

        The candidate is at positions [0, n) of an order of only the n parts of the plan.
        memory: memory assignment of the schedule.
        """
        plan = self.plan
        stripe = WHOLE if plan.stripe is None else plan.stripe
        return Candidate(
            0,
            len(plan.parts),
            stripe,
            plan.nearest_first,
            memory,
            scratch_bytes=plan.scratch_bytes,
            band_columns=self.columns,
            chains=self.chains,
        )


def assigned_plans(schedule: Schedule) -> tuple[AssignedPlan, ...]:
    """Return the plans of a schedule with indices of original parts, for the schedule's text.

    Where a part of the schedule replaces several original parts, the plan lists those instead.
    """
    if schedule.assigned is None:
        return tuple(AssignedPlan(without_row_copies(plan)) for plan in schedule.plans)
    numbers = {part.name: k for k, part in enumerate(schedule.assigned_parts.parts)}
    return tuple(_assigned_plan(schedule, plan, numbers) for plan in schedule.plans)


def _assigned_plan(schedule: Schedule, plan: Plan, numbers: Mapping[str, int]) -> AssignedPlan:
    """Return a plan of a schedule, converted to refer to the original parts."""
    members = fused_members(schedule.parts.parts[plan.parts[-1]])
    if members:
        return AssignedPlan(
            replace(plan, parts=tuple(numbers[name] for name in members)), in_tiles=True
        )
    index = {k: numbers[schedule.parts.parts[k].name] for k in plan.parts}
    plan, single = _renumbered(plan, index), plan.parts
    found: list[tuple[Bands, tuple[int, ...]]] = []
    for part in (schedule.parts.parts[k] for k in single):
        if (bands := schedule.find_bands(part)) is not None:
            op = part.nodes[-1].op
            assert isinstance(op, Composite)
            found.append((bands, tuple(numbers[node.name] for node in op.nodes)))
    if not found:
        return AssignedPlan(plan)
    bands, inside = found[0]
    plan = replace(plan, scratch_bytes=bands.scratch_bytes)
    if bands.call_rows is None:
        return AssignedPlan(replace(plan, parts=inside, stripe=bands.stripe), bands.width)
    chains = tuple(Chain(inside, bands.width, bands.keeps_halos) for bands, inside in found)
    ends = {chain.parts[-1]: chain.parts for chain in chains}
    every = tuple(k for last in plan.parts for k in ends.get(last, (last,)))
    return AssignedPlan(replace(plan, parts=every), None, chains)


def with_bands(
    parts: Parts, plans: Sequence[tuple[Plan, Sequence[BandedCascade]]]
) -> tuple[Parts, tuple[Plan, ...], tuple[Bands, ...]]:
    """Replace each cascade or chain that runs in bands by a single part.

    parts: the original parts.
    plans: pairs (plan, bands) in execution order.  The plan contains indices of original parts; the
        bands are those of the whole plan or of each of its chains, and empty if nothing runs in
        bands.  Each part is in one plan.

    Returns (new parts, new plans, all bands of `plans` in order).  In a new plan, the single part
    has the place of the last part that it replaces.  It stores the tensors between the replaced
    parts in scratch memory, for which `Plan.scratch_bytes` is large enough.  If a whole plan runs
    in bands, its single part is called once.
    """
    cascades = tuple(cascade for _, some in plans for cascade in some)
    composed, index = with_composites(parts, cascades)
    found: list[Plan] = []
    for plan, some in plans:
        before = {k for cascade in some for k in cascade.parts[:-1]}
        kept = tuple(k for k in plan.parts if k not in before)
        plan = _renumbered(replace(plan, parts=kept), index)
        if some:
            scratch = max(cascade.bands.call_scratch_bytes for cascade in some)
            plan = replace(plan, scratch_bytes=max(plan.scratch_bytes, scratch))
            if some[0].bands.call_rows is None:
                plan = replace(plan, stripe=None, nearest_first=False, scratch_bytes=scratch)
        found.append(plan)
    return composed, tuple(found), tuple(cascade.bands for cascade in cascades)


def _renumbered(plan: Plan, index: Mapping[int, int]) -> Plan:
    """Return the plan with new part indices."""
    prefetches = tuple(_with_part(prefetch, index) for prefetch in plan.prefetches)
    return replace(plan, parts=tuple(index[k] for k in plan.parts), prefetches=prefetches)


def _with_part(prefetch: Prefetch, index: Mapping[int, int]) -> Prefetch:
    copy = prefetch.accelerator
    if copy is None:
        return prefetch
    return replace(prefetch, accelerator=replace(copy, part=index[copy.part]))


def with_composites(
    parts: Parts, cascades: Sequence[BandedCascade]
) -> tuple[Parts, Mapping[int, int]]:
    """Replace the parts that run in the same bands by a single part; return (new parts, index).

    parts: the original parts.
    index: map from the index of each original part to its index in the new parts.  All parts that
        run in the same bands have the index of the single part.
    """
    groups = {k: cascade for cascade in cascades for k in cascade.parts}
    composites = {cascade.bands.name: _composite(parts, cascade) for cascade in cascades}
    inside = {parts.parts[k].name for k in groups} - composites.keys()
    nodes = [composites.get(n.name, n) for n in parts.graph.nodes if n.name not in inside]
    found: list[Part] = []
    index: dict[int, int] = {}
    for k, part in enumerate(parts.parts):
        if part.name in composites:
            node = composites[part.name]
            index |= dict.fromkeys(groups[k].parts, len(found))
            found.append(Part((node,), part.engine, node.op.kernel(node.site)))
        elif k not in groups:
            index[k] = len(found)
            found.append(part)
    graph = parts.graph.with_nodes(tuple(_in_order(parts.graph, nodes)))
    return replace(parts, graph=graph, parts=tuple(found)), index


def _composite(parts: Parts, cascade: BandedCascade) -> Node:
    """Return the composite node that replaces all nodes that run in the same bands."""
    every = [parts.parts[k] for k in cascade.parts]
    nodes = tuple(node for part in every for node in part.nodes)
    made = {node.name for node in nodes}
    read = (v for node in nodes for v in node.inputs if v.name not in made)
    inputs = tuple({v.name: v for v in read}.values())
    by_rows = cascade.bands.call_rows is not None
    alignment = max(part.kernel.alignment_bytes for part in every)
    scratch = cascade.bands.call_scratch_bytes
    kernel = Kernel(KIND, scratch_bytes=scratch, by_rows=by_rows, alignment_bytes=alignment)
    names = tuple(v.name for v in inputs)
    op = Composite(KIND, every[-1].engine, nodes, names, chosen=kernel)
    return Node(op, inputs, nodes[-1].output, nodes[-1].origin)


def _in_order(graph: Graph, nodes: Sequence[Node]) -> Iterator[Node]:
    """Yield `nodes` in a topological order, since a composite may precede nodes that it reads from.

    Of the nodes whose inputs are available, the one that comes first in `nodes` is next.
    """
    known = {value.name for value in graph.sources}
    waiting = list(nodes)
    while waiting:
        ready = next(n for n in waiting if all(v.name in known for v in n.variable_inputs))
        waiting.remove(ready)
        known.add(ready.name)
        yield ready
