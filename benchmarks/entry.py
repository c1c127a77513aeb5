"""entry: runs a benchmark's main; errors become four-part messages and exit codes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from rich.console import Console

from penstock.errors import PenstockError

WIDTH_COLUMNS = 200
"""Columns of tables where the output is no terminal."""


def entry(main: Callable[[Sequence[str]], int]) -> None:
    """Exits with what `main` returns for the command line's arguments."""
    try:
        sys.exit(main(sys.argv[1:]))
    except PenstockError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


def console() -> Console:
    """Where tables go; wide where nobody's window limits it."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=WIDTH_COLUMNS)


def shown(number: int | None) -> str:
    """A number for a table's cell; a dash where there is none.

    >>> shown(55296), shown(None)
    ('55,296', '-')
    """
    return "-" if number is None else f"{number:,}"


def first_line(error: PenstockError) -> str:
    """The line that says what went wrong."""
    return str(error).splitlines()[0]
