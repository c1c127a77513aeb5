"""Search: time, memory and work of the search for the frontier, and their growth.

python -m benchmarks.search [--plot FILE]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from rich.table import Table

from benchmarks.entry import console, entry
from penstock.backends.processor_parts import Processor, assign
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.ir.graph import Graph, Value
from penstock.passes.accumulate import accumulate
from penstock.pipeline.graphs import simplify
from penstock.pipeline.search import schedule
from penstock.scheduling.cascades.uniform_search import UniformSearch
from penstock.scheduling.model.memory_assignment import MemoryAssignment
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.options import Options
from penstock.scheduling.order.order import OrderOptions, find_order
from penstock.scheduling.order.part_steps import order_problem
from penstock.zoo.registry import open_zoo

TARGET = load_target("cortex-m4")
OPTIONS = Options()
CHAINS = (50, 100, 200, 500, 1000, 2000)
LIMIT_MB = 1000


def chain(parts: int) -> Graph:
    """Alternating 3 x 3 and 1 x 1 convolutions on 32 rows, with a fixed tail."""
    net = GraphBuilder("chain")
    x = net.input((1, 32, 32, 4))
    for k in reversed(range(parts)):
        x = net.conv2d(x, 8 if k % 3 else 4, 1 if k % 2 else 3, name=f"conv{k}")
    return net.build(x)


def branches(count: int) -> Graph:
    """Two blocks, each with `count` branches of two convolutions and their sum."""
    net = GraphBuilder("branches")
    x = net.input((1, 32, 32, 8))
    for turn in range(2):
        x = _sum(net, [_branch(net, x, f"{turn}/{k}") for k in range(count)])
    return net.build(x)


def _branch(net: GraphBuilder, x: Value, name: str) -> Value:
    y = net.conv2d(x, 8, 3, name=f"branch{name}a")
    return net.conv2d(y, 8, 3, name=f"branch{name}b")


def _sum(net: GraphBuilder, values: list[Value]) -> Value:
    total = values[0]
    for value in values[1:]:
        total = net.add(total, value, name=f"{value.name}/sum")
    return total


RACES: Mapping[str, tuple[Callable[[], Graph], float | None]] = {
    "MobileNetV1 1.0 224": (lambda: open_zoo("zoo:mobilenet_v1"), 10.0),
    "MobileNetV2 1.0 224": (lambda: open_zoo("zoo:mobilenet_v2"), 20.0),
    "4 branches of 2, twice": (lambda: branches(4), None),
    "6 branches of 2, twice": (lambda: branches(6), 30.0),
    **{f"chain of {parts}": (lambda parts=parts: chain(parts), None) for parts in CHAINS},
}
"""Networks, with the time limit of their search in seconds."""


@dataclass(frozen=True, slots=True)
class Lap:
    """A search: parts of the network, points, seconds, peak memory of the process, and simulated
    kernel calls."""

    parts: int
    points: int
    seconds: float
    peak_mb: int
    calls: int


def main(arguments: Sequence[str]) -> int:
    """Prints laps beside their limits; returns 1 if one is exceeded."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search", description=__doc__)
    parser.add_argument("--plot", type=Path, help="PNG or SVG file for the growth on chains")
    parser.add_argument("--lap", choices=RACES, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.lap:
        print(json.dumps(asdict(lap_of(RACES[chosen.lap][0]()))))
        return 0
    laps = {name: _apart(name) for name in RACES}
    console().print(_table(laps))
    if chosen.plot:
        _draw({n: laps[f"chain of {n}"].seconds for n in CHAINS}, chosen.plot)
    return int(any(_too_much(lap, RACES[name][1]) for name, lap in laps.items()))


def lap_of(graph: Graph) -> Lap:
    """Searches a network after a small one that warms up."""
    schedule(assign(accumulate(simplify(chain(3))), TARGET), TARGET, OPTIONS)
    begun = perf_counter()
    parts = assign(accumulate(simplify(graph)), TARGET)
    frontier = schedule(parts, TARGET, OPTIONS)
    seconds = perf_counter() - begun
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return Lap(len(parts.parts), len(frontier.schedules), seconds, peak_mb, _calls(parts))


def _calls(parts: Parts) -> int:
    """Kernel calls that the search simulates, over all orders."""
    problem = order_problem(parts, keep_inputs=OPTIONS.keep_input)
    found = find_order(problem, OrderOptions(max_states=OPTIONS.order_states))
    arena, constants = TARGET.memory_for("arena"), TARGET.memory_for("constant")
    memory = MemoryAssignment(arena.name, constants.name)
    calls = 0
    for order in {found.order, tuple(range(len(parts.parts)))}:
        search = UniformSearch(parts, order, Processor(TARGET.engines[0]), memory, OPTIONS)
        for upper in range(1, len(order) + 1):
            list(search.candidates(upper, ()))
        calls += search.calls
    return calls


def _apart(name: str) -> Lap:
    """A lap in a process of its own, so that its memory is not shared."""
    command = (sys.executable, "-m", "benchmarks.search", "--lap", name)
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Lap(**json.loads(done.stdout))


def _too_much(lap: Lap, limit_seconds: float | None) -> bool:
    return lap.peak_mb > LIMIT_MB or (limit_seconds is not None and lap.seconds > limit_seconds)


def _table(laps: Mapping[str, Lap]) -> Table:
    most = f"at most {OPTIONS.max_parts} parts a cascade"
    table = Table(title=f"search of the whole frontier, {most}, limit {LIMIT_MB} MB")
    headings = ("parts", "points", "seconds", "limit", "ms a part", "peak MB", "calls unfolded")
    table.add_column("network")
    for heading in headings:
        table.add_column(heading, justify="right")
    for name, lap in laps.items():
        limit = RACES[name][1]
        table.add_row(
            name,
            f"{lap.parts:,}",
            f"{lap.points:,}",
            f"{lap.seconds:.2f}",
            "-" if limit is None else f"{limit:.0f}",
            f"{1000 * lap.seconds / lap.parts:.1f}",
            f"{lap.peak_mb:,}",
            f"{lap.calls:,}",
        )
    return table


def _draw(seconds: Mapping[int, float], path: Path) -> None:
    """A plot of seconds over parts, beside linear growth."""
    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    parts = list(seconds)
    rate = seconds[parts[-1]] / parts[-1]
    axes.loglog(parts, list(seconds.values()), "o-", label="search")
    axes.loglog(parts, [rate * n for n in parts], "--", label=f"{1000 * rate:.1f} ms a part")
    axes.set(xlabel="parts in a chain", ylabel="seconds")
    axes.legend()
    figure.savefig(path)


if __name__ == "__main__":
    entry(main)
