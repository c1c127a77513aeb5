"""Executed: how much of penstock a compilation runs.

    python -m benchmarks.executed MODEL [--way]

Prints the number of files in which a function is called, and of pairs of files of which one calls a
function of the other, directly or through code that is not penstock's.  Counted is a second
compilation in the same process, for cortex-m4 with 64 KiB of RAM, and of the packing of its files,
which is not done in the first: most imports and all translations of loops are no part of it.
`--way` lists the files in the order in which they are reached, each with the function that is
called first: the way from a model file to C.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

import penstock
from benchmarks.entry import entry

SOURCES = str(Path(penstock.__file__).parent)


def main(arguments: Sequence[str]) -> int:
    """Prints both numbers."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.executed", description=__doc__)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--way", action="store_true")
    wanted = parser.parse_args(arguments)

    def compiled() -> penstock.Compiled:
        return penstock.compile(wanted.model, target="cortex-m4", sram="64KiB")

    compiled()
    files, edges = executed(lambda: compiled().bundle())
    if wanted.way:
        for file, function in files.items():
            print(f"{Path(file).relative_to(SOURCES)}: {function}")
    print(len(files), len(edges))
    return 0


def executed(run: Callable[[], object]) -> tuple[dict[str, str], set[tuple[str, str]]]:
    """The files of penstock of which a function is called while something runs, each with the first
    one, in order, and the pairs of a calling file and another one that it calls."""
    files: dict[str, str] = {}
    edges: set[tuple[str, str]] = set()

    def called(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not _is_ours(frame):
            return
        callee = frame.f_code.co_filename
        files.setdefault(callee, frame.f_code.co_qualname)
        caller = frame.f_back
        while caller is not None and not _is_ours(caller):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != callee:
            edges.add((caller.f_code.co_filename, callee))

    sys.setprofile(called)
    try:
        run()
    finally:
        sys.setprofile(None)
    return files, edges


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(SOURCES)


if __name__ == "__main__":
    entry(main)
