"""The first compilation to machine code of a process is logged once, if no cache has the code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys, numpy as np
from penstock.cli.terminal import show_log
from penstock.pareto import _efficient_of_sorted
show_log()
costs = np.array([[1, 2], [2, 1]])
_efficient_of_sorted(costs)
_efficient_of_sorted(costs.astype(np.int32))
"""
MESSAGE = (
    "compiling a part of the search to machine code: up to a minute; later commands reuse it\n"
)


def test_the_first_compilation_is_logged(tmp_path: Path) -> None:
    for expected in (MESSAGE, ""):
        done = subprocess.run(
            (sys.executable, "-c", PROGRAM), capture_output=True, text=True, timeout=100,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, expected)
