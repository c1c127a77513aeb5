"""Sweep: the compiler's answers to budgets from the least RAM to the most.

    python -m benchmarks.sweep [FOLDER] [--network NAME] [--stream-input]

For each network, 50 budgets are evenly spaced from the least RAM of its frontier to the most. The
compiler's choice must fit each budget and must not be slower than the choice for a smaller one. The
smallest budget that the error suggests must succeed, and one byte less must fail. Whole `penstock
compile` processes also get the decisive budgets: the least, one byte less, and the most. Exits with
1 if any of this does not hold.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from rich.table import Table

from benchmarks.entry import console, entry, first_line, shown
from benchmarks.figures import TARGET, ZOO
from benchmarks.planned import Planned, plan
from benchmarks.shared import find_shared
from penstock.errors import CapacityError, PenstockError
from penstock.pipeline.capacity import choose
from penstock.pipeline.placed_point import PlacedPoint

BUDGETS = 50


@dataclass(frozen=True, slots=True)
class Sweep:
    """The answers to the budgets of a network; `faults`: violations as text."""

    model: str
    planned: Planned
    budgets: tuple[int, ...]
    answers: tuple[PlacedPoint, ...]
    faults: tuple[str, ...]


def main(arguments: Sequence[str]) -> int:
    """Prints a row for each network; returns 1 if there is a violation."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweep", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="folder of models")
    parser.add_argument("--network", action="append", metavar="NAME", help="this one only")
    parser.add_argument("--stream-input", action="store_true", help="with the input streamed")
    wanted = parser.parse_args(arguments)
    models = ZOO if wanted.folder is None else map(str, find_shared(wanted.folder).networks())
    sweeps: list[Sweep] = []
    for model in models:
        if wanted.network and Path(model).stem not in wanted.network:
            continue
        print(f"sweeping {model}", file=sys.stderr)
        try:
            planned = plan(model, stream_input=wanted.stream_input)
        except PenstockError as error:
            print(f"not taken: {model}: {first_line(error)}", file=sys.stderr)
            continue
        swept = sweep(model, planned)
        faults = (*swept.faults, *compile_faults(swept))
        sweeps.append(replace(swept, faults=faults))
    console().print(_table(sweeps))
    for found in sweeps:
        for fault in found.faults:
            print(f"{found.model}: {fault}")
    return 0 if sweeps and not any(found.faults for found in sweeps) else 1


def sweep(model: str, planned: Planned) -> Sweep:
    """The compiler's choices for 50 budgets, and their violations."""
    request = planned.request
    least, most = (planned.points[k].ram_bytes(request) for k in (0, -1))
    budgets = tuple(np.linspace(least, most, BUDGETS).astype(int).tolist())
    answers = tuple(_answer(planned, budget) for budget in budgets)
    return Sweep(model, planned, budgets, answers, tuple(_faults(planned, budgets, answers)))


def named_figure(error: CapacityError) -> int | None:
    """The smallest --sram that an error asks for.

    >>> named_figure(CapacityError("capacity-001", "no", where="net", help="give --sram 3044; .."))
    3044
    """
    found = re.search(r"--sram (\d+)", error.help)
    return int(found[1]) if found else None


def _answer(planned: Planned, budget: int) -> PlacedPoint:
    """The compiler's choice.  Raises CapacityError if nothing fits."""
    return choose(planned.points, replace(planned.request, sram_bytes=budget))


def _faults(
    planned: Planned, budgets: Sequence[int], answers: Sequence[PlacedPoint]
) -> Iterator[str]:
    for budget, point in zip(budgets, answers, strict=True):
        if point.ram_bytes(planned.request) > budget:
            yield f"the answer to {budget} bytes needs {point.ram_bytes(planned.request)}"
    cycles = [point.schedule.cost.cycles for point in answers]
    for budget, (less, more) in zip(budgets[1:], pairwise(cycles), strict=True):
        if more > less:
            yield f"the answer to {budget} bytes takes {more} cycles, to a smaller budget {less}"
    yield from _faults_at_the_least(planned, budgets[0])


def _faults_at_the_least(planned: Planned, least: int) -> Iterator[str]:
    """Violations at the error's suggested budget and at one byte less."""
    for budget in (least - 1, 0):
        try:
            _answer(planned, budget)
        except CapacityError as error:
            if named_figure(error) != least:
                yield f"the error names {named_figure(error)} bytes, {least} are enough"
            if error.code != "capacity-001":
                yield f"the error is {error.code}"
        else:
            yield f"{budget} bytes are enough, {least} are named"


def compile_faults(swept: Sweep) -> Iterator[str]:
    """Violations of whole processes at the least budget, one byte less, and the most."""
    least, most = swept.budgets[0], swept.budgets[-1]
    for budget, point in ((least, swept.answers[0]), (most, swept.answers[-1])):
        done = _compile(swept, budget)
        if done.returncode != 0:
            yield f"penstock compile --sram {budget} failed: {done.stderr.decode()}"
            continue
        report = json.loads(done.stdout)
        found = report["ram_bytes"]["total"], report["cycles"]["estimated"]
        wanted = point.ram_bytes(swept.planned.request), point.schedule.cost.cycles
        if found != wanted:
            yield f"penstock compile --sram {budget} reports {found}, must be {wanted}"
    refused = _compile(swept, least - 1)
    words = refused.stderr.decode()
    if refused.returncode != 1 or "capacity-001" not in words or f"--sram {least}" not in words:
        yield f"penstock compile --sram {least - 1} exits with {refused.returncode}: {words}"


def _compile(swept: Sweep, budget: int) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "penstock", "compile", swept.model, "--target", TARGET]
    stream = ["--stream-input"] * swept.planned.request.stream_input
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        ends = ["--sram", str(budget), "--json", "-o", f"{folder}/out", *stream]
        return subprocess.run([*command, *ends], capture_output=True, check=False)


def _table(sweeps: Sequence[Sweep]) -> Table:
    table = Table(
        title=f"{BUDGETS} budgets for each network, bytes of RAM with the stack's reserve"
    )
    table.add_column("model", no_wrap=True)
    for heading in ("points", "least", "most", "answers", "cycles at least", "at most", "faults"):
        table.add_column(heading, justify="right")
    for found in sweeps:
        first, last = found.answers[0], found.answers[-1]
        table.add_row(
            Path(found.model).name,
            *map(shown, (len(found.planned.points), found.budgets[0], found.budgets[-1])),
            shown(len({point.height_bytes for point in found.answers})),
            *map(shown, (first.schedule.cost.cycles, last.schedule.cost.cycles)),
            shown(len(found.faults)),
        )
    return table


if __name__ == "__main__":
    entry(main)
