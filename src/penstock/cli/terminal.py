"""Output of commands: a console on stdout, JSON, and on stderr errors and what penstock logs."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cache
from time import monotonic
from typing import TYPE_CHECKING, Any

from penstock.errors import escaped_lines

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress, TaskID

    from penstock.errors import PenstockError
    from penstock.reports.report import Report

WIDTH = 120


@cache
def out() -> Console:
    """The console on stdout, as wide as the terminal or the variable COLUMNS.  Names of files and
    tensors may look like markup or emoji codes."""
    from rich.console import Console

    class OpenConsole(Console):
        """Reports a reader that ends first as any other write does; rich would exit with 1."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

        def print(self, *objects: Any, **settings: Any) -> None:
            """Escapes control characters of texts, which may contain names of files."""
            shown = (escaped_lines(one) if isinstance(one, str) else one for one in objects)
            super().print(*shown, **settings)

    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    width = None if is_terminal or "COLUMNS" in os.environ else WIDTH
    return OpenConsole(width=width, markup=False, emoji=False)


def print_error(error: PenstockError) -> None:
    """Print an error on stderr; in colours, if that is a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        print(error, file=sys.stderr)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, markup=False, emoji=False, highlight=False, soft_wrap=True)
    styles = {"  --> ": "bold blue", "  help: ": "bold green", "  why: ": "bold"}
    for label, text in error.lines():
        title = label not in styles
        words = Text(text, "bold" if title else "")
        console.print(Text.assemble((label, styles.get(label, "bold red")), words))


def print_json(value: object) -> None:
    """Print the JSON value of a command."""
    print(json.dumps(value, indent=2))


class _StandardError(logging.Handler):
    """Prints on `sys.stderr`, which a progress bar replaces while it is shown."""

    def emit(self, record: logging.LogRecord) -> None:
        if sys.stderr is not None:
            print(record.getMessage(), file=sys.stderr, flush=True)


def show_details(wanted: bool) -> bool:
    """Also print what penstock logs for those who look for defects; returns the argument."""
    if wanted:
        logging.getLogger("penstock").setLevel(logging.DEBUG)
    return wanted


def show_log() -> None:
    """Print what penstock logs until the process ends."""
    logger = logging.getLogger("penstock")
    logger.addHandler(_StandardError())
    logger.setLevel(logging.INFO)


# Progress on stderr: a bar on a terminal, shown only after a second; otherwise lines that name the
# stage, only after ten.


PATIENCE_SECONDS = 1.0
PATIENCE_WITHOUT_TERMINAL_SECONDS = 10.0


class Reporter:
    """Receives the name of each stage as it begins, and how many of its items are done."""

    def __init__(self) -> None:
        self._created = monotonic()
        self._begun: list[tuple[str, float]] = []
        self._ended: float | None = None

    def __call__(self, stage: str, done: int = 0, of: int = 1, /) -> None:
        is_new = not self._begun or self._begun[-1][0] != stage
        if is_new:
            self._begun.append((stage, monotonic()))
        self.update(stage, done, of, is_new=is_new)

    def seconds(self) -> tuple[tuple[str, float], ...]:
        """Each stage and its duration; that of the last one until the context ended, or now."""
        last = monotonic() if self._ended is None else self._ended
        ends = [*(begun for _, begun in self._begun[1:]), last]
        pairs = zip(self._begun, ends, strict=True) if self._begun else ()
        return tuple((name, end - begun) for (name, begun), end in pairs)

    def print(self, renderable: RenderableType) -> None:
        """Print on stdout; the display of the progress does not disturb it."""
        out().print(renderable)

    def update(self, stage: str, done: int, of: int, *, is_new: bool) -> None:
        """Display the progress, if it is shown."""

    def show(self) -> None:
        """Begin to display the progress."""

    def end(self) -> None:
        """Remove the display, and stop the clock."""
        self._ended = monotonic()


@contextmanager
def progress(stages: int) -> Generator[Reporter]:
    """A reporter, which ends with the context.  `stages` is the expected number of stages."""
    if sys.stderr is None:
        yield Reporter()
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


class _Lines(Reporter):
    """Prints the name of the current stage once shown, and of each stage that begins later."""

    def __init__(self) -> None:
        super().__init__()
        self._is_shown = False

    def update(self, stage: str, done: int, of: int, *, is_new: bool) -> None:
        if is_new and self._is_shown:
            self._say()

    def show(self) -> None:
        self._is_shown = True
        self._say()

    def end(self) -> None:
        super().end()
        self._is_shown = False

    def _say(self) -> None:
        if not self._begun:
            return
        with suppress(OSError, ValueError):  # standard error is closed
            seconds = monotonic() - self._created
            print(f"after {seconds:.0f} s: {self._begun[-1][0]}", file=sys.stderr, flush=True)


class _Bar(Reporter):
    """Draws a bar of the stages once shown."""

    def __init__(self, stages: int) -> None:
        super().__init__()
        self._stages = stages
        self._bar, self._task = _bar(stages)

    def update(self, stage: str, done: int, of: int, *, is_new: bool) -> None:
        words = f"{stage}: {done + 1} of {of}" if of > 1 else stage
        completed = len(self._begun) - 1 + done / of
        total = max(self._stages, len(self._begun))
        self._bar.update(self._task, description=words, completed=completed, total=total)

    def print(self, renderable: RenderableType) -> None:
        is_drawn = self._bar.live.is_started
        if is_drawn:
            self._bar.stop()
        super().print(renderable)
        if is_drawn:
            self._bar.start()

    def show(self) -> None:
        self._bar.start()

    def end(self) -> None:
        super().end()
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


def print_durations(reporter: Reporter) -> None:
    """Print how long each stage took."""
    from rich.table import Column, Table

    table = Table.grid(Column(), Column(justify="right"), padding=(0, 2, 0, 0))
    stages = reporter.seconds()
    for name, seconds in (*stages, ("total", sum(seconds for _, seconds in stages))):
        table.add_row(name, f"{seconds:.2f} s")
    out().print("\nduration of the stages:")
    out().print(table)


def print_kernels(report: Report) -> None:
    """Print which kernels competed for the layers of the processor, and by how much they lost."""
    from penstock.reports.phrases import kernel_words

    for line in kernel_words(report):
        out().print(line, highlight=False)
