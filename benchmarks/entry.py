"""Runs a benchmark's `main`; errors become four-part messages and exit codes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from rich.console import Console

from penstock.errors import PenstockError

WIDTH_COLUMNS = 200
"""Width of tables if the output is not a terminal."""


def entry(main: Callable[[Sequence[str]], int]) -> None:
    """Exits with the result of `main` for the command-line arguments."""
    try:
        sys.exit(main(sys.argv[1:]))
    except PenstockError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


def console() -> Console:
    """The console for tables; wide if the output is not a terminal."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=WIDTH_COLUMNS)


def shown(number: int | None) -> str:
    """A number for a table's cell; a dash where there is none.

    >>> shown(55296), shown(None)
    ('55,296', '-')
    """
    return "-" if number is None else f"{number:,}"


def first_line(error: PenstockError) -> str:
    """The first line of an error message."""
    return str(error).splitlines()[0]
