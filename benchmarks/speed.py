"""Speed: seconds of whole penstock processes with a warm cache, medians of five runs.

python -m benchmarks.speed [--models FOLDER]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from rich.table import Table

from benchmarks.entry import console, entry
from benchmarks.figures import TARGET
from benchmarks.shared import find_shared
from penstock.errors import ToolError

RUNS = 5
MOBILENET = "rand_mobilenet_v1_1.0_224_int8"
WAKE_WORDS = "vww_96_int8"


@dataclass(frozen=True, slots=True)
class Race:
    """Arguments of a penstock command, and its time limit in seconds."""

    name: str
    words: tuple[str, ...]
    limit_seconds: float


@dataclass(frozen=True, slots=True)
class Lap:
    """A run: wall-clock seconds, and processor seconds of its processes."""

    seconds: float
    busy_seconds: float


def main(arguments: Sequence[str]) -> int:
    """Prints medians beside their limits; returns 1 if one is exceeded."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.add_argument("--models", type=Path, help="folder of models and goldens")
    models = find_shared(parser.parse_args(arguments).models).models
    table = Table(title=f"seconds of a whole process, median of {RUNS} after one to warm up")
    for heading in ("command", "median", "least", "most", "limit", "processor"):
        table.add_column(heading, justify="left" if heading == "command" else "right")
    slow = 0
    for race in _races(models):
        laps = [_run(race) for _ in range(RUNS + 1)][1:]
        seconds = [lap.seconds for lap in laps]
        median = statistics.median(seconds)
        slow += median > race.limit_seconds
        busy = statistics.median(lap.busy_seconds for lap in laps)
        found = (median, min(seconds), max(seconds), race.limit_seconds, busy)
        table.add_row(race.name, *(f"{value:.2f}" for value in found))
    console().print(table)
    return 1 if slow else 0


def _races(models: Path) -> tuple[Race, ...]:
    small, large = models / f"{WAKE_WORDS}.tflite", models / f"{MOBILENET}.tflite"
    goldens = ("--goldens", str(models / "goldens" / f"{WAKE_WORDS}.npz"))
    return (
        Race("compile MobileNetV1 1.0 224", ("compile", str(large)), 5.0),
        Race("compile vww", ("compile", str(small)), 2.0),
        Race("verify vww, goldens, simulated core", ("verify", str(small), *goldens), 10.0),
    )


def _run(race: Race) -> Lap:
    command = [sys.executable, "-m", "penstock", *race.words, "--target", TARGET, "--json"]
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        if race.words[0] == "compile":
            command += ["-o", f"{folder}/out"]
        begun, before = perf_counter(), os.times()
        done = subprocess.run(command, capture_output=True, check=False)
        seconds, after = perf_counter() - begun, os.times()
    if done.returncode != 0:
        raise ToolError(
            "bench-003",
            f"penstock {race.words[0]} failed with exit code {done.returncode}",
            where=race.words[1],
            why=done.stderr.decode(errors="replace").strip(),
        )
    busy = after.children_user + after.children_system
    return Lap(seconds, busy - before.children_user - before.children_system)


if __name__ == "__main__":
    entry(main)
