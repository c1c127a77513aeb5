"""Search time: the stage `schedule` with and without the extended space of plans.

    python -m benchmarks.search_time [FOLDER] [--network NAME ...] [--target NAME] [--runs 3]
                                     [--input memory|streamed] [--max-recompute F]
                                     [--no-alternatives] [--chain-plans N] [--built N]

The extended space contains cascades in bands, chains, exchanged images and channel groups. For the
fifteen networks of FOLDER and MobileNetV2 1.0 224 of the zoo: processor seconds of the stage, the
least of --runs runs, with the garbage collector as the command line sets it; and counted work,
which is the same on every computer: calls of Python functions, plans of chains evaluated, and
schedules built below the least memory of rows; and the live bytes of the schedule with the least
memory. `--chain-plans` and `--built` limit this work for each search, in each round in the order of
the search, which builds the proposals with the least memory first. Exits with 1 if the extended
space takes more than MOST_RATIO times as long, or a search more than its limit.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time

from rich.table import Table

from benchmarks.entry import console, entry
from benchmarks.estimate import FIFTEEN
from benchmarks.figures import TARGET
from benchmarks.shared import find_shared
from penstock import api
from penstock.cli import OBJECTS_BEFORE_COLLECTION
from penstock.pipeline.request import Request
from penstock.pipeline.search import schedule
from penstock.pipeline.stages import ASSIGN, run_through
from penstock.scheduling.bands import below_rows
from penstock.scheduling.bands.below_rows import BelowRows, Sources
from penstock.scheduling.bands.chain_search import ChainSearch
from penstock.scheduling.cascades.proposals import Proposal
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.options import DEFAULTS, Options

ROWS = Options(max_recompute=1.0, alternatives=False)
"""Cascades row by row, each row computed once."""
LIMITS_SECONDS = {"zoo:mobilenet_v2": 10.0}
MOST_RATIO = 2.0
INPUTS = ("memory", "streamed")
WARM_UP = "zoo:lenet5"
"""Searched first, so that compiled functions are loaded."""


@dataclass(frozen=True, slots=True)
class Searched:
    """A search: processor seconds, points, live bytes of the least one, calls of Python functions,
    plans of chains evaluated, and schedules built below rows."""

    seconds: float
    points: int
    least_bytes: int
    calls: int
    chain_plans: int
    built: int


def main(arguments: Sequence[str]) -> int:
    """Prints the table; returns 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search_time", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="folder of models")
    parser.add_argument("--network", action="append", metavar="NAME", help="only this; repeatable")
    parser.add_argument("--target", default=TARGET, metavar="NAME")
    parser.add_argument("--input", choices=INPUTS, help="only in memory, or only streamed")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="timed runs of each")
    parser.add_argument("--max-recompute", type=float, default=DEFAULTS.max_recompute, metavar="F")
    parser.add_argument("--no-alternatives", action="store_true", help="only the graph itself")
    parser.add_argument("--chain-plans", type=int, metavar="N", help="most plans of chains")
    parser.add_argument("--built", type=int, metavar="N", help="most schedules built below rows")
    wanted = parser.parse_args(arguments)
    alternatives = not wanted.no_alternatives
    options = Options(max_recompute=wanted.max_recompute, alternatives=alternatives)
    limit_work(wanted.chain_plans, wanted.built)
    names = wanted.network or [*FIFTEEN, *LIMITS_SECONDS]
    shared = find_shared(wanted.folder)
    gc.set_threshold(OBJECTS_BEFORE_COLLECTION)
    search(WARM_UP, wanted.target, DEFAULTS, "streamed", 1)
    table = Table(title=f"stage `schedule` on {wanted.target}, without and with the extended space")
    table.add_column("network")
    table.add_column("input")
    for heading in (
        "parts",
        "points",
        "least bytes",
        "CPU s",
        "ratio",
        "calls, thousands",
        "chain plans",
        "built",
    ):
        table.add_column(heading, justify="right")
    exceeded = 0
    pairs: list[tuple[Searched, Searched]] = []
    for name in names:
        model = name if name.startswith("zoo:") else str(shared.named([name])[0])
        for way in [wanted.input] if wanted.input else INPUTS:
            parts, rows = search(model, wanted.target, ROWS, way, wanted.runs)
            _, more = search(model, wanted.target, options, way, wanted.runs)
            pairs.append((rows, more))
            ratio = more.seconds / rows.seconds
            limit = LIMITS_SECONDS.get(name)
            exceeded += ratio > MOST_RATIO or (limit is not None and more.seconds > limit)
            table.add_row(
                name,
                way,
                f"{len(parts.parts)}",
                f"{rows.points} / {more.points}",
                f"{rows.least_bytes:,} / {more.least_bytes:,}",
                f"{rows.seconds:.2f} / {more.seconds:.2f}",
                f"{ratio:.2f}",
                f"{rows.calls / 1000:,.0f} / {more.calls / 1000:,.0f}",
                f"{more.chain_plans:,}",
                f"{more.built:,}",
            )
    console().print(table)
    print(summary(pairs))
    print(f"{exceeded} searches exceed a limit")
    return int(exceeded > 0)


def summary(pairs: Sequence[tuple[Searched, Searched]]) -> str:
    """Return the total work of searches: pairs without and with the extended space."""

    def totals(figure: Callable[[Searched], float]) -> tuple[float, float]:
        return sum(figure(rows) for rows, _ in pairs), sum(figure(more) for _, more in pairs)

    points, seconds = totals(lambda one: one.points), totals(lambda one: one.seconds)
    calls = totals(lambda one: one.calls)
    return (
        f"all: {points[0]} / {points[1]} points, {seconds[0]:.2f} / {seconds[1]:.2f} CPU s, ratio "
        f"{seconds[1] / seconds[0]:.2f}, {calls[1] / calls[0]:.2f} times the calls, "
        f"{totals(lambda one: one.chain_plans)[1]:,} plans of chains, "
        f"{totals(lambda one: one.built)[1]} schedules below rows"
    )


def search(
    model: str, target: str, options: Options, way: str, runs: int
) -> tuple[Parts, Searched]:
    """Return the parts of a network, and the figures of the search for its schedules."""
    request = api.request(model, target, stream_input=way == "streamed", options=options)
    seconds = min(_seconds(request) for _ in range(runs))
    parts = _parts(request)
    profiler = cProfile.Profile()
    found = profiler.runcall(schedule, parts, request.target, options)
    counts = [(entry.code, entry.callcount) for entry in profiler.getstats()]

    def calls(function: Callable[..., object]) -> int:
        return sum(count for code, count in counts if code is function.__code__)

    total = sum(count for _, count in counts)
    plans, built = calls(ChainSearch.evaluated), calls(BelowRows.schedule)
    least_bytes = min(one.peak_bytes for one in found.schedules)
    return parts, Searched(seconds, len(found.schedules), least_bytes, total, plans, built)


def limit_work(chain_plans: int | None, built: int | None) -> None:
    """Limit the work of all later searches; None: as the product does.

    chain_plans: plans of chains to evaluate for an order, at most.
    built: schedules below rows to build in a round, at most.
    """
    if chain_plans is not None:
        below_rows.MOST_PLANS = chain_plans
    if built is not None:
        every = BelowRows.proposals

        def some(self: BelowRows, sources: Sources, limit_bytes: int) -> list[Proposal]:
            return every(self, sources, limit_bytes)[:built]

        BelowRows.proposals = some


def _seconds(request: Request) -> float:
    """Return the processor seconds of the stage, with parts that nothing has used before."""
    parts = _parts(request)
    begun = process_time()
    schedule(parts, request.target, request.options)
    return process_time() - begun


def _parts(request: Request) -> Parts:
    return run_through(request, "assign").result(ASSIGN)


if __name__ == "__main__":
    entry(main)
