"""Replaces each cascade that runs in bands (intervals of columns) by a single part.  The *original*
parts are those before the replacement, from the stage `assign`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node
from penstock.ir.op import Kernel
from penstock.scheduling.cascades.candidate import Candidate
from penstock.scheduling.model.bands import Bands
from penstock.scheduling.model.memory_assignment import MemoryAssignment
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.prefetch import Prefetch
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.row_copies.variant import without_row_copies
from penstock.scheduling.simulate.execution import WHOLE

KIND = "bands"
"""Name of the composite of the nodes that run in bands."""


@dataclass(frozen=True, slots=True)
class BandedCascade:
    """A cascade that runs in bands of columns.

    parts: indices of its original parts in `Parts.parts`, in execution order.
    bands: its bands, each with its own plan.
    """

    parts: tuple[int, ...]
    bands: Bands


BandSource = Callable[[Parts, Sequence[int], Candidate], BandedCascade | None]
"""Function (parts, cascade, candidate) -> the bands of a cascade; None if there are none.

cascade: indices of its parts, in execution order.
"""


@dataclass(frozen=True, slots=True)
class AssignedPlan:
    """A plan (how one cascade runs) that refers to the original parts.

    plan: its field `parts` contains indices of original parts.  If the plan runs in bands, its
        `stripe` and `scratch_bytes` apply inside each band, and `costs` has a single entry: the
        cost of all bands together.
    columns: number of columns of a band; None if the plan does not run in bands.
    """

    plan: Plan
    columns: int | None = None

    def candidate(self, memory: MemoryAssignment) -> Candidate:
        """Return the plan as a candidate cascade at positions [0, number of parts) of an order.

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
        )


def assigned_plans(schedule: Schedule) -> tuple[AssignedPlan, ...]:
    """Return the plans of a schedule, converted to refer to the original parts."""
    if not schedule.bands:
        return tuple(AssignedPlan(without_row_copies(plan)) for plan in schedule.plans)
    numbers = {part.name: k for k, part in enumerate(schedule.assigned_parts.parts)}
    index = {k: numbers[part.name] for k, part in enumerate(schedule.parts.parts)}
    found: list[AssignedPlan] = []
    for plan in schedule.plans:
        only = schedule.parts.parts[plan.parts[0]]
        bands = schedule.find_bands(only)
        if bands is None:
            found.append(AssignedPlan(_renumbered(plan, index)))
            continue
        op = only.nodes[-1].op
        assert isinstance(op, Composite)
        inside = tuple(numbers[node.name] for node in op.nodes)
        scratch = bands.scratch_bytes
        plan = replace(plan, parts=inside, stripe=bands.stripe, scratch_bytes=scratch)
        found.append(AssignedPlan(plan, bands.width))
    return tuple(found)


def with_bands(
    parts: Parts, plans: Sequence[tuple[Plan, BandedCascade | None]]
) -> tuple[Parts, tuple[Plan, ...], tuple[Bands, ...]]:
    """Replace each cascade that runs in bands by a single part; return (parts, plans, bands).

    parts: the original parts.
    plans: (plan, bands) pairs in execution order; `bands` is None if the plan runs without bands.
        A plan contains indices of original parts, and each part is in exactly one plan.

    In the result, the plan of a cascade in bands contains only the single part, in one call.  Its
    scratch memory is the arena of the bands.
    """
    cascades = tuple(cascade for _, cascade in plans if cascade is not None)
    composed, index = with_composites(parts, cascades)
    found: list[Plan] = []
    for plan, cascade in plans:
        if cascade is None:
            found.append(_renumbered(plan, index))
        else:
            single, arena = (index[plan.parts[0]],), cascade.bands.arena_bytes
            found.append(
                replace(plan, parts=single, stripe=None, nearest_first=False, scratch_bytes=arena)
            )
    return composed, tuple(found), tuple(cascade.bands for cascade in cascades)


def _renumbered(plan: Plan, index: Mapping[int, int]) -> Plan:
    """Return the plan with new part indices.

    index: map from old to new indices.
    """
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
    """Replace each cascade that runs in bands by a single part; return (new parts, index).

    parts: the original parts.
    index: map from the index of each original part to its index in the new parts.  All parts of a
        replaced cascade have the index of the single part.
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
    """Return the composite node that replaces all nodes of a cascade."""
    every = [parts.parts[k] for k in cascade.parts]
    nodes = tuple(node for part in every for node in part.nodes)
    made = {node.name for node in nodes}
    read = (v for node in nodes for v in node.inputs if v.name not in made)
    inputs = tuple({v.name: v for v in read}.values())
    kernel = Kernel(KIND, scratch_bytes=cascade.bands.arena_bytes)
    names = tuple(v.name for v in inputs)
    op = Composite(KIND, every[-1].engine, nodes, names, chosen=kernel)
    return Node(op, inputs, nodes[-1].output, nodes[-1].origin)


def _in_order(graph: Graph, nodes: Sequence[Node]) -> Iterator[Node]:
    """Yield the nodes in topological order: always the first one whose inputs are available."""
    known = {value.name for value in graph.sources}
    waiting = list(nodes)
    while waiting:
        ready = next(n for n in waiting if all(v.name in known for v in n.variable_inputs))
        waiting.remove(ready)
        known.add(ready.name)
        yield ready
