"""Proposals in which every part runs alone, in a single call (`--partition`).

They differ in the tensors that are stored in the second memory (`group_residency.py`).
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from penstock.errors import UsageError
from penstock.scheduling.cascades.candidate import Proposal
from penstock.scheduling.cascades.group_residency import (
    SECOND,
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
from penstock.scheduling.model.memories import FILL
from penstock.scheduling.options import BEST, RESIDENT, Options


def whole_proposals(
    builder: ScheduleBuilder, orders: Sequence[tuple[int, ...]], options: Options
) -> list[Proposal]:
    """Return proposals in which every part runs alone, in a single call.

    `options.partition` names the method that selects the tensors to store in the second memory
    region.  With `RESIDENT`, there is one proposal for each order in `orders`.  With the name of a
    grouping strategy, there is one proposal, and the strategy determines its order.  The strategy
    `best` compares the proposals of several strategies; the one whose schedule takes the fewest
    cycles is returned.

    Raises UsageError if there is no second region, and CapacityError if the selected tensors do not
    fit there.
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
    capacity = int(memories.tensors[SECOND].size_bytes * FILL)
    if options.partition == RESIDENT:
        problem = grouping_problem(builder.accounting.parts)
        assigned = ((order, resident(problem, order, capacity)) for order in orders)
        return [_whole_proposal(builder, *each, options) for each in assigned]
    cost = group_cycles(builder.accounting, capacity)
    found = [_whole_proposal(builder, *grouped(cost, options), options)]
    if options.partition == BEST:
        every = (grouped(cost, replace(options, partition=name)) for name in COMPARED)
        found += (_whole_proposal(builder, *each, options) for each in every)
    return [min(found, key=lambda proposal: next(builder.schedules(proposal)).cost.cycles)]


def _whole_proposal(
    builder: ScheduleBuilder, order: tuple[int, ...], kept: Set[int], options: Options
) -> Proposal:
    """Return the proposal in which every part runs alone, in a single call.

    order: the execution order, as indices of the parts.
    kept: indices of the parts whose outputs are stored in the second memory region of the target;
        all other outputs are stored in the first one, the default.

    Raises CapacityError if these outputs do not fit into the second region.
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
