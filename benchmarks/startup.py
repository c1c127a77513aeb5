"""Start-up: seconds of whole commands that a user waits for, beside those of `import numpy`.

    python -m benchmarks.startup [FOLDER] [--runs N]

A separate process runs each command N times.  The table has the median of wall-clock seconds, that
of processor seconds, and the ratio of the latter to `python -c "import numpy"`, which depends less
on the machine.  With FOLDER, a folder of models, it also compiles two of them for cortex-m4.  The
first run after an installation compiles the searches to machine code and is not counted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from rich.table import Table

from benchmarks.compile_time import compile_bytecode, timed
from benchmarks.entry import console, entry
from benchmarks.shared import find_shared

NETWORKS = ("kws_ref_model", "vww_96_int8")
PENSTOCK = (sys.executable, "-m", "penstock")


def main(arguments: Sequence[str]) -> int:
    """Prints a table with a row for each command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.startup", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="folder of models")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="of each command")
    wanted = parser.parse_args(arguments)
    commands: dict[str, Sequence[str]] = {
        "python -c 'import numpy'": (sys.executable, "-c", "import numpy"),
        "python -c 'import penstock'": (sys.executable, "-c", "import penstock"),
        "penstock --help": (*PENSTOCK, "--help"),
        "penstock compile --help": (*PENSTOCK, "compile", "--help"),
    }
    if wanted.folder:
        for model in find_shared(wanted.folder).named(list(NETWORKS)):
            words = ("compile", str(model), "--target", "cortex-m4", "-o", "out")
            commands[f"penstock compile {Path(model).name}"] = (*PENSTOCK, *words)
    table = Table(title=f"median of {wanted.runs} runs")
    table.add_column("command", no_wrap=True)
    for heading in ("seconds", "processor seconds", "ratio to numpy"):
        table.add_column(heading, justify="right")
    compile_bytecode(sys.executable)
    unit: float | None = None
    for label, command in commands.items():
        _, *every = (timed(command) for _ in range(wanted.runs + 1))
        wall, processor = (median(seconds) for seconds in zip(*every, strict=True))
        unit = processor if unit is None else unit
        table.add_row(label, f"{wall:.2f}", f"{processor:.2f}", f"{processor / unit:.1f}")
    console().print(table)
    return 0


if __name__ == "__main__":
    entry(main)
