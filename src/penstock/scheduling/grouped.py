"""grouped: parts that run whole, and which of their tensors live in the second memory.

By groups: the parts of a network are the nodes of a grouping problem (`grouping/`), whose cost is
the bytes to and from the first memory; what a group keeps to itself lives in the second one.
`resident` goes further than groups can: whatever finds room there as long as it lives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

import numpy as np

from penstock.scheduling.demand import WHOLE
from penstock.scheduling.grouping.cost import Limits, Traffic
from penstock.scheduling.grouping.inside import ORDERS_INSIDE
from penstock.scheduling.grouping.problem import GroupingProblem, GroupNode
from penstock.scheduling.grouping.strategies import DEFAULTS, STRATEGIES
from penstock.scheduling.options import Options
from penstock.scheduling.part import Parts
from penstock.scheduling.proposals import Candidate
from penstock.scheduling.step_table import bits

SECOND = 1
"""The number of the memory in which groups keep what they alone know."""


def grouped(
    problem: GroupingProblem, room_bytes: int, options: Options
) -> tuple[tuple[int, ...], Set[int]]:
    """Groups of the options' strategy, each of which fits into so many bytes: an order in which
    they run, and the nodes whose tensors a group keeps to itself."""
    cost = Traffic(problem, Limits(buffer_cap=room_bytes))
    groups = STRATEGIES[options.partition](cost, DEFAULTS).groups
    inside, states = ORDERS_INSIDE[options.inside], options.order_states // len(groups)
    ordered = (inside(problem, group, states).order for group in groups)
    order = tuple(i for some in ordered for i in some)
    return order, {i for group in groups for i in bits(group & ~problem.wanted_outside(group))}


def grouping_problem(parts: Parts) -> GroupingProblem:
    """The parts as nodes, each of which writes a storage."""
    rows, count = parts.rows, len(parts.parts)
    sizes = [storage.size_bytes for storage in rows.storages]
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
    parts: Parts, order: Sequence[int], away: Iterable[int]
) -> tuple[Candidate, ...]:
    """Every part of an order whole and by itself; those `away` write into the second memory."""
    kept = set(away)
    written = [part.written for part in parts.rows.row_parts]
    return tuple(
        Candidate(p, p + 1, WHOLE, False, away=((written[i], SECOND),) if i in kept else ())
        for p, i in enumerate(order)
    )


def resident(problem: GroupingProblem, order: Sequence[int], room_bytes: int) -> Set[int]:
    """Nodes whose tensors find room in the second memory as long as they live, while nodes run in
    an order: those first that spare the most accesses for the time that they stay.

    What is an output, or larger than the room, finds none."""
    lives = _lives(problem, order)

    def worth(i: int) -> tuple[float, int]:
        lower, upper = lives[i]
        return -(1 + problem.readers[i].bit_count()) / (upper - lower), lower

    live = np.zeros(len(order), np.int64)
    found: set[int] = set()
    for i in sorted(lives, key=worth):
        lower, upper = lives[i]
        if live[lower:upper].max() + problem.sizes[i] <= room_bytes:
            live[lower:upper] += problem.sizes[i]
            found.add(i)
    return found


def most_alive(
    problem: GroupingProblem, order: Sequence[int], kept: Iterable[int]
) -> tuple[int, int]:
    """While nodes run in an order: the most bytes that tensors of the nodes `kept` take at a time,
    and the node that runs then."""
    lives, live = _lives(problem, order), np.zeros(len(order), np.int64)
    for i in kept:
        lower, upper = lives[i]
        live[lower:upper] += problem.sizes[i]
    worst = int(live.argmax())
    return int(live[worst]), order[worst]


def _lives(problem: GroupingProblem, order: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Of the nodes whose tensors are read, and are no outputs: from the position at which each is
    written up to behind that of its last reader."""
    position = {i: p for p, i in enumerate(order)}
    return {
        i: (position[i], max(position[r] for r in bits(problem.readers[i])) + 1)
        for i in order
        if problem.readers[i] and i not in problem.outputs
    }
