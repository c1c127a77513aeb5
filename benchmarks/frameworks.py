"""Frameworks: the guides' networks and others, from training to C, with their accuracy.

    python -m benchmarks.frameworks [--only TEXT] [-o FILE]

Trains each network, runs the guides' command on its file with and without --quantise, and prints a
table in Markdown: RAM, flash and estimated cycles on a Cortex-M4, top-1 beside that of the
framework, and the share of samples for which both name the same class.  Needs the extras keras and
torch; without one, its networks are left out.  Exits with 1 if a command fails, or if a figure of
float32 code differs from the framework's by more than 0.1 %.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.entry import console, entry
from benchmarks.trained_networks import programs

NEEDS = {"net.keras": "tensorflow", "net.pt2": "torch"}
HEADER = (
    "network", "elements", "RAM", "flash", "cycles", "top-1", "top-1 in the framework", "same class"
)  # fmt: skip
TYPES = (("float32", ()), ("int8", ("--quantise", "samples.npz")))
COMMAND = ("--evaluate", "labels.npz", "--target", "cortex-m4", "--json", "-o", "net", "--force")
NEAR = 0.001


def main(arguments: Sequence[str]) -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.frameworks", description=__doc__)
    parser.add_argument("--only", default="", help="networks whose name contains TEXT")
    parser.add_argument("-o", type=Path, help="file to write the table to")
    wanted = parser.parse_args(arguments)
    lines = [f"| {' | '.join(HEADER)} |", f"|{' --- |' * len(HEADER)}"]
    far = 0
    for name, (file, program) in programs().items():
        if wanted.only.lower() not in name.lower():
            continue
        if importlib.util.find_spec(NEEDS[file]) is None:
            console().print(f"{name}: {NEEDS[file]} is not installed", highlight=False)
            continue
        for elements, report in reports(file, program):
            lines.append(f"| {' | '.join(cells(name, elements, report))} |")
            one = report["evaluations"][0]
            far += elements == "float32" and abs(one["agreement"] - 1) > NEAR
    text = "\n".join(lines) + "\n"
    if wanted.o is not None:
        wanted.o.write_text(text, "utf-8")
    print(text, end="")
    return int(far > 0)


def reports(file: str, program: str) -> Iterator[tuple[str, Any]]:
    """The element type and the report of each command on the file that a program saves."""
    with tempfile.TemporaryDirectory(prefix="frameworks-") as folder:
        run(["-c", program], folder)
        for elements, options in TYPES:
            command = ["-m", "penstock", "compile", file, *options, *COMMAND]
            yield elements, json.loads(run(command, folder))


def run(arguments: Sequence[str], folder: str) -> bytes:
    """What Python prints for some arguments."""
    done = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True)
    if done.returncode:
        sys.stderr.write(done.stderr.decode(errors="replace"))
        raise SystemExit(f"{' '.join(arguments[:3])} ended with exit code {done.returncode}")
    return done.stdout


def cells(name: str, elements: str, report: Any) -> Iterator[str]:
    """A row of the table."""
    one = report["evaluations"][0]
    yield from (name, elements, f"{report['ram_bytes']['total']:,}")
    yield f"{report['flash_bytes']['total']:,}"
    yield f"{report['cycles']['estimated']:,}"
    shares = one["compiled"]["top_1"], one["real"]["top_1"], one["agreement"]
    yield from (f"{100 * share:.1f} %" for share in shares)


if __name__ == "__main__":
    entry(main)
