"""Partition: bytes to and from external memory by strategy, on random graphs and real networks.

    python -m benchmarks.partition [FOLDER] [--network NAME] [--seeds COUNT]

The cost is abstract: a group reads each tensor from outside once, and writes what is wanted outside
once; its weights and its whole live tensors must each fit into the buffer of an NVDLA: `small`, 128
KiB, or `large`, 512 KiB; a single layer may take more.  FOLDER holds models of others; without it,
networks of the zoo are grouped.

Beside the bytes of every strategy: by how many per cent `best` moves less than it; the same over
dynamic programming along each order alone; the certificate; seconds of `best`.  Exits with 1 where
`best` moves more than another strategy.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from time import perf_counter

from rich.table import Table

from benchmarks.entry import console, entry, first_line, shown
from benchmarks.graph_groups import network_problem
from benchmarks.random_graphs import FAMILIES, random_problem
from penstock.errors import PenstockError
from penstock.scheduling.grouping.cost import Limits, Traffic, weight_of
from penstock.scheduling.grouping.grouping import Grouping, grouping_of
from penstock.scheduling.grouping.intervals import intervals
from penstock.scheduling.grouping.orders import ORDERS, orders
from penstock.scheduling.grouping.problem import GroupingProblem
from penstock.scheduling.grouping.strategies import DEFAULTS, STRATEGIES, best

ZOO = ("zoo:resnet8", "zoo:mobilenet_v1", "zoo:mobilenet_v2", "zoo:vgg16")
CONFIGURATIONS = {"small": 128 << 10, "large": 512 << 10}
BASELINES = ("layer", "greedy", "bounded", "paper", "paper_merged")
LARGE_NODES = 1100
"""Of the random graphs on which the time is measured."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A graph: the bytes of each baseline and order, and what `best` found in so many seconds."""

    name: str
    nodes: int
    baselines: Mapping[str, int]
    by_order: Mapping[str, int]
    found: Grouping
    seconds: float

    @property
    def worse(self) -> bool:
        """Whether anything moves less than `best`."""
        return self.found.cost > min(*self.baselines.values(), *self.by_order.values())

    def gain(self, other: int) -> float:
        """The share of another's bytes that `best` does not move."""
        return 1 - self.found.cost / other if other else 0.0


def main(arguments: Sequence[str]) -> int:
    """Prints the tables; 1 where `best` is worse than anything."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.partition", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="folder of models")
    parser.add_argument("--network", action="append", metavar="NAME", help="this one only")
    parser.add_argument("--seeds", type=int, default=10, metavar="COUNT", help="of each family")
    wanted = parser.parse_args(arguments)
    random = {} if wanted.network else dict(_families(wanted.seeds))
    large = [] if wanted.network else list(_large())
    networks = list(_networks(wanted.folder, wanted.network))
    if random:
        console().print(_gains("random graphs: mean gain of best", random))
    for title, some in (("large random graphs", large), ("networks", networks)):
        if some:
            console().print(_bytes(f"{title}: bytes moved", some))
            console().print(_gains(f"{title}: gain of best", {c.name: [c] for c in some}))
    every = [c for some in (*random.values(), large, networks) for c in some]
    return 1 if not every or any(c.worse for c in every) else 0


def compare(name: str, problem: GroupingProblem, limits: Limits) -> Compared:
    """A graph by every strategy and order."""
    print(f"grouping {name}", file=sys.stderr)
    cost = Traffic(problem, limits)
    begun = perf_counter()
    found = best(cost)
    seconds = perf_counter() - begun
    baselines = {key: STRATEGIES[key](cost, DEFAULTS).cost for key in BASELINES}
    by_order = {
        key: grouping_of(intervals(order, cost), cost).cost
        for key, order in orders(problem).items()
    }
    return Compared(name, len(problem.nodes), baselines, by_order, found, seconds)


def _families(seeds: int) -> Iterator[tuple[str, list[Compared]]]:
    """Graphs of 12 to 40 nodes, weights or buffer limited."""
    for family in FAMILIES:
        for kind in ("weights", "buffer"):
            some: list[Compared] = []
            for seed in range(seeds):
                problem = random_problem(family, seed, 12 + 7 * seed % 29)
                some.append(compare(f"{family} {seed}", problem, _limits(problem, kind, 5)))
            yield f"{family}, {kind}", some


def _large() -> Iterator[Compared]:
    for family in FAMILIES:
        problem = random_problem(family, 1, LARGE_NODES)
        for kind in ("weights", "buffer"):
            yield compare(f"{family}, {kind}", problem, _limits(problem, kind, LARGE_NODES // 10))


def _limits(problem: GroupingProblem, kind: str, share: int) -> Limits:
    """A share of all weights, or three of the largest tensors."""
    if kind == "buffer":
        return Limits(buffer_cap=3 * max(problem.sizes))
    return Limits(max(8, weight_of(problem, problem.everything) // share))


def _networks(folder: Path | None, only: Sequence[str] | None) -> Iterator[Compared]:
    models = ZOO if folder is None else sorted(map(str, folder.glob("*.tflite*")))
    for model in models:
        name = Path(model).name.removesuffix(".gz").removesuffix(".tflite")
        if only and name not in only:
            continue
        try:
            problem = network_problem(model)
        except PenstockError as error:
            print(f"not taken: {model}: {first_line(error)}", file=sys.stderr)
            continue
        for configuration, room in CONFIGURATIONS.items():
            yield compare(f"{name}, {configuration}", problem, Limits(room, room))


def _bytes(title: str, some: Sequence[Compared]) -> Table:
    table = Table(title=title)
    table.add_column("graph", no_wrap=True)
    for heading in ("nodes", *BASELINES, "best", "groups", "certificate", "seconds"):
        table.add_column(heading, justify="right")
    for c in some:
        moved = (c.nodes, *(c.baselines[key] for key in BASELINES), c.found.cost)
        count = shown(len(c.found.groups))
        table.add_row(c.name, *map(shown, moved), count, c.found.certificate, f"{c.seconds:.1f}")
    return table


def _gains(title: str, some: Mapping[str, Sequence[Compared]]) -> Table:
    table = Table(title=title)
    table.add_column("graphs", no_wrap=True)
    for heading in ("optimal", *BASELINES, *(f"order {key}" for key in ORDERS)):
        table.add_column(heading, justify="right")
    for name, found in some.items():
        optimal = sum(c.found.optimal for c in found)
        gains = [mean(c.gain(c.baselines[key]) for c in found) for key in BASELINES]
        gains += [mean(c.gain(c.by_order[key]) for c in found) for key in ORDERS]
        table.add_row(name, f"{optimal} of {len(found)}", *(f"{gain:.1%}" for gain in gains))
    return table


if __name__ == "__main__":
    entry(main)
