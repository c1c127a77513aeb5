"""Ethos-U points: our own streams at points of the frontier, run by the functional model.

    python -m benchmarks.ethos_u_points FOLDER [--network NAME ...] [--accelerator NAME ...]

FOLDER holds models.  Of each network on each accelerator, the point that is chosen and three more,
evenly spread from the least memory on, run in the machine, where streams are decoded, and every
access and wait is checked.  Prints for each: SRAM, calls, cascades of several layers, layers whose
constants are fetched before, and how many elements differ from the reference.  Exits with 1 where
any does.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.table import Table

from benchmarks.entry import console, entry, shown
from benchmarks.ethos_u import ACCELERATORS, NETWORKS
from benchmarks.points import spread
from benchmarks.shared import find_shared
from penstock import api, ladder
from penstock.pipeline import Compilation, Point, compile_request
from penstock.simulators.graph import run_graph

OTHERS = 3
HEADER = ("network", "accelerator", "SRAM", "calls", "cascades", "fetched", "elements", "differ")


def main(arguments: Sequence[str]) -> int:
    """Prints a table, a line each point; 1 where anything differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ethos_u_points",
                                     description=__doc__)  # fmt: skip
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="folder of models")
    parser.add_argument("--network", action="append", metavar="NAME", help="this one only")
    parser.add_argument("--accelerator", action="append", choices=ACCELERATORS, metavar="NAME")
    parser.add_argument("--target", default="cortex-m55", help="the processor beside the NPU")
    wanted = parser.parse_args(arguments)
    table = Table(title="Points of networks on Ethos-U, in the machine")
    for heading in HEADER:
        left = heading in HEADER[:2]
        table.add_column(heading, justify="left" if left else "right", no_wrap=left)
    wrong = 0
    for model in find_shared(wanted.folder).named(wanted.network or list(NETWORKS)):
        for accelerator in wanted.accelerator or ACCELERATORS:
            print(f"{model.stem} on {accelerator}", file=sys.stderr)
            request = api.request(str(model), wanted.target, accelerators=(accelerator,))
            for point, elements, mismatches in checked(compile_request(request)):
                wrong += mismatches + (elements == 0)
                cells = (*map(shown, cells_of(point)), shown(elements), shown(mismatches))
                table.add_row(model.stem, ACCELERATORS[accelerator], *cells)
    console().print(table)
    return 1 if wrong else 0


def checked(done: Compilation) -> Iterator[tuple[Point, int, int]]:
    """The chosen point and others, and of each how many elements were compared, and differ."""
    inputs = api.drawn_sets(done, 1)[0]
    reference = run_graph(done.model, inputs)
    others = (done.points[k] for k in sorted(spread(len(done.points) - 1, OTHERS)))
    for point in (*others, done.point):
        found = ladder.run_point(done, inputs, reference, point)
        yield point, found.elements, found.mismatches


def cells_of(point: Point) -> tuple[int, int, int, int]:
    """SRAM, calls, cascades of several parts, and how many parts have constants fetched."""
    plans = point.schedule.plans
    return (
        point.height_bytes,
        point.schedule.cost.calls,
        sum(len(plan.parts) > 1 for plan in plans),
        sum(len(plan.fetched) for plan in plans),
    )


if __name__ == "__main__":
    entry(main)
