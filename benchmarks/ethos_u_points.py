"""Ethos-U points: command streams at points of the frontier, timed and run.

    python -m benchmarks.ethos_u_points FOLDER [--network NAME ...] [--accelerator NAME ...]

FOLDER holds models. The streams of every point of each network on each accelerator are decoded and
timed (`ethos_u_time.py`), independently of the schedule and of the emitter. The chosen point and
three more, evenly spaced from the least memory on, also run in the machine, which checks every
access and wait (not with --timed). Prints for each point: SRAM, calls, cascades of several layers,
layers with prefetched constants, NPU cycles as estimated and of the streams, and elements that
differ from the reference. Exits with 1 if elements or cycles differ.
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
from penstock.pipeline.compilation import Compilation, compile_request
from penstock.pipeline.placing import PlacedPoint
from penstock.simulators.graph import run_graph
from penstock_ethos_u.configurations import CONFIGURATIONS

OTHERS = 3
HEADER = ("network", "accelerator", "SRAM", "calls", "cascades", "fetched", "estimated", "streams",
          "elements", "differ")  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Prints a table with a row for each point; returns 1 if anything differs."""
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
    """The chosen point and others by index, each with the numbers of compared and of differing
    elements."""
    inputs = api.drawn_sets(done, 1)[0]
    reference = run_graph(done.model, inputs)
    for number in sorted({*spread(len(done.points) - 1, OTHERS), done.points.index(done.point)}):
        found = ladder.run_point(done, inputs, reference, done.points[number])
        yield number, (found.elements, found.mismatches)


def cells_of(point: PlacedPoint) -> tuple[int, int, int, int]:
    """SRAM, calls, cascades of several parts, and parts with prefetched constants."""
    plans = point.schedule.plans
    return (
        point.height_bytes,
        point.schedule.cost.calls,
        sum(len(plan.parts) > 1 for plan in plans),
        sum(len(plan.prefetches) for plan in plans),
    )


if __name__ == "__main__":
    entry(main)
