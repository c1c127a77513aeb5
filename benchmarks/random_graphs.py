"""RandomGraphs: graphs of several families with random sizes, drawn by number, for partitioning.

    layered          each node reads nodes of the one or two levels before its own
    towers           two or three chains from one start, wide and slim in turn, that may join
    series_parallel  chains of chains and of branches that join again, to some depth
    cells            each cell reads the two before it; within it, sums of short branches
    chains           nodes that read the one before, with skips

The same family, seed and number of nodes are the same graph everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from penstock.scheduling.grouping.problem import GroupingProblem, GroupNode

SIZES = (1, 2, 4, 8, 16, 32)
WEIGHTS = (0, 0, 1, 2, 4, 8)
INPUT = -1
"""What stands for the network's input while a graph grows."""


class Growing:
    """A graph that grows node by node; every node but the first ones reads nodes before it."""

    def __init__(self, random: Random, nodes: int) -> None:
        self.random, self.most = random, nodes
        self.nodes: list[tuple[int, int, tuple[int, ...]]] = []

    @property
    def full(self) -> bool:
        return len(self.nodes) >= self.most

    def grow(self, *reads: int, size: int | None = None) -> int:
        """A node more; its index."""
        draw = self.random.choice
        self.random.random()
        size = draw(SIZES) if size is None else size
        self.nodes.append((size, draw(WEIGHTS), tuple(sorted(set(reads)))))
        return len(self.nodes) - 1

    def problem(self) -> GroupingProblem:
        """The graph; what nobody reads is an output."""
        count = len(self.nodes)
        nodes = tuple(
            GroupNode(f"n{i}", size, weight, tuple(count if r == INPUT else r for r in reads))
            for i, (size, weight, reads) in enumerate(self.nodes)
        )
        read = {r for node in nodes for r in node.reads}
        return GroupingProblem(nodes, (8,), frozenset(set(range(count)) - read))


def layered(g: Growing) -> None:
    levels = [[g.grow(INPUT)]]
    while not g.full:
        near = levels[-1] + (levels[-2] if len(levels) > 1 else [])
        width = min(g.random.randint(1, 4), g.most - len(g.nodes))
        levels.append(
            [
                g.grow(*g.random.sample(near, g.random.randint(1, min(3, len(near)))))
                for _ in range(width)
            ]
        )


def towers(g: Growing) -> None:
    start = g.grow(INPUT)
    ends = [start] * g.random.randint(2, 3)
    periods = [g.random.randint(2, 5) for _ in ends]
    step = 0
    while not g.full:
        which = step % len(ends)
        slim = (step // len(ends) + which) % periods[which] == 0
        ends[which] = g.grow(ends[which], size=g.random.choice((1, 2) if slim else (8, 16, 32)))
        step += 1
        if step % 24 == 23 and not g.full:
            ends = [g.grow(*ends)] * len(ends)


def series_parallel(g: Growing) -> None:
    end = g.grow(INPUT)
    while not g.full:
        end = _block(g, end, 3)


def _block(g: Growing, end: int, depth: int) -> int:
    """A chain, or branches that join again, after a node; returns the last node."""
    if g.full:
        return end
    if depth == 0 or g.random.random() < 0.4:
        for _ in range(g.random.randint(1, 3)):
            end = end if g.full else g.grow(end)
        return end
    ends = [_block(g, end, depth - 1) for _ in range(g.random.randint(2, 3))]
    return ends[0] if g.full else g.grow(*ends)


def cells(g: Growing) -> None:
    before, last = INPUT, g.grow(INPUT)
    while not g.full:
        sums: list[int] = []
        known = [before, last]
        for _ in range(g.random.randint(2, 4)):
            pair = [_branch(g, g.random.choice(known)) for _ in range(2)]
            if g.full:
                break
            sums.append(g.grow(*pair))
            known = known if g.random.random() < 0.7 else [*known, sums[-1]]
        if sums and not g.full:
            before, last = last, g.grow(*sums)


def _branch(g: Growing, end: int) -> int:
    for _ in range(g.random.randint(0, 3)):
        end = end if g.full else g.grow(end)
    return end


def chains(g: Growing) -> None:
    end = g.grow(INPUT)
    skips: list[int] = [end]
    while not g.full:
        reads = {end}
        if g.random.random() < 0.25:
            reads.add(g.random.choice(skips))
        end = g.grow(*reads)
        skips = [*skips[-5:], end]


FAMILIES: Mapping[str, Callable[[Growing], None]] = {
    "layered": layered,
    "towers": towers,
    "series_parallel": series_parallel,
    "cells": cells,
    "chains": chains,
}


def random_problem(family: str, seed: int, nodes: int) -> GroupingProblem:
    """A graph of a family with so many nodes."""
    growing = Growing(Random(f"{family} {seed} {nodes}"), nodes)
    FAMILIES[family](growing)
    return growing.problem()
