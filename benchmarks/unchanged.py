"""unchanged: compares the results of this compiler with recorded ones.

    python -m benchmarks.unchanged --save FILE [--only MODEL,..] [--python PYTHON]
    python -m benchmarks.unchanged --against FILE [--only MODEL,..] [--python PYTHON]
    python -m benchmarks.unchanged --timed PYTHON [--only MODEL,..] [--runs N] [--rows-only]

A refactoring must not change what the compiler produces.  The cases are twelve networks on three
Cortex-M cores, and three of them beside two accelerators.  Each case records RAM, flash, estimated
and counted cycles, counted instructions, and every point of the memory/cycles frontier, all taken
from `penstock profile --json`.

`--save` records the results in FILE; with `--only`, results of other networks stay.  `--against`
compares with FILE and exits with 1 if a figure grew or a recorded frontier point is no longer
reached; smaller figures pass.  Cycles may grow by less than a difference for which the frontier
would keep a point (`selection.NOTICED`), because moving a loop by four bytes changes the counted
cycles by up to 0.05 %.

`--python` measures the penstock of another interpreter.  `--timed` runs `penstock compile` with
this interpreter and with another one alternately, and exits with 1 if the ratio of the median
wall-clock times of a case exceeds LIMIT.  `--rows-only` leaves out what an older compiler did not
search: recomputation, and other graphs that compute the same.

`recorded_results.json` holds the results of commit b6aa36c, before the rebuild of scheduling,
backends and accelerators.  Those of networks on cortex-m55 are newer: its cycle estimates were
fitted again in 58ab5b9 and 6448a9d, and estimates of two fits cannot be compared.  With these two
commits reverted, all twelve were equal or better than at b6aa36c.  Those beside nvdla are
of NVDLA's own units (decision 41), not of the four that were assumed until then.  The flash beside
ethos_u55 is without code.  Counts on cortex-m55 need `qemu-system-arm`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import lt
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table

from benchmarks.compile_time import compile_bytecode, timed
from benchmarks.entry import console, entry, shown
from benchmarks.shared import Shared, find_shared
from penstock.errors import ModelError, ToolError, UsageError
from penstock.pareto import noticeably_faster

LIMIT = 1.05
"""Largest accepted ratio of median compile times."""
TWELVE = (
    "vww_96_int8",
    "kws_ref_model",
    "pretrainedResnet_quant",
    "ad01_int8",
    "person_detect",
    "micro_speech_quantized",
    "hello_world_int8",
    "mobilenetv2_160_035",
    "mbnet96_0.25_q",
    "ssd_slim_120x160x1",
    "rand_mobilenet_v1_0.25_128_int8",
    "rand_mobilenet_v2_0.35_144_int8",
)
"""The reference networks (README.md of the shared models)."""
CYCLES = ("estimated cycles", "counted cycles")
ROWS_ONLY = ("--max-recompute", "1", "--no-alternatives")
"""Options that restrict the search to cascades of whole rows."""
CORES = ("cortex-m4", "cortex-m0plus", "cortex-m55")
OFFLOADED = ("kws_ref_model", "vww_96_int8", "pretrainedResnet_quant")
ACCELERATORS = (("ethos_u55", "cortex-m55"), ("nvdla", "cortex-m7"))
"""Accelerators, and the processor beside each."""
_ERROR_CODE = re.compile(r"error\[([\w-]+)\]")


@dataclass(frozen=True, slots=True)
class Case:
    """A network compiled for a target, with at most one accelerator."""

    model: str
    target: str
    accelerator: str | None = None

    @property
    def key(self) -> str:
        """The case's name in the recorded file."""
        beside = f" + {self.accelerator}" if self.accelerator else ""
        return f"{self.model} on {self.target}{beside}"

    def arguments(self, verb: str, shared: Shared) -> tuple[str, ...]:
        """Arguments of `penstock VERB` for this case."""
        (path,) = shared.named([self.model])
        accelerator = ("--accelerator", self.accelerator) if self.accelerator else ()
        return (verb, str(path), "--target", self.target, *accelerator)


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of a case, recorded and now; None where a side has no such figure."""

    name: str
    recorded: int | None
    now: int | None

    @property
    def worse(self) -> bool:
        """Whether the figure grew, cycles noticeably, or a recorded figure is missing."""
        if self.recorded is None:
            return False
        if self.now is None:
            return True
        grew = noticeably_faster if self.name in CYCLES else lt
        return grew(self.recorded, self.now)


FrontierPoint = tuple[int, int, int]
"""RAM in bytes, estimated cycles, executed multiply-accumulates.  A point that recomputes executes
more of these; what they cost is in its cycles."""


@dataclass(frozen=True, slots=True)
class Result:
    """What the compiler produces for a case.  `error`: the code of its error, if it refuses."""

    figures: Mapping[str, int | None]
    frontier: tuple[FrontierPoint, ...]
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The recorded result of a case beside the present one."""

    case: Case
    recorded: Result
    now: Result

    @property
    def figures(self) -> tuple[Figure, ...]:
        names = {**self.recorded.figures, **self.now.figures}
        return tuple(
            Figure(name, self.recorded.figures.get(name), self.now.figures.get(name))
            for name in names
        )

    @property
    def lost(self) -> tuple[FrontierPoint, ...]:
        """Recorded points that no present point reaches."""
        return tuple(
            old
            for old in self.recorded.frontier
            if not any(_at_most(new, old) for new in self.now.frontier)
        )

    @property
    def worse(self) -> bool:
        """Whether a figure grew, a point was lost, or a new error appeared."""
        refused = self.now.error is not None and self.now.error != self.recorded.error
        return refused or bool(self.lost) or any(figure.worse for figure in self.figures)

    @property
    def verdict(self) -> str:
        """One of WORSE, equal and better."""
        if self.worse:
            return "WORSE"
        return "equal" if self.recorded == self.now else "better"


def _at_most(point: FrontierPoint, other: FrontierPoint) -> bool:
    """Whether a point needs no more RAM than another one and is not noticeably slower."""
    return point[0] <= other[0] and not noticeably_faster(other[1], point[1])


def main(arguments: Sequence[str]) -> int:
    """Records, compares or times; returns 1 if a limit is exceeded."""
    parser = comparing_parser("unchanged", __doc__ or "", timed=True)
    parser.add_argument("--python", default=sys.executable, help="the interpreter to measure")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="timed runs of each side")
    parser.add_argument("--rows-only", action="store_true", help="search the older plan space")
    wanted = parser.parse_args(arguments)
    shared = find_shared(wanted.models)
    chosen = selected(wanted.only)
    check_environment(wanted.timed or wanted.python)
    if wanted.timed:
        options = ROWS_ONLY if wanted.rows_only else ()
        return compare_times(chosen, shared, wanted.timed, wanted.runs, options)
    if wanted.save:
        save(wanted.save, {case.key: measure(case, shared, wanted.python) for case in chosen})
        return 0
    recorded = read_results(wanted.against)
    pairs: list[Comparison] = []
    for case in chosen:
        if case.key in recorded:
            pair = Comparison(case, recorded[case.key], measure(case, shared, wanted.python))
            print(f"  {pair.verdict}", file=sys.stderr)
            pairs.append(pair)
    return report(pairs)


def comparing_parser(name: str, text: str, *, timed: bool = False) -> argparse.ArgumentParser:
    """The parser of a command that records cases, compares them or, if `timed`, their times."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=text)
    todo = parser.add_mutually_exclusive_group(required=True)
    todo.add_argument("--save", type=Path, metavar="FILE", help="record what is found")
    todo.add_argument("--against", type=Path, metavar="FILE", help="compare with a record")
    if timed:
        todo.add_argument("--timed", metavar="PYTHON", help="compare compile times with this one's")
    parser.add_argument("--only", metavar="MODEL,..", help="these networks only")
    parser.add_argument("--models", type=Path, metavar="FOLDER", help="folder of models")
    return parser


def cases() -> tuple[Case, ...]:
    """Every case: each network on each core, then networks beside accelerators."""
    return (
        *(Case(model, core) for model in TWELVE for core in CORES),
        *(Case(model, core, name) for model in OFFLOADED for name, core in ACCELERATORS),
    )


def selected(only: str | None) -> tuple[Case, ...]:
    """The cases of some networks, given as "MODEL,..".  Raises UsageError for unknown ones."""
    names = only.split(",") if only else TWELVE
    unknown = [name for name in names if name not in TWELVE]
    if unknown:
        raise UsageError(
            "bench-040",
            f"no results are recorded for {unknown[0]!r}",
            where="--only",
            help=f"choose from {', '.join(TWELVE)}",
        )
    return tuple(case for case in cases() if case.model in names)


def check_environment(python: str) -> None:
    """Raises UsageError if PYTHONPATH would give another interpreter this penstock."""
    if python != sys.executable and os.environ.get("PYTHONPATH"):
        raise UsageError(
            "bench-042",
            "PYTHONPATH is set, so that both interpreters may import the same penstock",
            where=python,
            help="unset PYTHONPATH, and install each penstock into its own environment",
        )


def read_results(path: Path) -> Mapping[str, Result]:
    """The results of a recorded file by case.  Raises ModelError if there is no such file."""
    try:
        found: Any = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(
            "bench-041",
            "the recorded results cannot be read",
            where=str(path),
            why=str(error),
            help="record them with --save",
        ) from error
    return {
        key: Result(row["figures"], tuple(map(tuple, row["frontier"])), row["error"])
        for key, row in found.items()
    }


def save(path: Path, found: Mapping[str, Result]) -> None:
    """Writes results into a file, in the order of `cases`; results of other cases stay."""
    every = {**(read_results(path) if path.exists() else {}), **found}
    keys = [case.key for case in cases() if case.key in every]
    rows = (f" {json.dumps(key)}: {json.dumps(asdict(every[key]))}" for key in keys)
    path.write_text("{\n" + ",\n".join(rows) + "\n}\n", "utf-8")


def measure(case: Case, shared: Shared, python: str) -> Result:
    """Compiles and simulates a case with the penstock of an interpreter."""
    print(case.key, file=sys.stderr)
    command = [python, "-m", "penstock", *case.arguments("profile", shared), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        found = _ERROR_CODE.search(done.stderr)
        if found and found[1].startswith("tool-"):
            raise ToolError(
                "bench-043",
                f"{case.key}: no result, because a tool is missing or failed",
                where=" ".join(command),
                why=done.stderr.strip(),
                help="install what CONTRIBUTING.md names, and run the comparison again",
            )
        return Result({}, (), found[1] if found else f"exit code {done.returncode}")
    return result(json.loads(done.stdout))


def result(report: Mapping[str, Any]) -> Result:
    """The compared part of a report (`penstock profile --json`)."""
    figures = {
        "RAM": report["ram_bytes"]["total"],
        "other memories": sum(report["free_bytes"].values()),
        "flash": report["flash_bytes"]["weights"] + (report["flash_bytes"]["code"] or 0),
        "estimated cycles": report["cycles"]["estimated"],
        "counted cycles": report["cycles"]["simulated"],
        "instructions": report["instructions"]["simulated"],
    }
    frontier = (
        (point["ram_bytes"], point["cycles"], point["macs_executed"])
        for point in report["frontier"]
    )
    return Result(figures, tuple(frontier))


def report(pairs: Sequence[Comparison]) -> int:
    """Prints a line for each case, and details of those that differ; 1 if one is worse."""
    table = Table(title="results beside the recorded ones (recorded -> now where they differ)")
    table.add_column("case", no_wrap=True)
    headings = tuple(dict.fromkeys(f.name for pair in pairs for f in pair.figures))
    for heading in (*headings, "frontier", "verdict"):
        table.add_column(heading, justify="right")
    for pair in pairs:
        figures = {figure.name: _cell(figure) for figure in pair.figures}
        table.add_row(
            pair.case.key,
            *(figures.get(heading, "-") for heading in headings),
            _frontier_cell(pair),
            pair.verdict,
        )
    console().print(table)
    for pair in pairs:
        if pair.now.error:
            print(f"{pair.case.key}: refused with {pair.now.error}")
        for point in pair.lost:
            ram, cycles, macs = map(shown, point)
            print(f"{pair.case.key}: lost the point {ram} bytes, {cycles} cycles, {macs} MACs")
    worse = sum(pair.worse for pair in pairs)
    equal = sum(pair.verdict == "equal" for pair in pairs)
    print(f"{len(pairs)} cases: {equal} equal, {len(pairs) - equal - worse} better, {worse} worse")
    return int(worse > 0 or not pairs)


def _cell(figure: Figure) -> str:
    if figure.recorded == figure.now:
        return shown(figure.now)
    return f"{shown(figure.recorded)} -> {shown(figure.now)}"


def _frontier_cell(pair: Comparison) -> str:
    """Points of the frontier, and how many are lost."""
    count = str(len(pair.now.frontier))
    if pair.recorded.frontier == pair.now.frontier:
        return count
    return f"{len(pair.recorded.frontier)} -> {count}, {len(pair.lost)} lost"


def compare_times(
    chosen: Sequence[Case], shared: Shared, other: str, runs: int, options: Sequence[str] = ()
) -> int:
    """Prints compile times of two interpreters' penstock; 1 if this one's is above LIMIT.

    options: of this interpreter's command only.

    The two sides alternate, so that a change in the machine's load affects both.  The first pair
    of each case fills caches and is not counted."""
    table = Table(title=f"seconds of `penstock compile`, medians of {runs} alternating runs")
    table.add_column("case", no_wrap=True)
    for heading in ("other", "this", "ratio", "processor ratio", "verdict"):
        table.add_column(heading, justify="right")
    missed = False
    for python in (other, sys.executable):
        compile_bytecode(python)
    for case in chosen:
        print(case.key, file=sys.stderr)
        command = ("-m", "penstock", *case.arguments("compile", shared), "-o", "out")
        pairs = [
            (timed([other, *command]), timed([sys.executable, *command, *options]))
            for _ in range(runs + 1)
        ][1:]
        (before, after), (cpu_before, cpu_after) = (
            tuple(median(pair[side][clock] for pair in pairs) for side in range(2))
            for clock in range(2)
        )
        slower = after > LIMIT * before
        missed = missed or slower
        ratio = f"{after / before:.3f}"
        print(f"  {ratio}", file=sys.stderr)
        table.add_row(
            case.key,
            f"{before:.2f}",
            f"{after:.2f}",
            ratio,
            f"{cpu_after / cpu_before:.3f}",
            "SLOWER" if slower else "",
        )
    console().print(table)
    return int(missed)


if __name__ == "__main__":
    entry(main)
