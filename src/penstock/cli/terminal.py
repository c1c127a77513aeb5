"""Output of commands: a console on stdout, JSON, and on stderr errors and what penstock logs."""

from __future__ import annotations

import json
import logging
import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

from penstock.errors import escaped_lines

if TYPE_CHECKING:
    from rich.console import Console

    from penstock.errors import PenstockError


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
