"""Progress: a bar on stderr when something takes longer than a second, and only on a terminal."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from penstock.api import OnStage

PATIENCE_SECONDS = 1.0


@contextmanager
def progress(stages: int) -> Generator[OnStage]:
    """A function to be told the name of each stage as it begins; about `stages` are expected."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _ignore
        return
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    task = bar.add_task("", total=stages)
    timer = threading.Timer(PATIENCE_SECONDS, bar.start)
    timer.start()
    begun = 0

    def on_stage(name: str) -> None:
        nonlocal begun
        bar.update(task, description=name, completed=begun, total=max(stages, begun + 1))
        begun += 1

    try:
        yield on_stage
    finally:
        timer.cancel()
        bar.stop()


def _ignore(stage: str) -> None:
    """Nobody watches."""
