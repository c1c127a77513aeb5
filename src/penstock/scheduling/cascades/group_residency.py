"""Schedules in which each part runs in one call, and selected tensors are in the second memory.

All other tensors are in the first memory, the default.  There are two ways to select the tensors:

    grouped     divide the parts into groups that take few cycles; select the tensors that only one
                group uses
    resident    select a tensor if there is room for it during its whole live range
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from functools import partial

import numpy as np

from penstock.errors import CapacityError
from penstock.memory.bank_groups import whole_banks
from penstock.scheduling.cascades.candidate import Candidate
from penstock.scheduling.cascades.fused_groups import MOST_MEMBERS, FusedGroups, memory_bytes
from penstock.scheduling.grouping.cycles import GroupCycles
from penstock.scheduling.grouping.inside import ORDERS_INSIDE
from penstock.scheduling.grouping.problem import GroupingProblem, GroupNode
from penstock.scheduling.grouping.strategies import DEFAULTS, STRATEGIES
from penstock.scheduling.model.memories import FILL, MemorySystem
from penstock.scheduling.model.memory_assignment import MemoryAssignment
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.options import BEST, BYTES, CYCLES, Options
from penstock.scheduling.order.step_table import bits
from penstock.scheduling.simulate.cost_accounting import CostAccounting
from penstock.scheduling.simulate.execution import WHOLE

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
