"""Proposals in which every part runs alone, in a single call (`--partition`).

They differ in the order, in the groups that an engine runs tile by tile, and in the tensors in the
second memory, which only the parts of a group use.  Without a second memory, no tensor is there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import field, replace
from functools import cache, partial
from heapq import heapify, heappop, heappush

import numpy as np

from penstock.errors import CapacityError
from penstock.frozen import frozen
from penstock.ir.breakdown import Breakdown
from penstock.ir.tensor import Region, row_count
from penstock.memory.problem import whole_banks
from penstock.scheduling.cascades.proposals import CascadeProblem, PartOrder, Proposal
from penstock.scheduling.cascades.region_search import RegionSearch
from penstock.scheduling.cascades.schedule_builder import ScheduleBuilder
from penstock.scheduling.grouping.cycles import GroupCycles, NodeCycles
from penstock.scheduling.grouping.inside import ORDERS_INSIDE, inner_order
from penstock.scheduling.grouping.problem import GroupingProblem, GroupNode
from penstock.scheduling.grouping.strategies import COMPARED, DEFAULTS, STRATEGIES
from penstock.scheduling.model.memories import LIVE_SHARE, MemoryAssignment, MemorySystem
from penstock.scheduling.model.parts import FusedPart, FusionSource, Parts, Replacement, with_fused
from penstock.scheduling.options import BEST, BYTES, CYCLES, Options
from penstock.scheduling.order.steps import bits
from penstock.scheduling.simulate.cost_accounting import CostAccounting


def whole_proposals(
    builder: ScheduleBuilder, orders: Sequence[PartOrder], options: Options
) -> list[Proposal]:
    """One for each order, with tensors selected greedily for the second memory (`RESIDENT`)."""
    second = SecondMemory.of(builder.accounting.memories)
    problem = grouping_problem(builder.accounting.parts, second.bank_bytes)
    cycles = _node_cycles(builder.accounting, second)
    assigned = ((order, resident(problem, order, second.live_bytes, cycles)) for order in orders)
    return [_whole_proposal(builder, *each, options) for each in assigned]


@frozen
class SecondMemory:
    """The memory for tensors that only one group uses.

    live_bytes: maximum bytes of live tensors in it; 0 if there is no such memory.
    bank_bytes: size of its banks, of which a tensor occupies whole ones; 0 if it has none.
    """

    name: str = ""
    live_bytes: int = 0
    bank_bytes: int = 0

    @staticmethod
    def of(memories: MemorySystem) -> SecondMemory:
        if len(memories.tensors) == 1:
            return SecondMemory()
        _, second, *_ = memories.tensors
        return SecondMemory(second.name, int(second.size_bytes * LIVE_SHARE), second.bank_bytes)

    def holding(self, names: Iterable[str], memory: MemoryAssignment) -> MemoryAssignment:
        """Return an assignment with some more tensors in this memory, if there is one."""
        return memory.extended((n, self.name) for n in names) if self.live_bytes else memory


@frozen
class GroupedProposal:
    """A proposal in which groups of parts run one after the other, with its builder."""

    # Its parts are not those of the graph if groups run tile by tile: each is then a single part,
    # to which the indices in the proposal refer.
    builder: ScheduleBuilder
    proposal: Proposal


def grouped_proposal(
    builder: ScheduleBuilder, options: Options, fusion: FusionSource | None
) -> GroupedProposal:
    """The proposal with the groups of the strategy `options.partition`; with `best`, of several.

    fusion: creates parts that run groups tile by tile; None: no group runs so.

    Raises CapacityError if the selected tensors do not fit into the second memory.
    """
    fused = FusedGroups(builder.accounting.parts, fusion) if fusion and options.tiles else None
    cost = group_cycles(builder.accounting, fused, options.objective, options.inside)
    names = (options.partition, *(COMPARED if options.partition == BEST else ()))
    every = (grouped(cost, replace(options, partition=name)) for name in names)
    found = [_grouped_proposal(builder, one, options, fused) for one in every]

    def rank(one: GroupedProposal) -> tuple[int, int]:
        schedule = one.builder.schedule(one.proposal)
        cycles, accounting, memory = schedule.cost.cycles, one.builder.accounting, schedule.memory
        moved = sum(external_bytes(accounting, k, memory) for k in schedule.order)
        return (cycles, moved) if options.objective == CYCLES else (moved, cycles)

    return min(found, key=rank)


def _grouped_proposal(
    builder: ScheduleBuilder, found: Grouped, options: Options, fused: FusedGroups | None
) -> GroupedProposal:
    order, selected = found.order, found.selected
    if found.in_tiles:
        assert fused is not None
        new = fused.replaced(found.in_tiles)
        known = builder.accounting  # its results are those of other parts of the same names
        accounting = CostAccounting(new.parts, known.model, known.memories)
        builder = replace(builder, accounting=accounting, assigned=known.parts)
        order = tuple(dict.fromkeys(new.index[k] for k in order))
        selected = {new.index[k] for k in selected}
    return GroupedProposal(builder, _whole_proposal(builder, order, selected, options))


def _whole_proposal(
    builder: ScheduleBuilder, order: PartOrder, kept: Set[int], options: Options
) -> Proposal:
    """Every part alone, the outputs of `kept` in the second region; raises CapacityError."""
    accounting = builder.accounting
    parts, memories = accounting.parts, accounting.memories
    search = RegionSearch(CascadeProblem(parts, accounting.model, memories, options), order)
    written, second = _written_storages(parts), SecondMemory.of(memories)
    memory = second.holding((written[i] for i in kept), memories.default_assignment)
    proposal = search.proposal(memory)
    if proposal is None:
        raise group_too_large(grouping_problem(parts), order, kept, memories, options)
    return proposal


def group_cycles(
    accounting: CostAccounting,
    fused: FusedGroups | None = None,
    objective: str = CYCLES,
    inside: str = BEST,
) -> GroupCycles:
    """The cost function of groups of parts: for `CYCLES`, of their calls in the program, without
    cold starts, which depend on the order; for `BYTES`, through main memory.

    fused: costs of groups that run tile by tile; None: no group runs so.
    inside: the order of `ORDERS_INSIDE` in which a group must fit.
    """
    second = SecondMemory.of(accounting.memories)
    assigned, parts = _assigned(accounting, second), accounting.parts
    node_cycles = _node_cycles(accounting, second)

    def node_bytes(i: int, kept: int) -> int:
        return external_bytes(accounting, i, assigned(kept))

    problem, capacity_bytes = grouping_problem(parts, second.bank_bytes), second.live_bytes
    cost, tie = (node_bytes, node_cycles) if objective == BYTES else (node_cycles, None)

    @cache
    def fits_in_order(group: int) -> bool:
        if sum(problem.sizes[i] for i in bits(problem.kept_inside(group))) <= capacity_bytes:
            return True  # in any order
        piece = problem.kept_piece(group)
        found = ORDERS_INSIDE[inside](piece, piece.everything, 0)
        if inside == "circular":  # its peak is that of a buffer, of which fewer bytes are live
            found = inner_order(piece, piece.everything, found.order)
        return found.peak_bytes <= capacity_bytes

    fits = None if inside == BEST else fits_in_order
    if fused is None:
        return GroupCycles(problem, cost, capacity_bytes, tie, fits_in_order=fits)
    tiled, least = partial(fused.cost, objective), partial(fused.least, objective)
    may_save = objective == CYCLES
    return GroupCycles(
        problem,
        cost,
        capacity_bytes,
        tie,
        tiled,
        least,
        may_save,
        most_tiled=MOST_MEMBERS,
        fits_in_order=fits,
    )


def _assigned(
    accounting: CostAccounting, second: SecondMemory
) -> Callable[[int], MemoryAssignment]:
    """The function from a mask of nodes to the assignment of their outputs to the second memory."""
    names, default = _written_storages(accounting.parts), accounting.memories.default_assignment
    return lambda kept: second.holding((names[t] for t in bits(kept)), default)


def _node_cycles(accounting: CostAccounting, second: SecondMemory) -> NodeCycles:
    """The cycles of the calls of nodes in the program, without cold starts."""
    parts, assigned = accounting.parts.parts, _assigned(accounting, second)
    return lambda i, kept: accounting.whole_call_cost(parts[i], assigned(kept)).cycles


@frozen
class Grouped:
    """Nodes divided into groups that run one after the other."""

    order: PartOrder
    selected: Set[int]  # nodes whose outputs are to be stored in the second memory
    in_tiles: tuple[int, ...]  # node masks of the groups that run tile by tile


def grouped(cost: GroupCycles, options: Options) -> Grouped:
    """Divide the nodes by the strategy `options.partition`, and order each group by
    `options.inside`."""
    problem = cost.problem
    groups = STRATEGIES[options.partition](cost, DEFAULTS).groups
    inside, states = ORDERS_INSIDE[options.inside], options.order_states // max(1, len(groups))
    order: list[int] = []
    in_tiles = tuple(group for group in groups if group in cost.in_tiles)
    for group in groups:
        if group in in_tiles:
            order += bits(group)
            continue
        piece, nodes = problem.kept_piece(group), tuple(bits(group))
        found = inside(piece, piece.everything, states)
        known = tuple(nodes[k] for k in found.order)
        if options.inside == BEST and found.peak_bytes > cost.capacity_bytes:
            known = cost.fitting_order(group)
            if known is None:  # the search that accepted the group found one: spend more work
                found = inside(piece, piece.everything, options.order_states)
                known = tuple(nodes[k] for k in found.order)
        order += known
    whole = (group for group in groups if group not in in_tiles)
    selected = {i for group in whole for i in bits(problem.kept_inside(group))}
    return Grouped(tuple(order), selected, in_tiles)


def grouping_problem(parts: Parts, bank_bytes: int = 0) -> GroupingProblem:
    """The problem of dividing parts into groups: node k is part k, a tensor is a storage.

    Sizes are rounded up to whole banks of `bank_bytes` bytes; 0: there are no banks.
    """
    rows, count = parts.rows, len(parts.parts)
    sizes = [whole_banks(storage.size_bytes, bank_bytes) for storage in rows.storages]
    tensors = {part.written: k for k, part in enumerate(rows.row_parts)}
    tensors |= {storage: count + k for k, storage in enumerate(rows.inputs)}
    nodes = tuple(
        GroupNode(
            part.name,
            sizes[row_part.written],
            sum(value.type.size_bytes for value in part.constants),
            tuple(sorted({tensors[read.storage] for read in row_part.reads})),
        )
        for part, row_part in zip(parts.parts, rows.row_parts, strict=True)
    )
    outputs = frozenset(tensors[s] for s in rows.outputs if tensors[s] < count)
    return GroupingProblem(nodes, tuple(sizes[s] for s in rows.inputs), outputs)


def resident(
    problem: GroupingProblem, order: Sequence[int], capacity_bytes: int, cycles: NodeCycles
) -> Set[int]:
    """The nodes whose outputs are selected, greedily, for at most `capacity_bytes` live bytes."""
    ranges = _live_ranges(problem, order) if capacity_bytes else {}
    live = np.zeros(len(order), np.int64)
    found = 0

    @cache
    def node_cycles(i: int, kept: int) -> int:
        return cycles(i, kept)

    def priority(i: int) -> tuple[float, int]:
        # The cycles that the output saves beside those that are selected.  Of the bytes and of the
        # positions of its live range, the root counts: large outputs leave space for small ones.
        (lower, upper), more, saved = ranges[i], found | 1 << i, 0
        for node in bits(problem.readers[i] | 1 << i):
            own = problem.reads[node] | 1 << node
            saved += node_cycles(node, found & own) - node_cycles(node, more & own)
        return -saved / math.sqrt(max(1, problem.sizes[i]) * (upper - lower)), lower

    waiting = [(*priority(i), i) for i in ranges]
    heapify(waiting)
    while waiting:
        *_, i = heappop(waiting)
        lower, upper = ranges[i]
        now = (*priority(i), i)
        if now[0] > 0 or live[lower:upper].max() + problem.sizes[i] > capacity_bytes:
            continue
        if waiting and now > waiting[0]:
            heappush(waiting, now)
            continue
        live[lower:upper] += problem.sizes[i]
        found |= 1 << i
    return set(bits(found))


def peak_of_kept(
    problem: GroupingProblem, order: Sequence[int], kept: Iterable[int]
) -> tuple[int, int]:
    """(bytes, node that runs) at the peak of the live outputs of `kept`."""
    ranges, live = _live_ranges(problem, order), np.zeros(len(order), np.int64)
    for i in kept:
        lower, upper = ranges[i]
        live[lower:upper] += problem.sizes[i]
    worst = int(live.argmax())
    return int(live[worst]), order[worst]


def group_too_large(
    problem: GroupingProblem,
    order: Sequence[int],
    kept: Iterable[int],
    memories: MemorySystem,
    options: Options,
) -> CapacityError:
    _, memory, *_ = memories.tensors
    live, node = peak_of_kept(problem, order, kept)
    name = problem.nodes[node].name.split(";")[0]
    return CapacityError(
        "capacity-004",
        f"a group's tensors do not fit into {memory.name}",
        where=f"--partition {options.partition} --inside {options.inside}",
        why=f'while "{name}" runs, {live} bytes of them are live; of its '
        f"{memory.size_bytes} bytes, {LIVE_SHARE:.0%} may be live, since placement needs slack",
        help=f"more --order-states than {options.order_states} may find an order in which it fits",
    )


def _written_storages(parts: Parts) -> list[str]:
    storages = parts.rows.storages
    return [storages[part.written].name for part in parts.rows.row_parts]


def _live_ranges(problem: GroupingProblem, order: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Positions [first, end) at which tensors that nodes read are live, by the node that writes."""
    position = {i: p for p, i in enumerate(order)}
    return {
        i: (position[i], max(position[r] for r in bits(problem.readers[i])) + 1)
        for i in order
        if problem.readers[i] and i not in problem.outputs
    }


MOST_MEMBERS = 24
"""Maximum number of nodes of a group that runs tile by tile."""
MOST_FUSED = 2_000
"""Maximum number of groups for which tiles are searched."""


@frozen
class FusedGroups:
    """The groups of parts that can run tile by tile, by node mask; node k is part k."""

    parts: Parts
    source: FusionSource
    # Only costs: there are many groups, and few of them are chosen.
    _known: dict[int, Mapping[str, int] | None] = field(
        default_factory=dict[int, Mapping[str, int] | None]
    )

    def cost(self, objective: str, group: int) -> int | None:
        """The cost of a group in tiles, for an objective of `group_cycles`; None if unknown."""
        if group.bit_count() > MOST_MEMBERS:
            return None
        if group not in self._known:
            if len(self._known) >= MOST_FUSED:
                return None
            self._known[group] = self._costs(group)
        known = self._known[group]
        return None if known is None else known.get(objective)

    def _costs(self, group: int) -> Mapping[str, int] | None:
        fused = self.fused(group)
        if fused is None or fused.part.kernel.cycles is None:
            return None
        found = fused.part.kernel.cycles(row_count(fused.part.output.shape), ())
        if not isinstance(found, Breakdown):
            return {CYCLES: round(found)}
        return {CYCLES: round(found.cycles), BYTES: round(found.memory_bytes)}

    def least(self, objective: str, k: int) -> int | None:
        """A lower bound of the cost of part `k` in any group in tiles; None without accelerator."""
        part = self.parts.parts[k]
        if part.kernel.cycles is None:
            return None
        if objective == BYTES:
            return sum(table.type.size_bytes for _, table in part.kernel.tables)
        shape = part.output.shape
        found = part.kernel.cycles(row_count(shape), ())
        # at the accelerator's highest rate, if it states one
        peak = found.macs_per_cycle if isinstance(found, Breakdown) else None
        return 0 if peak is None else int(part.macs(Region.whole(shape)) / peak)

    def fused(self, group: int) -> FusedPart | None:
        return self.source.fused(self.parts, tuple(bits(group)))

    def replaced(self, groups: Sequence[int]) -> Replacement:
        found: list[tuple[Sequence[int], FusedPart]] = []
        for group in groups:
            fused = self.fused(group)
            assert fused is not None
            found.append((tuple(bits(group)), fused))
        return with_fused(self.parts, found)


def external_bytes(accounting: CostAccounting, k: int, memory: MemoryAssignment) -> int:
    """The bytes to and from main memory of a call of part `k`, as `Schedule.external_bytes` counts
    them after placement."""
    parts = accounting.parts
    part = parts.parts[k]
    cost = accounting.whole_call_cost(part, memory)
    found = None
    if part.kernel.cycles is not None:
        regions = memory.for_part(part, parts.owners).operand_regions(part)
        found = part.kernel.cycles(row_count(part.output.shape), regions)
    stated = found if isinstance(found, Breakdown) else None
    return round(cost.external_bytes(stated, memory.default))
