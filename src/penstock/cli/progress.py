"""A progress bar on stderr, shown only on a terminal and only after a second."""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.exploration import OnProgress

PATIENCE_SECONDS = 1.0


@contextmanager
def progress(stages: int) -> Generator[OnProgress]:
    """A callback that receives the name of each stage as it begins, and how many of its items are
    done.  `stages` is the expected number of stages."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield _ignore
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task("", total=stages)
    timer = threading.Timer(PATIENCE_SECONDS, bar.start)
    timer.start()
    begun: list[str] = []

    def on_stage(name: str, done: int = 0, of: int = 1, /) -> None:
        if begun[-1:] != [name]:
            begun.append(name)
        words = f"{name}: {done + 1} of {of}" if of > 1 else name
        completed = len(begun) - 1 + done / of
        bar.update(task, description=words, completed=completed, total=max(stages, len(begun)))

    try:
        yield on_stage
    finally:
        timer.cancel()
        bar.stop()


def _ignore(stage: str, done: int = 0, of: int = 1, /) -> None:
    """Ignores progress."""
