"""The stage `schedule`: searches for schedules with different trade-offs of memory and cycles.

It provides the search with bands of columns and with parts that run tile by tile on the target:
their graphs, kernels and scratch memory (`TargetBands`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import accumulate

from penstock.backends.accelerator import Accelerator
from penstock.backends.kernel_choice import with_accelerator_kernels
from penstock.backends.processor_parts import Engines, single_node_part
from penstock.frozen import frozen
from penstock.hardware.target import Target
from penstock.ir.composite import FUSED, Composite
from penstock.ir.graph import Node, Value, Values, free_name, result_of
from penstock.ir.op import Op, Site
from penstock.ir.tensor import COLUMNS, IMAGE_RANK, TensorType, row_count
from penstock.ops.concatenation import Concatenation
from penstock.ops.slice import along
from penstock.optional import attempt
from penstock.pareto import KNEE, frontier, is_dominated, merged, noticeably_faster
from penstock.passes.column_bands import BandGraph, column_bands, column_bytes, single_node_band
from penstock.pipeline.channel_alternatives import NEAR_FLOOR
from penstock.scheduling.bands.band_schedule import (
    BandSize,
    BandSource,
    kept_tensors,
    planned_band,
    with_band_costs,
)
from penstock.scheduling.bands.columns import PartColumnReads, computes_columns
from penstock.scheduling.cascades.search import FrontierSearch, frontier_search
from penstock.scheduling.model.bands import Band, Bands, TensorSection, column_stripes
from penstock.scheduling.model.cost import CostModel
from penstock.scheduling.model.memories import MemorySystem
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import (
    ColumnSection,
    FusedPart,
    Parts,
    SectionNode,
    joined_nodes,
)
from penstock.scheduling.model.plan import Chain, Plan
from penstock.scheduling.model.schedule import Frontier, Schedule
from penstock.scheduling.options import AUTO, BEST, CASCADES, Options
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule
from penstock.scheduling.simulate.walk import WHOLE


def schedule(
    parts: Parts, target: Target, options: Options, accelerators: tuple[Accelerator, ...] = ()
) -> Frontier:
    """Return the schedules that may be Pareto-optimal (see `scheduling/cascades/search.py`).

    If the target has one memory for tensors, these include the schedules of `parts.alternatives`
    that no schedule of `parts` dominates.

    accelerators: those that run composites of the parts.
    """
    known: list[Schedule] = []
    for search in searches(parts, target, options, known, accelerators):
        known += _found(search, search.schedules)
    return with_alternatives(known)


def schedules_by_rows(search: FrontierSearch) -> Sequence[Schedule]:
    """Return the schedules without recomputation; none if the search is for an alternative and
    fails."""
    return _found(search, search.schedules_by_rows)


def _found(
    search: FrontierSearch, schedules: Callable[[], Iterator[Schedule]]
) -> Sequence[Schedule]:
    """Return the schedules of a search, which may fail if it is for an alternative."""
    if not search.parts.alternative:
        return tuple(schedules())
    return attempt("an alternative", lambda: tuple(schedules()), tuple)


def searches(
    parts: Parts,
    target: Target,
    options: Options,
    known: Sequence[Schedule],
    accelerators: tuple[Accelerator, ...] = (),
) -> Iterator[FrontierSearch]:
    """Yield the search for the schedules of `parts`, then that of each alternative to compare.

    known: the schedules found so far, which the caller extends after each search.
    accelerators: those that run composites of the parts.
    """
    model, memories = cost_model_and_memories(target)
    comparable = len(memories.tensors) == 1 and options.partition in (AUTO, CASCADES, BEST)
    bands = band_source(target, accelerators)
    rivals: list[tuple[int, int]] = []
    for one in (parts, *(parts.alternatives if comparable else ())):
        if one.is_for_speed and not _is_faster(one, parts, model):
            continue
        if not _is_relevant(one, model, [*rivals, *_by_rows(known)]):
            continue
        limit_bytes = math.inf
        if one.floor_bytes is not None:  # only schedules that recompute may need less memory
            limit_bytes = min(peak for peak, _ in _by_rows(known)) - 1
        search = partial(
            frontier_search, one, model, memories, options, limit_bytes, bands, tuple(known)
        )
        found = attempt("an alternative", search, lambda: None) if one.alternative else search()
        if found is None:
            continue
        rivals += ((p.peak_bytes, found.estimated_cycles(p)) for p in found.below_rows)
        yield found


def _is_relevant(parts: Parts, model: Engines, rivals: Sequence[tuple[int, int]]) -> bool:
    """Return whether parts may have a schedule that is worth its cycles.

    An alternative has none if a rival needs no more than the least memory of its schedules, and
    hardly more cycles than its kernels.  Nor has an alternative to parts that do not limit the
    least memory of the rivals.
    rivals: (live bytes, estimated cycles) of other schedules.
    """
    if parts.floor_bytes is not None:
        return min(peak for peak, _ in rivals) <= NEAR_FLOOR * parts.floor_bytes
    least_bytes = parts.least_row_bytes
    if least_bytes is None:
        return True
    work = sum(map(model.work_cycles, parts.parts))
    return not is_dominated((least_bytes, work * (1 + KNEE)), rivals)


def _is_faster(one: Parts, parts: Parts, model: Engines) -> bool:
    """Return whether the kernels of an alternative take noticeably fewer cycles."""
    own, other = (sum(map(model.work_cycles, each.parts)) for each in (parts, one))
    return noticeably_faster(other, own)


def _by_rows(known: Sequence[Schedule]) -> Iterator[tuple[int, int]]:
    return (_peak_and_cycles(one) for one in known if not one.bands)


def with_alternatives(found: Sequence[Schedule]) -> Frontier:
    """Return schedules as a frontier, with those of alternatives that no other one dominates."""
    saving = [one for one in found if not one.assigned_parts.is_for_speed]
    paces = [_peak_and_cycles(one) for one in merged(saving, _peak_and_cycles)]
    best = frontier((_with_pace(one, paces) for one in found), _peak_and_cycles)
    own = [one for one in found if not one.assigned_parts.alternative]
    added = [one for one in best if one.assigned_parts.alternative]
    every = sorted((*own, *added), key=lambda one: one.peak_bytes) if added else own
    return Frontier(tuple(every))


def _with_pace(schedule: Schedule, paces: Sequence[tuple[int, int]]) -> Schedule:
    """Return a schedule of an alternative for speed with the least cycles for its memory.

    paces: (live bytes, cycles) of schedules of other parts, in ascending order of bytes."""
    if not schedule.assigned_parts.is_for_speed:
        return schedule
    slower = [cycles for peak, cycles in paces if peak <= schedule.peak_bytes]
    return replace(schedule, pace_cycles=slower[-1]) if slower else schedule


def _peak_and_cycles(schedule: Schedule) -> tuple[int, int]:
    return schedule.peak_bytes, schedule.cost.cycles


def least_memory_first(
    parts: Parts, target: Target, options: Options, accelerators: tuple[Accelerator, ...] = ()
) -> Iterator[Schedule]:
    """Yield the schedules of `schedule` in ascending order of peak live bytes.

    Their costs are computed on demand.
    """
    model, memories = cost_model_and_memories(target)
    search = frontier_search(
        parts, model, memories, options, bands=band_source(target, accelerators)
    )
    return search.schedules()


def band_source(target: Target, accelerators: tuple[Accelerator, ...] = ()) -> BandSource:
    """Return what creates the bands of a cascade or of its chains, for a target.

    accelerators: those that run composites of the network.
    """
    model, memories = cost_model_and_memories(target)
    return TargetBands(target, model, memories, accelerators)


def cost_model_and_memories(target: Target) -> tuple[Engines, MemorySystem]:
    """Return the cost model of a target, and its memories as the search sees them."""
    processor = target.engines[0]
    memories = MemorySystem(target.arenas, target.memory_for("constant"), processor)
    return Engines(processor), memories


def fused_part(
    parts: Parts, members: Sequence[int], target: Target, accelerators: Sequence[Accelerator]
) -> FusedPart | None:
    """Return the part that runs some parts tile by tile; None if their accelerator cannot.

    members: indices of the parts, in execution order.
    accelerators: those that run composites of the network.
    """
    every = [parts.parts[k] for k in members]
    engine = every[0].engine
    able = (one for one in accelerators if one.name == engine)
    if not any(strategy.op == FUSED for one in able for strategy in one.strategies):
        return None
    if any(part.engine != engine or not part.kernel.by_rows for part in every):
        return None
    nodes, inputs = joined_nodes(every)
    made = {node.name for node in nodes}
    outputs = _outputs(parts, nodes)
    if len(outputs) > 1:
        if not _may_be_sections(parts, made, outputs):
            return None
        nodes = (*nodes, _side_by_side(outputs, nodes[-1], parts))
    op = Composite(FUSED, engine, nodes, tuple(value.name for value in inputs))
    node = Node(op, inputs, nodes[-1].output, nodes[-1].origin)
    found = with_accelerator_kernels(node, accelerators)
    if found is None:
        return None
    part = single_node_part(found, target.engines[0])
    return FusedPart(part, _section_nodes(outputs, part) if len(outputs) > 1 else ())


def _outputs(parts: Parts, nodes: Sequence[Node]) -> Values:
    """Return the values that some nodes compute and that are used outside of these nodes."""
    made = {node.name for node in nodes}
    used = {value.name for value in parts.graph.results}
    for node in parts.graph.nodes:
        if node.name not in made:
            used |= {value.name for value in node.inputs}
    return tuple(node.output for node in nodes if node.name in used)


def _may_be_sections(parts: Parts, made: set[str], outputs: Sequence[Value]) -> bool:
    """Return whether the outputs of a group can be columns of one tensor that the group writes.

    made: names of the values that the group computes.

    The outputs must be images that differ only in their columns.  Their rows are not adjacent in
    memory, so all other readers must read row by row.
    """
    names, types = {value.name for value in outputs}, [value.type for value in outputs]
    alike = {(t.shape[:COLUMNS], t.shape[COLUMNS + 1 :], t.dtype) for t in types}
    if types[0].rank != IMAGE_RANK or len(alike) > 1:
        return False
    if any(value.name in names for value in parts.graph.results):
        return False
    able = {part.name for part in parts.parts if part.kernel.by_rows}
    return all(
        node.name in able
        for node in parts.graph.nodes
        if node.name not in made and any(value.name in names for value in node.inputs)
    )


def _side_by_side(outputs: Sequence[Value], last: Node, parts: Parts) -> Node:
    """Return the node that places the outputs of a group side by side.

    last: the last node of the group.
    """
    op = Concatenation(COLUMNS)
    type = result_of(op, outputs)
    name = free_name(f"{last.name}/outputs", parts.names)
    return Node(op, tuple(outputs), Value(name, type), last.origin)


def _section_nodes(outputs: Sequence[Value], part: Part) -> tuple[SectionNode, ...]:
    """Return the nodes that take the outputs of a group from the tensor that its part writes."""
    columns = [value.shape[COLUMNS] for value in outputs]
    firsts = accumulate(columns, initial=0)
    return tuple(
        SectionNode(_section_node(value, first, part), first * _column_bytes(value.type))
        for value, first in zip(outputs, firsts, strict=False)
    )


def _section_node(value: Value, first_column: int, part: Part) -> Node:
    op = along(value.shape, COLUMNS, first_column, value.shape[COLUMNS])
    return Node(op, (part.output,), value, part.nodes[-1].origin)


def _column_bytes(type: TensorType) -> int:
    return type.shape[COLUMNS + 1] * type.dtype.size_bytes


@frozen
class TargetBands:
    """Creates bands of columns of graphs, for a target (`BandSource`).

    accelerators: those that run composites of the network.
    """

    target: Target
    model: CostModel
    memories: MemorySystem
    accelerators: tuple[Accelerator, ...] = ()
    reads: PartColumnReads = field(default_factory=PartColumnReads)
    # Parts with their kernels, by operator and operands: most bands differ in their position only.
    _known: dict[tuple[Op, Site], Part] = field(default_factory=dict[tuple[Op, Site], Part])

    def bands(self, parts: Parts, plan: Plan) -> tuple[Bands, ...] | None:
        scratch = plan.scratch_bytes
        if plan.columns is not None:
            chains = (Chain(plan.parts, plan.columns),)
            size = BandSize(plan.stripe, None, scratch)
        else:
            rows = WHOLE if plan.stripe is None else plan.stripe
            chains, size = plan.chains, BandSize(None, rows, scratch)
        found: list[Bands] = []
        for chain in chains:
            bands = self._bands(parts, chain, size)
            if bands is None:
                return None
            found.append(bands)
        return tuple(found)

    def fused(self, parts: Parts, members: Sequence[int]) -> FusedPart | None:
        return fused_part(parts, members, self.target, self.accelerators)

    def costed(self, schedule: Schedule) -> Schedule:
        return with_band_costs(ExpandedSchedule(schedule), self.model, self.memories, {})

    def row_cycles(self, part: Part) -> float:
        node, columns = part.nodes[-1], part.output.shape[COLUMNS]
        middle = columns // 2
        graph = single_node_band(node, (middle, middle + 1)) if columns > 1 else None
        graph = None if graph is None else self._band_with_kernels(graph)
        if graph is None:
            return 0.0
        (narrow,) = self._band_parts(graph).parts
        # Cycles are taken as fixed + columns * each: two widths determine both.
        whole, one = self.model.work_cycles(part), self.model.work_cycles(narrow)
        rows = row_count(part.output.shape)
        return max(0.0, (one - (whole - one) / (columns - 1)) / rows)

    def _bands(self, parts: Parts, chain: Chain, size: BandSize) -> Bands | None:
        """The bands of a chain or, if `size.call_rows` is None, of a whole cascade."""
        nodes, keeps = [n for k in chain.parts for n in parts.parts[k].nodes], chain.keeps_halos
        graphs = self._with_kernels(
            column_bands(parts.graph.name, nodes, chain.columns, parts.names, keeps_halos=keeps)
        )
        if graphs is None:
            return None
        found: list[Band] = []
        for one in graphs:
            types = {value.name: value.type for value in one.graph.variables()}
            starts = {v: c.first * column_bytes(types[v]) for v, c in one.kept.items()}
            sections = tuple(_sections(one))
            inner = self._band_parts(one)
            found.append(planned_band(inner, sections, size, self.memories, starts))
        kept = ()
        if keeps and size.call_rows is not None:
            end = max(band.call_scratch_bytes for band in found)
            kept = kept_tensors(found, size.call_rows, self.memories, end)
            if not kept:  # the bands of this width have no halo, or compute its rows unevenly
                return None
        scratch, every = size.scratch_bytes, tuple(found)
        return Bands(
            nodes[-1].name, chain.parts, chain.columns, scratch, every, size.call_rows, kept
        )

    def _with_kernels(self, graphs: Sequence[BandGraph] | None) -> Sequence[BandGraph] | None:
        found = [self._band_with_kernels(one) for one in graphs or ()]
        bands = [one for one in found if one is not None]
        return bands if bands and len(bands) == len(found) else None

    def _band_with_kernels(self, band: BandGraph) -> BandGraph | None:
        if not any(isinstance(node.op, Composite) for node in band.graph.nodes):
            return band
        nodes: list[Node] = []
        for node in band.graph.nodes:
            found = node
            if isinstance(node.op, Composite):
                # The accelerator may refuse the columns, or choose a kernel without access to them.
                found = with_accelerator_kernels(node, self.accelerators)
                if found is None or not computes_columns(
                    single_node_part(found, self.target.engines[0])
                ):
                    return None
            nodes.append(found)
        return replace(band, graph=band.graph.with_nodes(tuple(nodes)))

    def _band_parts(self, band: BandGraph) -> Parts:
        graph = band.graph
        types = {value.name: value.type for value in graph.variables()}
        computed = (node for node in graph.nodes if node.name not in band.uncomputed)
        ends = frozenset(value.name for value in (*band.inputs, *graph.outputs))
        return Parts(
            graph,
            tuple(map(self._part, computed)),
            sections=tuple(
                ColumnSection(name, columns.tensor, columns.first * column_bytes(types[name]))
                for name, columns in sorted(band.in_place.items())
            ),
            outside=ends | band.kept.keys(),
        )

    def _part(self, node: Node) -> Part:
        key = node.op, node.site
        if key not in self._known:
            self._known[key] = single_node_part(node, self.target.engines[0])
        return replace(self._known[key], nodes=(node,))


def _sections(band: BandGraph) -> Iterator[TensorSection]:
    rows = zip(band.graph.variables(), band.tensors, band.first_columns, band.steps, strict=True)
    for value, tensor, first, step in rows:
        shapes = value.shape, tensor.shape
        stripes = column_stripes(*shapes, first, step, band.count)
        yield TensorSection(value.name, tensor.name, stripes)
