"""Deliberate faults: does torture find each of them within minutes?

    python -m benchmarks.torture.faults [--fault NAME ...] [--minutes 5] [--workers 1] [--list]

Each fault replaces one expression in a copy of the sources, on which the generators that draw such
models then run.  A finding counts if the same model is right without the fault.  Prints which
generator found each fault, and after how many seconds, and exits with 1 if one is not found.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.table import Table

from benchmarks.entry import console, entry
from benchmarks.torture.case import Case
from benchmarks.torture.judging import verdict_on
from benchmarks.torture.log import NAME
from benchmarks.torture.registry import every_generator

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = REPOSITORY / "src"
SEED = 1


@dataclass(frozen=True, slots=True)
class Fault:
    """An expression of a source file and what replaces it.

    generators: those that draw models in which it matters."""

    name: str
    file: str
    old: str
    new: str
    generators: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The file, below the folder of the sources."""
        return Path("penstock") / self.file

    def apply(self, sources: Path) -> None:
        """Changes a copy of the sources.  Raises ValueError unless the expression occurs once."""
        path = sources / self.path
        text = path.read_text()
        if text.count(self.old) != 1:
            raise ValueError(
                f"{self.name}: {self.file} has {text.count(self.old)} times {self.old!r}"
            )
        path.write_text(text.replace(self.old, self.new))


def faults() -> tuple[Fault, ...]:
    """Every fault of `faults.toml`."""
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
    return tuple(
        Fault(**{**each, "generators": tuple(each["generators"])}) for each in table["fault"]
    )


@dataclass(frozen=True, slots=True)
class Found:
    """Which generator found a fault after how many seconds; an empty name if none did."""

    generator: str
    seconds: float
    outcome: str = ""


def find(fault: Fault, minutes: float, workers: int) -> Found:
    """Runs torture on a copy of the sources with the fault until a finding is due to it."""
    with tempfile.TemporaryDirectory(prefix="penstock-fault-") as name:
        sources, output = Path(name) / "src", Path(name) / "found"
        shutil.copytree(SOURCES, sources)  # with the compiled code of the search
        fault.apply(sources)
        names = [word for each in fault.generators for word in ("--generator", each)]
        command = [
            *(sys.executable, "-m", "benchmarks.torture", *names, "--seed", str(SEED)),
            *(
                "--minutes",
                str(minutes),
                "--workers",
                str(workers),
                "--as-drawn",
                "-o",
                str(output),
            ),
        ]
        begin = time.monotonic()
        environment = {**os.environ, "PYTHONPATH": f"{sources}{os.pathsep}{REPOSITORY}"}
        silent = subprocess.DEVNULL
        with subprocess.Popen(
            command, cwd=REPOSITORY, env=environment, stdout=silent, stderr=silent
        ) as process:
            try:
                for record in _records(output / NAME, process):
                    if _is_right_without(record, output):
                        seconds = time.monotonic() - begin
                        return Found(record["generator"], seconds, record["outcome"])
            finally:
                process.terminate()
    return Found("", time.monotonic() - begin)


def _records(path: Path, process: subprocess.Popen[bytes]) -> Iterator[dict[str, str]]:
    """The findings of a run as it logs them."""
    seen = 0
    while True:
        ended = process.poll() is not None
        lines = path.read_text().splitlines() if path.is_file() else []
        for line in lines[seen:]:
            record = json.loads(line)
            if "outcome" in record:
                yield record
        seen = len(lines)
        if ended:
            return
        time.sleep(0.5)


def _is_right_without(record: dict[str, str], folder: Path) -> bool:
    """Whether the model of a finding is right on the sources as they are."""
    case = every_generator()[record["generator"]].draw(int(record["seed"]))
    if case is None:
        return False
    if record["file"]:
        case = replace(case, raw=(folder / record["file"]).read_bytes())
    return _is_right(case)


def _is_right(case: Case) -> bool:
    return verdict_on(case, deep=False).outcome.right


def main(arguments: Sequence[str]) -> int:
    """Returns 1 if a fault is not found."""
    every = {fault.name: fault for fault in faults()}
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.torture.faults", description=__doc__
    )
    parser.add_argument("--fault", action="append", choices=list(every), metavar="NAME")
    parser.add_argument("--minutes", type=float, default=5.0, help="limit of each fault")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--list", action="store_true", help="list the faults and end")
    chosen = parser.parse_args(arguments)
    if chosen.list:
        print("\n".join(every))
        return 0
    table = Table("fault", "generator", "seconds", "outcome", box=None)
    table.columns[2].justify = "right"
    missed = 0
    for name in chosen.fault or every:
        found = find(every[name], chosen.minutes, chosen.workers)
        missed += not found.generator
        table.add_row(name, found.generator or "not found", f"{found.seconds:.0f}", found.outcome)
        print(f"{name}: {found.generator or 'not found'}, {found.seconds:.0f} s", flush=True)
    console().print(table)
    print(f"{missed} faults not found")
    return int(missed > 0)


if __name__ == "__main__":
    entry(main)
