"""Below rows: the least memory with recomputation, beside that of row-by-row execution.

    python -m benchmarks.below_rows [FOLDER] [--network NAME ...] [--limit F] [--run]
        [--target TARGET] [--accelerator ACCELERATOR]

For each of the fifteen networks, with the input in memory and streamed: the least arena of
row-by-row execution, and the least one within F (executed multiply-accumulates as a multiple of the
necessary ones), with its F, estimated cycles, and bands and chains. With another target or an
accelerator, no aims apply. With `--run`, each point also
runs as generated C on the simulated core: counted cycles, RAM of the linked objects, and elements
that differ. Exits with 1 if an aim is missed that is not listed as out of reach, an element
differs, or linked RAM differs from the report.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from rich.table import Table

from benchmarks.entry import console, entry
from benchmarks.estimate import FIFTEEN
from benchmarks.figures import TARGET
from benchmarks.shared import find_shared
from penstock import api
from penstock.execution import firmware
from penstock.ladder import Truth, climb
from penstock.pipeline.compilation import Compilation, compile_request, with_point
from penstock.pipeline.placing import PlacedPoint
from penstock.scheduling.options import Options

AIMS = {
    "vww_96_int8": 9_000,
    "person_detect": 8_800,
    "pretrainedResnet_quant": 8_500,
    "rand_mobilenet_v1_1.0_224_int8": 110_000,
    "rand_mobilenet_v2_0.35_144_int8": 20_000,
}
"""Largest arena in bytes with streamed input at F = 1.5."""
OUT_OF_REACH = ("pretrainedResnet_quant", "rand_mobilenet_v1_1.0_224_int8")


@dataclass(frozen=True, slots=True)
class Result:
    """The least point within F of a network."""

    done: Compilation
    rows: PlacedPoint
    least: PlacedPoint
    seconds: float

    @property
    def factor(self) -> float:
        """Executed multiply-accumulates as a multiple of those of the model."""
        macs = self.done.model.macs()
        return self.least.schedule.cost.nominal_macs / macs if macs else 1.0


def result(
    model: Path,
    limit: float,
    *,
    stream_input: bool,
    target: str = TARGET,
    accelerators: Sequence[str] = (),
) -> Result:
    """The least point of a model."""
    options = Options(max_recompute=limit)
    request = api.request(
        str(model), target, stream_input=stream_input, options=options, accelerators=accelerators
    )
    begun = perf_counter()
    done = compile_request(request)
    seconds = perf_counter() - begun
    rows = next(point for point in done.points if not point.schedule.bands)
    return Result(done, rows, done.points[0], seconds)


def measured(found: Result) -> tuple[int, bool, int]:
    """Counted cycles, whether the RAM of the linked objects is the arena, and the number of
    elements that differ, of the least point on the simulated core."""
    done = with_point(found.done, found.least)
    inputs = api.drawn_sets(done, 1)
    with firmware(done) as chip:
        ran, sections = chip.run(inputs[0]), chip.sections
    mismatches = sum(rung.compared.mismatches for rung in climb(done, Truth(), inputs))
    same = sections.data + sections.bss == found.least.height_bytes
    return ran.counts.cycles, same, mismatches


def main(arguments: Sequence[str]) -> int:
    """Prints the table; returns 1 if an aim is missed or a run differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.below_rows", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="folder of models")
    parser.add_argument("--network", action="append", help="only this network; repeatable")
    parser.add_argument("--limit", type=float, default=1.5, help="largest F")
    parser.add_argument("--target", default=TARGET)
    parser.add_argument("--accelerator", action="append", default=[], help="repeatable")
    parser.add_argument("--run", action="store_true", help="run the points on the simulated core")
    wanted = parser.parse_args(arguments)
    models = find_shared(wanted.folder).named(wanted.network or list(FIFTEEN))
    table = Table(title=f"least arena in bytes with F up to {wanted.limit}")
    headings = ("input", "rows", "recomputing", "ratio", "F", "estimated", "counted", "chains", "s")
    table.add_column("network")
    for heading in headings:
        table.add_column(heading, justify="right")
    wrong = False
    for model, streamed in ((model, streamed) for model in models for streamed in (False, True)):
        found = result(
            model,
            wanted.limit,
            stream_input=streamed,
            target=wanted.target,
            accelerators=wanted.accelerator,
        )
        cycles = ""
        if wanted.run:
            counted, same, mismatches = measured(found)
            wrong |= mismatches > 0 or not same
            cycles = f"{counted:,}" + ("" if same and not mismatches else " WRONG")
        least, rows = found.least.height_bytes, found.rows.height_bytes
        plain = wanted.target == TARGET and not wanted.accelerator
        aim = AIMS.get(model.stem) if streamed and plain else None
        wrong |= aim is not None and least > aim and model.stem not in OUT_OF_REACH
        table.add_row(
            model.stem,
            "streamed" if streamed else "in memory",
            f"{rows:,}",
            f"{least:,}",
            f"{least / rows:.3f}",
            f"{found.factor:.3f}",
            f"{found.least.schedule.cost.cycles:,}",
            cycles,
            str(len(found.least.schedule.bands)),
            f"{found.seconds:.1f}",
        )
    console().print(table)
    return int(wrong)


if __name__ == "__main__":
    entry(main)
