"""Progress on stderr: a bar on a terminal, shown only after a second; otherwise lines that name the
stage, only after ten."""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from penstock.cli.terminal import out

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress, TaskID

PATIENCE_SECONDS = 1.0
PATIENCE_WITHOUT_TERMINAL_SECONDS = 10.0


class Reporter(Protocol):
    """Receives the name of each stage as it begins, and how many of its items are done."""

    def __call__(self, stage: str, done: int = 0, of: int = 1, /) -> None: ...

    def print(self, renderable: RenderableType) -> None:
        """Print on stdout; the display of the progress does not disturb it."""


@contextmanager
def progress(stages: int) -> Generator[Reporter]:
    """A reporter, which ends with the context.  `stages` is the expected number of stages."""
    if sys.stderr is None:
        yield _Nowhere()
        return
    reporter, patience = (
        (_Bar(stages), PATIENCE_SECONDS)
        if sys.stderr.isatty()
        else (_Lines(), PATIENCE_WITHOUT_TERMINAL_SECONDS)
    )
    timer = threading.Timer(patience, reporter.show)
    timer.daemon = True
    timer.start()
    try:
        yield reporter
    finally:
        timer.cancel()
        reporter.end()


class _Nowhere:
    """Ignores progress."""

    def __call__(self, stage: str, done: int = 0, of: int = 1, /) -> None:
        del stage, done, of

    def print(self, renderable: RenderableType) -> None:
        out().print(renderable)


class _Lines:
    """Prints the name of the current stage once shown, and of each stage that begins later."""

    def __init__(self) -> None:
        self._begun = monotonic()
        self._stage = ""
        self._is_shown = False

    def __call__(self, stage: str, done: int = 0, of: int = 1, /) -> None:
        del done, of
        if stage != self._stage:
            self._stage = stage
            if self._is_shown:
                self._say()

    def print(self, renderable: RenderableType) -> None:
        out().print(renderable)

    def show(self) -> None:
        self._is_shown = True
        if self._stage:
            self._say()

    def end(self) -> None:
        self._is_shown = False

    def _say(self) -> None:
        with suppress(OSError, ValueError):  # standard error is closed
            seconds = monotonic() - self._begun
            print(f"after {seconds:.0f} s: {self._stage}", file=sys.stderr, flush=True)


class _Bar:
    """Draws a bar of the stages once shown."""

    def __init__(self, stages: int) -> None:
        self._stages = stages
        self._begun: list[str] = []
        self._bar, self._task = _bar(stages)

    def __call__(self, stage: str, done: int = 0, of: int = 1, /) -> None:
        begun = self._begun
        if begun[-1:] != [stage]:
            begun.append(stage)
        words = f"{stage}: {done + 1} of {of}" if of > 1 else stage
        completed = len(begun) - 1 + done / of
        total = max(self._stages, len(begun))
        self._bar.update(self._task, description=words, completed=completed, total=total)

    def print(self, renderable: RenderableType) -> None:
        is_drawn = self._bar.live.is_started
        if is_drawn:
            self._bar.stop()
        out().print(renderable)
        if is_drawn:
            self._bar.start()

    def show(self) -> None:
        self._bar.start()

    def end(self) -> None:
        self._bar.stop()


def _bar(stages: int) -> tuple[Progress, TaskID]:
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
    return bar, bar.add_task("", total=stages)
