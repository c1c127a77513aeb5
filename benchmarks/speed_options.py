"""Whether `--optimize speed` is the fastest: tries the options that restrict or replace its search.

    python -m benchmarks.speed_options [--models FOLDER] [--network NAME ..] [--target NAME ..]

For each of the fifteen networks on each of three cores, the default is compared with every
combination of `--no-accumulate`, `--max-stripe 1`, `--no-alternatives` and `--order`: RAM and
estimated cycles of every point of the frontier at its final addresses.  A point of another
combination is faster if no point of the default needs at most its RAM and takes at most its cycles,
but for a difference that does not count (`selection.NOTICED`).  Prints these points; exits with 1
if there are any.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from rich.table import Table

from benchmarks.entry import console, entry, shown
from benchmarks.estimate import FIFTEEN
from benchmarks.shared import find_shared
from benchmarks.unchanged import CORES
from penstock import api
from penstock.pareto import noticeably_faster
from penstock.pipeline.assignment import assign_engines
from penstock.pipeline.graphs import read_request, simplify
from penstock.pipeline.placing import place
from penstock.pipeline.request import Request
from penstock.pipeline.search import schedule
from penstock.scheduling.grouping.strategies import ORDERS
from penstock.scheduling.options import LEAST, Options

DEFAULT = Options()
Point = tuple[int, int]
"""RAM in bytes, cycles."""


@dataclass(frozen=True, slots=True)
class Faster:
    """A point that the default does not reach."""

    network: str
    target: str
    options: str
    point: Point
    default: Point


def main(arguments: Sequence[str]) -> int:
    """Prints the points that the default does not reach."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed_options",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--models", type=Path, metavar="FOLDER")
    parser.add_argument("--network", action="append", metavar="NAME")
    parser.add_argument("--target", action="append", choices=CORES)
    wanted = parser.parse_args(arguments)
    shared = find_shared(wanted.models)
    models = shared.named(wanted.network or list(FIFTEEN))
    table = Table("network", "target", "options", "RAM", "cycles", "RAM by default", "cycles")
    count = combinations = 0
    for model, target in product(models, wanted.target or CORES):
        for found in faster(model, target):
            count += 1
            numbers = (*found.point, *found.default)
            table.add_row(model.stem, target, found.options, *map(shown, numbers))
        combinations += len(list(restrictions()))
    console().print(table if count else "nothing is faster than the default")
    console().print(f"{len(models)} networks, {combinations} compilations beside the default")
    return 1 if count else 0


def restrictions() -> Iterator[tuple[str, Options]]:
    """Each combination but the default, with the options of the command line."""
    for accumulate, stripe, alternatives, order in product(
        (True, False), (DEFAULT.max_stripe, 1), (True, False), (LEAST, *ORDERS)
    ):
        words = (
            "" if accumulate else "--no-accumulate",
            "" if stripe == DEFAULT.max_stripe else f"--max-stripe {stripe}",
            "" if alternatives else "--no-alternatives",
            "" if order == LEAST else f"--order {order}",
        )
        options = Options(
            accumulate=accumulate, alternatives=alternatives, order=order, max_stripe=stripe
        )
        if options != DEFAULT:
            yield " ".join(filter(None, words)), options


def faster(model: Path, target: str) -> Iterator[Faster]:
    """The points of other options that the default does not reach."""
    default = points(api.request(str(model), target))
    seen = set(default)
    for words, options in restrictions():
        request = api.request(str(model), target, options=options)
        for point in points(request):
            if point in seen:
                continue
            seen.add(point)
            ram, cycles = point
            best = min((p for p in default if p[0] <= ram), key=lambda p: p[1], default=None)
            if best is None or noticeably_faster(cycles, best[1]):
                yield Faster(model.stem, target, words, point, best or default[0])


def points(request: Request) -> list[Point]:
    """RAM and cycles of the points of a request's frontier."""
    graph = simplify(read_request(request), request.rounding, request.io)
    parts = assign_engines(graph, request)
    frontier = schedule(parts, request.target, request.options, request.accelerators)
    placed = place(frontier, request.target, request.options)
    return [(point.ram_bytes(request), point.schedule.cost.cycles) for point in placed]


if __name__ == "__main__":
    entry(main)
