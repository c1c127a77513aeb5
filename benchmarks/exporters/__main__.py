"""Makes networks with today's exporters, and judges what becomes of them.

    python -m benchmarks.exporters make FOLDER              all, in the extra `exporters`
    python -m benchmarks.exporters make FOLDER 'torch.lstm.*'
    python -m benchmarks.exporters judge FOLDER             prints a line for each file
    python -m benchmarks.exporters judge FOLDER -o docs/exporters.md

Files and verdicts that are there are kept.  tf_keras and Keras 3 exclude each other in a process,
so each framework makes its files in its own.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.entry import entry
from benchmarks.exporters.judging import RUNGS, judged, keep, kept
from benchmarks.exporters.making import FileName, Making
from benchmarks.exporters.page import page
from benchmarks.torture.case import Verdict
from benchmarks.torture.exporting import quiet

SOURCES = {
    "keras": "benchmarks.exporters.tflite_forms:keras_files",
    "tf_keras": "benchmarks.exporters.tflite_forms:tf_keras_files",
    "torch": "benchmarks.exporters.onnx_forms:torch_files",
}
TARGETS = ("cortex-m4", "cortex-m55")
REFUSED = ".refused"
"""What the name of a note ends in: why an exporter made no file."""
CRASH = "the exporter ends the process"


def main(arguments: Sequence[str]) -> int:
    """Makes or judges; returns 1 if a result is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exporters", description=__doc__)
    parser.add_argument("what", choices=("make", "judge"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("patterns", nargs="*", help="names of files, with wildcards")
    parser.add_argument("--source", choices=SOURCES, help="make the files of one framework")
    parser.add_argument("--target", action="append", help="judge for this target; repeatable")
    parser.add_argument("--again", action="store_true", help="judge files that are judged")
    parser.add_argument("--until", choices=RUNGS, default="host", help="the last rung to climb")
    parser.add_argument("-o", "--output", type=Path, help="write the page of verdicts")
    given = parser.parse_args(arguments)
    given.folder.mkdir(parents=True, exist_ok=True)
    patterns = given.patterns or ["*"]
    if given.what == "judge":
        given.target = given.target or TARGETS
        return judge(given, patterns)
    if given.source:
        make(given.source, given.folder, patterns)
        return 0
    for source in SOURCES:
        command = [sys.executable, "-m", "benchmarks.exporters", *arguments, "--source", source]
        while (status := subprocess.run(command, check=False).returncode) < 0:
            print(f"{source}: {CRASH}; again, without that file", flush=True)
        if status:
            return status
    return 0


def make(source: str, folder: Path, patterns: Sequence[str]) -> None:
    """Makes the files of a framework that are neither there nor refused by the exporter."""
    module, function = SOURCES[source].split(":")
    every: Sequence[Making] = tuple(getattr(importlib.import_module(module), function)())
    for one in every:
        path = folder / str(one.name)
        note = path.with_name(path.name + REFUSED)
        if not matches(path, patterns) or path.exists() or note.exists():
            continue
        note.write_text(CRASH + "\n", "utf-8")
        try:
            with quiet():
                raw = one.make()
        except (Exception, SystemExit) as error:  # whatever the exporters raise
            lines = str(error).strip().splitlines() or [""]
            note.write_text(f"{type(error).__name__}: {lines[0]}"[:200] + "\n", "utf-8")
            print(f"{one.name}: {note.read_text('utf-8').strip()}", flush=True)
            continue
        path.write_bytes(raw)
        note.unlink()
        print(f"{one.name}: {len(raw):,} bytes", flush=True)


def judge(given: argparse.Namespace, patterns: Sequence[str]) -> int:
    """Judges files for targets, and prints each verdict; returns 1 if one is wrong."""
    worst: dict[FileName, Verdict] = {}
    for path in files(given.folder, patterns):
        for target in given.target:
            verdict = None if given.again else kept(path, target)
            if verdict is None:
                verdict = judged(path, target, given.until)
                keep(path, target, verdict)
            words = " ".join((verdict.code, verdict.cause, verdict.note)).split()
            print(f"{path.name}, {target}: {verdict.outcome.value}", *words, flush=True)
            name = FileName.of(path.name)
            if name not in worst or not verdict.outcome.right:
                worst[name] = verdict
    if given.output:
        given.output.write_text(page(worst), "utf-8")
    return int(not all(verdict.outcome.right for verdict in worst.values()))


def files(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """The models of a folder whose names match a pattern."""
    every = (path for path in folder.iterdir() if path.suffix in (".tflite", ".onnx"))
    return sorted(path for path in every if matches(path, patterns))


def matches(path: Path, patterns: Sequence[str]) -> bool:
    """Whether the name of a file matches a pattern."""
    return any(fnmatch.fnmatch(path.name, each) for each in patterns)


if __name__ == "__main__":
    entry(main)
