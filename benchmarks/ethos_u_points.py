"""Ethos-U points: our own streams at points of the frontier, timed and run.

    python -m benchmarks.ethos_u_points FOLDER [--network NAME ...] [--accelerator NAME ...]

FOLDER holds models.  Of each network on each accelerator, the streams of every point are decoded
and timed (`ethos_u_time.py`), without the schedule or the code that made them.  The point that is
chosen and three more, evenly spread from the least memory on, also run in the machine, where every
access and wait is checked; with --timed none does.  Prints for each: SRAM, calls, cascades of
several layers, layers whose constants are fetched before, cycles of the NPU as estimated and of the
streams, and how many elements differ from the reference.  Exits with 1 where elements or cycles do.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.table import Table

from benchmarks.entry import console, entry, shown
from benchmarks.ethos_u import ACCELERATORS, NETWORKS, point_cycles, processor_cycles
from benchmarks.points import spread
from benchmarks.shared import find_shared
from penstock import api, ladder
from penstock.accelerators.ethos_u.configurations import CONFIGURATIONS
from penstock.pipeline import Compilation, Point, compile_request
from penstock.simulators.graph import run_graph

OTHERS = 3
HEADER = ("network", "accelerator", "SRAM", "calls", "cascades", "fetched", "estimated", "streams",
          "elements", "differ")  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Prints a table, a line each point; 1 where anything differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ethos_u_points",
                                     description=__doc__)  # fmt: skip
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="folder of models")
    parser.add_argument("--network", action="append", metavar="NAME", help="this one only")
    parser.add_argument("--accelerator", action="append", choices=ACCELERATORS, metavar="NAME")
    parser.add_argument("--target", default="cortex-m55", help="the processor beside the NPU")
    parser.add_argument("--timed", action="store_true", help="time streams only, run none")
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
            done, chip = compile_request(request), CONFIGURATIONS[ACCELERATORS[accelerator]]
            ran = {} if wanted.timed else dict(checked(done))
            wrong += not wanted.timed and not ran
            for number, point in enumerate(done.points):
                estimated = point.schedule.cost.cycles - processor_cycles(point)
                streams = point_cycles(point, request.accelerators, chip)
                elements, mismatches = ran.get(number, (None, None))
                wrong += (estimated != streams) + (mismatches or 0) + (elements == 0)
                figures = (*cells_of(point), estimated, streams, elements, mismatches)
                table.add_row(model.stem, ACCELERATORS[accelerator], *map(shown, figures))
    console().print(table)
    return 1 if wrong else 0


def checked(done: Compilation) -> Iterator[tuple[int, tuple[int, int]]]:
    """The chosen point and others by number, and of each how many elements were compared, and
    differ."""
    inputs = api.drawn_sets(done, 1)[0]
    reference = run_graph(done.model, inputs)
    for number in sorted({*spread(len(done.points) - 1, OTHERS), done.points.index(done.point)}):
        found = ladder.run_point(done, inputs, reference, done.points[number])
        yield number, (found.elements, found.mismatches)


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
