"""Proposals in which every part runs alone, in a single call (`--partition`).

They differ in the tensors that are stored in the second memory (`group_residency.py`).
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from penstock.errors import UsageError
from penstock.scheduling.cascades.candidate import Proposal
from penstock.scheduling.cascades.fused_groups import FusedGroups, memory_bytes
from penstock.scheduling.cascades.group_residency import (
    SECOND,
    Grouped,
    group_cycles,
    group_too_large,
    grouped,
    grouping_problem,
    resident,
    whole_cascades,
)
from penstock.scheduling.cascades.region_search import RegionSearch
from penstock.scheduling.cascades.schedule_builder import ScheduleBuilder
from penstock.scheduling.grouping.strategies import COMPARED
from penstock.scheduling.model.fused_parts import FusionSource
from penstock.scheduling.model.memories import FILL
from penstock.scheduling.options import BEST, CYCLES, Options
from penstock.scheduling.simulate.cost_accounting import CostAccounting


def whole_proposals(
    builder: ScheduleBuilder, orders: Sequence[tuple[int, ...]], options: Options
) -> list[Proposal]:
    """Return proposals in which every part runs alone, in a single call.

    `options.partition` is `RESIDENT`: there is one proposal for each order in `orders`, and the
    tensors in the second memory region are selected greedily.

    Raises UsageError if there is no second region.
    """
    capacity = _capacity_bytes(builder, options)
    bank_bytes = builder.accounting.memories.tensors[SECOND].bank_bytes
    problem = grouping_problem(builder.accounting.parts, bank_bytes)
    assigned = ((order, resident(problem, order, capacity)) for order in orders)
    return [_whole_proposal(builder, *each, options) for each in assigned]


@dataclass(frozen=True, slots=True)
class GroupedProposal:
    """A proposal in which groups of parts run one after the other, and the builder of its schedule.

    Every part runs alone, in a single call.
    builder: its parts are those to which the indices in the proposal refer.  They differ from the
        parts of the graph if groups run tile by tile: each such group is then a single part.
    """

    builder: ScheduleBuilder
    proposal: Proposal


def grouped_proposal(
    builder: ScheduleBuilder, options: Options, fusion: FusionSource | None
) -> GroupedProposal:
    """Return the proposal in which groups of parts run one after the other.

    `options.partition` names the strategy that forms the groups, `options.objective` what they
    minimise.  With `best`, the result is the best one of several strategies.

    fusion: creates parts that run groups tile by tile; None: no group runs so.

    Raises UsageError if there is no second region, and CapacityError if the selected tensors do not
    fit there.
    """
    capacity = _capacity_bytes(builder, options)
    fused = FusedGroups(builder.accounting.parts, fusion) if fusion and options.tiles else None
    cost = group_cycles(builder.accounting, capacity, fused, options.objective)
    names = (options.partition, *(COMPARED if options.partition == BEST else ()))
    every = (grouped(cost, replace(options, partition=name)) for name in names)
    found = [_grouped_proposal(builder, one, options, fused) for one in every]

    def rank(one: GroupedProposal) -> tuple[int, int]:
        schedule = next(one.builder.schedules(one.proposal))
        cycles = schedule.cost.cycles
        if options.objective == CYCLES:
            return cycles, 0
        pairs = ((schedule.parts, k) for k in schedule.order)
        return sum(memory_bytes(*pair, schedule.memory) for pair in pairs), cycles

    return min(found, key=rank)


def _grouped_proposal(
    builder: ScheduleBuilder, found: Grouped, options: Options, fused: FusedGroups | None
) -> GroupedProposal:
    """Return the proposal that runs the groups `found` one after the other.

    fused: creates the parts that run groups tile by tile; None if there are no such groups.
    """
    order, selected = found.order, found.selected
    if found.in_tiles:
        assert fused is not None
        new = fused.replaced(found.in_tiles)
        known = builder.accounting  # its results are those of other parts of the same names
        accounting = CostAccounting(new.parts, known.model, known.memories)
        builder = replace(builder, accounting=accounting, row_copies=None, assigned=known.parts)
        order = tuple(dict.fromkeys(new.index[k] for k in order))
        selected = {new.index[k] for k in selected}
    return GroupedProposal(builder, _whole_proposal(builder, order, selected, options))


def _capacity_bytes(builder: ScheduleBuilder, options: Options) -> int:
    """Return how many bytes of tensors may be live in the second memory region at a time.

    It is the fraction `FILL` of the region's size.  Raises UsageError if there is no such region.
    """
    memories = builder.accounting.memories
    if len(memories.tensors) == 1:
        raise UsageError(
            "usage-057",
            "there is no second memory for tensors",
            where=f"--partition {options.partition}",
            why=f"all tensors are in {memories.tensors[0].name}",
            help="use a target or an accelerator that has one, or omit the option",
        )
    return int(memories.tensors[SECOND].size_bytes * FILL)


def _whole_proposal(
    builder: ScheduleBuilder, order: tuple[int, ...], kept: Set[int], options: Options
) -> Proposal:
    """Return the proposal in which every part runs alone, in a single call.

    order: the execution order, as indices of the parts.
    kept: indices of the parts whose outputs are stored in the second memory region of the target;
        all other outputs are stored in the first one, the default.

    Raises CapacityError if the outputs of `kept` do not fit into the second region.
    """
    accounting = builder.accounting
    parts, memories = accounting.parts, accounting.memories
    inputs_bytes = sum(parts.rows.storages[k].size_bytes for k in parts.rows.inputs)
    search = RegionSearch(parts, order, accounting.model, memories, options)
    cascades = whole_cascades(parts, order, kept, memories)
    proposal = search.proposal(cascades, inputs_bytes)
    if proposal is None:
        raise group_too_large(grouping_problem(parts), order, kept, memories, options)
    return proposal
