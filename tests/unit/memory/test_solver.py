"""The constraint solver, which runs in a library, obeys signals as Python code does."""

from __future__ import annotations

from signal import SIGINT, pthread_kill
from threading import Timer, main_thread

import numpy as np
import pytest

from penstock.memory.place import solve
from penstock.memory.stacking import Boxes

COUNT = 400


def hard() -> Boxes:
    """Many overlapping boxes, whose optimum the solver does not prove in minutes."""
    rng = np.random.default_rng(1)
    first = rng.integers(0, 300, COUNT)
    size = rng.integers(1, 10_000, COUNT)
    last = first + rng.integers(1, 40, COUNT)
    ones = np.ones(COUNT, np.int64)
    sections = np.arange(last.max())[:, None]
    live = (first <= sections) & (sections < last)
    meeting = (first[:, None] < last) & (first < last[:, None])
    return Boxes(first, last, size, ones, live, meeting)


def test_an_interrupt_stops_the_solver() -> None:
    reason = "the extra 'optimal' is not installed"
    pytest.importorskip("ortools.sat.python.cp_model", reason=reason)  # an import swallows signals
    boxes = hard()
    ceiling = int(boxes.size.sum())
    Timer(0.5, pthread_kill, (main_thread().ident, SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        solve(boxes, 1, ceiling, np.zeros(COUNT, np.int64), work=1e6)
