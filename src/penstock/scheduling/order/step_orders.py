"""Heuristic execution orders: baselines and starting points of the search."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import rustworkx as rx

from penstock.scheduling.order.step_table import StepTable, bits

_Pick = Callable[[list[int], int, int], int]  # (ready steps, state, live bytes) -> next step


class Heuristic(Enum):
    """A rule that determines a topological order of steps, such as depth first."""

    FILE = "file"  # the order of the problem
    DEPTH_FIRST = "depth first"  # the step that became ready last
    BREADTH_FIRST = "breadth first"  # the step that became ready first
    REVERSE = "reverse"  # depth first from the end
    EARLY = "early"  # in ascending order of the longest path from a first step
    LATE = "late"  # in descending order of the longest path to a last step
    LEAST_LIVE = "least live"  # the step that leaves the fewest live bytes


def heuristic_order(table: StepTable, heuristic: Heuristic) -> tuple[int, ...]:
    """Return the indices of all steps in the topological order that a heuristic determines.

    table: the dependences and the memory of the steps.
    """
    graph = table.graph
    match heuristic:
        case Heuristic.FILE:
            return tuple(rx.lexicographical_topological_sort(graph, key=lambda i: f"{i:09}"))
        case Heuristic.DEPTH_FIRST:
            return _order(table, lambda ready, _done, _live: ready[-1])
        case Heuristic.BREADTH_FIRST:
            return _order(table, lambda ready, _done, _live: ready[0])
        case Heuristic.REVERSE:
            return _from_the_end(graph)
        case Heuristic.EARLY:
            return tuple(i for level in rx.topological_generations(graph) for i in sorted(level))
        case Heuristic.LATE:
            levels = rx.topological_generations(_reversed(graph))
            return tuple(i for level in reversed(levels) for i in sorted(level))
        case Heuristic.LEAST_LIVE:
            return _order(table, lambda ready, done, live: _least_live(table, ready, done, live))


def _order(table: StepTable, pick: _Pick) -> tuple[int, ...]:
    ready = [i for i, row in enumerate(table.rows) if not row.before]
    done, live, order = 0, table.start_bytes, list[int]()
    while ready:
        step = pick(ready, done, live)
        _, live = table.run(done, live, step)
        done |= 1 << step
        order.append(step)
        ready.remove(step)
        ready += bits(table.ready_after(done, step))
    return tuple(order)


def _least_live(table: StepTable, ready: list[int], done: int, live: int) -> int:
    def rank(step: int) -> tuple[int, int, int]:
        during, after = table.run(done, live, step)
        return after, during, step

    return min(ready, key=rank)


def _from_the_end(graph: rx.PyDiGraph[int, str]) -> tuple[int, ...]:
    waiting = {i: graph.out_degree(i) for i in graph.node_indices()}
    ready = [i for i, readers in waiting.items() if not readers]
    order: list[int] = []
    while ready:
        step = ready.pop()
        order.append(step)
        for writer in sorted(graph.predecessor_indices(step)):
            waiting[writer] -= 1
            if not waiting[writer]:
                ready.append(writer)
    return tuple(reversed(order))


def _reversed(graph: rx.PyDiGraph[int, str]) -> rx.PyDiGraph[int, str]:
    copy = graph.copy()
    copy.reverse()
    return copy
