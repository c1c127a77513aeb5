"""Proposals in which every part runs alone, in a single call (`--partition`).

They differ in the tensors that are stored in the second memory (`group_residency.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from penstock.errors import CapacityError, UsageError
from penstock.ir.breakdown import Breakdown
from penstock.ir.op import row_count
from penstock.ir.region import Region
from penstock.memory.bank_groups import whole_banks
from penstock.scheduling.cascades.candidate import Candidate, Proposal
from penstock.scheduling.cascades.region_search import RegionSearch
from penstock.scheduling.cascades.schedule_builder import ScheduleBuilder
from penstock.scheduling.grouping.cycles import GroupCycles
from penstock.scheduling.grouping.inside import ORDERS_INSIDE
from penstock.scheduling.grouping.problem import GroupingProblem, GroupNode
from penstock.scheduling.grouping.strategies import COMPARED, DEFAULTS, STRATEGIES
from penstock.scheduling.model.fused_parts import FusedPart, FusionSource, Replacement, with_fused
from penstock.scheduling.model.memories import FILL, MemoryAssignment, MemorySystem
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.options import BEST, BYTES, CYCLES, Options
from penstock.scheduling.order.step_table import bits
from penstock.scheduling.simulate.cost_accounting import CostAccounting
from penstock.scheduling.simulate.walk import WHOLE


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


SECOND = 1
"""Index, in `MemorySystem.tensors`, of the memory region for tensors that only one group uses."""


def group_cycles(
    accounting: CostAccounting,
    capacity_bytes: int,
    fused: FusedGroups | None = None,
    objective: str = CYCLES,
) -> GroupCycles:
    """Return the cost function of groups of parts: the cycles of their calls in the program, or the
    bytes that they read from and write to main memory.

    accounting: computes the costs of calls.
    capacity_bytes: maximum live bytes of the tensors of a group in the second memory.
    fused: provides the costs of groups that run tile by tile; None: no group runs tile by tile.
    objective: which of the two is the cost, `CYCLES` or `BYTES`.

    The cost leaves out cold starts (`simulate/cold_starts.py`), which depend on the order.
    """
    parts, memories = accounting.parts, accounting.memories
    default, second = memories.default_assignment, memories.tensors[SECOND].name
    names = _written_storages(parts)

    def assigned(kept: int) -> MemoryAssignment:
        return default.extended((names[t], second) for t in bits(kept))

    def node_cycles(i: int, kept: int) -> int:
        return accounting.whole_call_cost(i, assigned(kept)).cycles

    def node_bytes(i: int, kept: int) -> int:
        return memory_bytes(parts, i, assigned(kept))

    problem = grouping_problem(parts, memories.tensors[SECOND].bank_bytes)
    cost, tie = (node_bytes, node_cycles) if objective == BYTES else (node_cycles, None)
    if fused is None:
        return GroupCycles(problem, cost, capacity_bytes, tie)
    tiled, least = partial(fused.cost, objective), partial(fused.least, objective)
    may_save = objective == CYCLES
    return GroupCycles(
        problem, cost, capacity_bytes, tie, tiled, least, may_save, most_tiled=MOST_MEMBERS
    )


@dataclass(frozen=True, slots=True)
class Grouped:
    """Nodes divided into groups that run one after the other.

    order: the execution order, as indices of nodes.
    selected: indices of the nodes whose outputs are to be stored in the second memory, since only
        nodes of the same group use them.
    in_tiles: node masks of the groups that run tile by tile.
    """

    order: tuple[int, ...]
    selected: Set[int]
    in_tiles: tuple[int, ...]


def grouped(cost: GroupCycles, options: Options) -> Grouped:
    """Divide the nodes into groups that run one after the other.

    cost: cost function of the groups, a result of `group_cycles`.
    options: `partition` names the strategy that forms the groups, `inside` the one that orders the
        nodes of a group.
    """
    problem = cost.problem
    groups = STRATEGIES[options.partition](cost, DEFAULTS).groups
    inside, states = ORDERS_INSIDE[options.inside], options.order_states // len(groups)
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
    """Return the problem of dividing parts into groups.

    bank_bytes: size of a bank of the second memory; the sizes of tensors are rounded up to whole
        banks.  0 if the memory has no banks.

    Node k of the problem is part k.  A tensor of the problem is a storage of the network, that is,
    the memory of a tensor and its aliases.
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


def whole_cascades(
    parts: Parts, order: Sequence[int], kept: Set[int], memories: MemorySystem
) -> tuple[Candidate, ...]:
    """Return a sequence of cascades, each of which runs a single part in a single call.

    order: the execution order, as indices of the parts.
    kept: indices of the parts whose outputs are stored in the second memory region.  All other
        outputs are stored in the default region.
    """
    default, second = memories.default_assignment, memories.tensors[SECOND].name
    written = _written_storages(parts)
    return tuple(
        Candidate(
            p,
            p + 1,
            WHOLE,
            False,
            default.extended([(written[i], second)]) if i in kept else default,
        )
        for p, i in enumerate(order)
    )


def resident(problem: GroupingProblem, order: Sequence[int], capacity_bytes: int) -> Set[int]:
    """Select tensors to store in the second memory; return indices of the nodes that write them.

    order: the execution order, as indices of the nodes.
    capacity_bytes: maximum live bytes of the selected tensors.

    The selection is greedy.  Tensors are considered in descending order of their accesses (one
    write, and one read per reader) divided by the length of their live range.  A tensor is selected
    if it fits during its whole live range.  Network inputs and outputs are not selected.
    """
    ranges = _live_ranges(problem, order)

    def priority(i: int) -> tuple[float, int]:
        lower, upper = ranges[i]
        return -(1 + problem.readers[i].bit_count()) / (upper - lower), lower

    live = np.zeros(len(order), np.int64)
    found: set[int] = set()
    for i in sorted(ranges, key=priority):
        lower, upper = ranges[i]
        if live[lower:upper].max() + problem.sizes[i] <= capacity_bytes:
            live[lower:upper] += problem.sizes[i]
            found.add(i)
    return found


def peak_of_kept(
    problem: GroupingProblem, order: Sequence[int], kept: Iterable[int]
) -> tuple[int, int]:
    """Return the peak of the live bytes of selected tensors, and where it is, for an error message.

    The result is (bytes, index of the node that runs at the peak).

    order: the execution order, as indices of the nodes.
    kept: indices of the nodes that write the selected tensors.
    """
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
    """Return the error to raise if a group's tensors do not fit into the second memory.

    order: the execution order, as indices of the nodes.
    kept: indices of the nodes that write the tensors to be stored in the second memory.  In
        `order`, the live bytes of these tensors exceed the capacity.
    """
    memory = memories.tensors[SECOND]
    live, node = peak_of_kept(problem, order, kept)
    name = problem.nodes[node].name.split(";")[0]
    larger = f"more --order-states than {options.order_states} may find an order in which it fits"
    other = f"--inside {BEST} looks for an order in which it fits"
    return CapacityError(
        "capacity-004",
        f"a group's tensors do not fit into {memory.name}",
        where=f"--partition {options.partition} --inside {options.inside}",
        why=f'while "{name}" runs, {live} bytes of them are live; of its '
        f"{memory.size_bytes} bytes, {FILL:.0%} may be live, since placement needs slack",
        help=larger if options.inside == BEST else other,
    )


def _written_storages(parts: Parts) -> list[str]:
    """Return the name of the storage that each part writes."""
    storages = parts.rows.storages
    return [storages[part.written].name for part in parts.rows.row_parts]


def _live_ranges(problem: GroupingProblem, order: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Return the live range of each tensor that is read and is not a network output.

    Keys: index of the node that writes the tensor.
    Values: half-open range [first, end) of positions in `order`; `first` is the position of that
        node, `end` is one after the position of the last reader.
    """
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


@dataclass(frozen=True, slots=True)
class FusedGroups:
    """The groups of parts that can run tile by tile, by node mask.

    parts: the parts; node k of a mask is part k.
    _known: the result of `_costs` for each group, by node mask.  The parts that run the groups are
        not stored: there are many, and few are chosen.
    """

    parts: Parts
    source: FusionSource
    _known: dict[int, Mapping[str, int] | None] = field(
        default_factory=dict[int, Mapping[str, int] | None]
    )

    def cost(self, objective: str, group: int) -> int | None:
        """Return the cost of a group that runs tile by tile; None if it is not known.

        It is not known if the group cannot run tile by tile, if it has more than `MOST_MEMBERS`
        nodes, or if `MOST_FUSED` other groups have been tried before.
        objective: `CYCLES`, or `BYTES` for the bytes that pass through main memory.
        group: mask of nodes.
        """
        if group.bit_count() > MOST_MEMBERS:
            return None
        if group not in self._known:
            if len(self._known) >= MOST_FUSED:
                return None
            self._known[group] = self._costs(group)
        known = self._known[group]
        return None if known is None else known.get(objective)

    def _costs(self, group: int) -> Mapping[str, int] | None:
        """Return the cycles of a group (key `CYCLES`) and, if known, the bytes that pass through
        main memory (key `BYTES`); None if the group cannot run tile by tile."""
        fused = self.fused(group)
        if fused is None or fused.part.kernel.cycles is None:
            return None
        found = fused.part.kernel.cycles(row_count(fused.part.output.type.shape), ())
        if not isinstance(found, Breakdown):
            return {CYCLES: round(found)}
        return {CYCLES: round(found.cycles), BYTES: round(found.memory_bytes)}

    def least(self, objective: str, k: int) -> int | None:
        """Return a lower bound of the cost of part `k` in any group that runs tile by tile.

        None if no accelerator runs the part.
        objective: `CYCLES` for the cycles of all multiply-accumulates at the accelerator's highest
            rate (0 if it states none); `BYTES` for the size of the constant tables that the part
            reads.
        """
        part = self.parts.parts[k]
        if part.kernel.cycles is None:
            return None
        if objective == BYTES:
            return sum(table.type.size_bytes for _, table in part.kernel.tables)
        shape = part.output.type.shape
        found = part.kernel.cycles(row_count(shape), ())
        peak = found.macs_per_cycle if isinstance(found, Breakdown) else None
        return 0 if peak is None else int(part.macs(Region.whole(shape)) / peak)

    def fused(self, group: int) -> FusedPart | None:
        """Return the part that runs a group tile by tile; None if it cannot.

        group: mask of nodes.
        """
        return self.source.fused(self.parts, tuple(bits(group)))

    def replaced(self, groups: Sequence[int]) -> Replacement:
        """Return the parts in which a single part stands for each group.

        groups: masks of nodes.
        """
        found: list[tuple[Sequence[int], FusedPart]] = []
        for group in groups:
            fused = self.fused(group)
            assert fused is not None
            found.append((tuple(bits(group)), fused))
        return with_fused(self.parts, found)


def memory_bytes(parts: Parts, k: int, memory: MemoryAssignment) -> int:
    """Return the bytes that pass through main memory when part `k` computes all rows in one call.

    The result is 0 if the kernel's cost function does not state them.
    memory: the memory assignment of a schedule.
    """
    part = parts.parts[k]
    if part.kernel.cycles is None:
        return 0
    regions = memory.for_part(part, parts.owners).operand_regions(part)
    found = part.kernel.cycles(row_count(part.output.type.shape), regions)
    return round(found.memory_bytes) if isinstance(found, Breakdown) else 0
