"""Exhaustive references for groupings, peaks and orders, with plain sets of nodes.

They share only the fields of the problem with the code under test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from penstock.scheduling.grouping.problem import GroupingProblem

Set = frozenset[int]


def moved_bytes(problem: GroupingProblem, group: Set) -> int:
    """Bytes that a group reads from outside, each tensor once, and bytes of its tensors that are
    read outside."""
    count = len(problem.nodes)
    sizes = [node.output_bytes for node in problem.nodes] + list(problem.input_bytes)
    read = {t for i in group for t in problem.nodes[i].reads if t not in group}
    wanted = {
        i
        for i in group
        if i in problem.outputs
        or any(i in problem.nodes[k].reads for k in range(count) if k not in group)
    }
    return sum(sizes[t] for t in read) + sum(sizes[i] for i in wanted)


def live_bytes(problem: GroupingProblem, group: Set, done: Set, running: int | None) -> int:
    """Live bytes of a group after some nodes have run, while one node runs, if any."""
    sizes = [node.output_bytes for node in problem.nodes] + list(problem.input_bytes)
    live = 0
    for t, size in enumerate(sizes):
        inside = [i for i in group if t in problem.nodes[i].reads]
        pending = any(i not in done for i in inside)
        if t in group:
            wanted = t in problem.outputs or any(
                t in node.reads for i, node in enumerate(problem.nodes) if i not in group
            )
            if t == running or (t in done and (pending or wanted)):
                live += size
        elif pending:
            live += size
    return live


def peak_of(problem: GroupingProblem, group: Set, order: tuple[int, ...]) -> int:
    """The peak of live bytes."""
    peaks = [live_bytes(problem, group, frozenset(), None)]
    for k, i in enumerate(order):
        peaks.append(live_bytes(problem, group, frozenset(order[:k]), i))
    peaks.append(live_bytes(problem, group, group, None))
    return max(peaks)


def least_peak(problem: GroupingProblem, group: Set) -> int:
    """The least peak of all orders of a group."""

    @cache
    def after(done: Set) -> int:
        if done == group:
            return live_bytes(problem, group, group, None)
        found = []
        for i in group - done:
            if all(t not in group or t in done for t in problem.nodes[i].reads):
                during = live_bytes(problem, group, done, i)
                found.append(max(during, after(done | {i})))
        return max(live_bytes(problem, group, done, None), min(found))

    return after(frozenset())


def is_order(problem: GroupingProblem, group: Set, order: tuple[int, ...]) -> bool:
    """Whether an order runs every node of a group once, after its predecessors."""
    if sorted(order) != sorted(group):
        return False
    return all(
        t not in group or t in order[:k]
        for k, i in enumerate(order)
        for t in problem.nodes[i].reads
    )


def least_cost(
    problem: GroupingProblem,
    weight_cap: int | None,
    buffer_cap: int | None,
    single_always: bool,
    cost: Callable[[GroupingProblem, Set], int] = moved_bytes,
) -> int | None:
    """The least cost of all groupings, None if there is none.  `cost`: cost of a group."""
    everything = frozenset(range(len(problem.nodes)))

    @cache
    def is_group(group: Set) -> bool:
        if len(group) == 1 and single_always:
            return True
        weights = sum(problem.nodes[i].weight_bytes for i in group)
        if weight_cap is not None and weights > weight_cap:
            return False
        return buffer_cap is None or least_peak(problem, group) <= buffer_cap

    @cache
    def after(done: Set) -> int | None:
        if done == everything:
            return 0
        found = []
        for more in _next(problem, everything - done, done):
            rest = after(done | more) if is_group(more) else None
            if rest is not None:
                found.append(rest + cost(problem, more))
        return min(found, default=None)

    return after(frozenset())


def _next(problem: GroupingProblem, left: Set, done: Set) -> Iterator[Set]:
    """Every set of nodes that can run after the given ones."""
    nodes = sorted(left)
    for mask in range(1, 1 << len(nodes)):
        some = frozenset(i for k, i in enumerate(nodes) if mask >> k & 1)
        known = done | some
        if all(t in known or t >= len(problem.nodes) for i in some for t in problem.nodes[i].reads):
            yield some


def can_run(problem: GroupingProblem, groups: tuple[int, ...]) -> bool:
    """Whether groups (masks) cover every node once, each after its predecessors."""
    done: set[int] = set()
    for group in groups:
        nodes = {i for i in range(len(problem.nodes)) if group >> i & 1}
        reads = {t for i in nodes for t in problem.nodes[i].reads if t < len(problem.nodes)}
        if nodes & done or not reads <= done | nodes:
            return False
        done |= nodes
    return done == set(range(len(problem.nodes)))
