"""Compared: groupings of a graph by every strategy and order, and tables of such graphs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from time import perf_counter

from rich.table import Table

from benchmarks.entry import shown
from benchmarks.traffic import Traffic, certificate, proven
from penstock.scheduling.grouping.problem import Grouping, ordered_grouping
from penstock.scheduling.grouping.search import intervals
from penstock.scheduling.grouping.strategies import DEFAULTS, ORDERS, STRATEGIES, orders

BASELINES = ("layer", "greedy", "paper")


@dataclass(frozen=True, slots=True)
class Compared:
    """A graph with the grouping of each baseline and order, and that of `best` with its time."""

    name: str
    nodes: int
    baselines: Mapping[str, Grouping]
    by_order: Mapping[str, Grouping]
    found: Grouping
    seconds: float

    @property
    def worse(self) -> bool:
        """Whether another grouping costs less than `best`."""
        others = (*self.baselines.values(), *self.by_order.values())
        return self.found.cost > min(other.cost for other in others)

    def gain(self, other: Grouping) -> float:
        """The gain of `best` relative to the cost of another grouping."""
        return 1 - self.found.cost / other.cost if other.cost else 0.0


def compare(name: str, cost: Traffic) -> Compared:
    """Groups a graph by every strategy and order."""
    print(f"grouping {name}", file=sys.stderr)
    begun = perf_counter()
    found = proven(cost)
    seconds = perf_counter() - begun
    baselines = {key: STRATEGIES[key](cost, DEFAULTS) for key in BASELINES}
    every = orders(cost.problem).items()
    by_order = {key: ordered_grouping(intervals(order, cost), cost) for key, order in every}
    return Compared(name, len(cost.problem.nodes), baselines, by_order, found, seconds)


def costs(title: str, some: Sequence[Compared]) -> Table:
    """A table of the costs of each strategy and the certificate of `best`."""
    table = _table(title, "nodes", *BASELINES, "best", "groups", "certificate", "seconds")
    for c in some:
        cells = (c.nodes, *(c.baselines[key].cost for key in BASELINES), c.found.cost)
        count = shown(len(c.found.groups))
        table.add_row(c.name, *map(shown, cells), count, certificate(c.found), f"{c.seconds:.1f}")
    return table


def gains(title: str, some: Mapping[str, Sequence[Compared]]) -> Table:
    """A table of the mean relative gain of `best` over each strategy and order."""
    headings = (*BASELINES, *(f"order {key}" for key in ORDERS))
    table = _table(title, "optimal", *headings)
    for name, found in some.items():
        optimal = sum(c.found.optimal for c in found)
        shares = [mean(c.gain(c.baselines[key]) for c in found) for key in BASELINES]
        shares += [mean(c.gain(c.by_order[key]) for c in found) for key in ORDERS]
        table.add_row(name, f"{optimal} of {len(found)}", *(f"{share:.1%}" for share in shares))
    return table


def _table(title: str, *headings: str) -> Table:
    """An empty table with a row for each graph."""
    table = Table(title=title)
    table.add_column("graph", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right")
    return table
