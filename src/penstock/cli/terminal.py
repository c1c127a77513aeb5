"""Output of commands: a console on stdout, and JSON."""

from __future__ import annotations

import json
import sys
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 120


@cache
def out() -> Console:
    """The console on stdout.  Names of files and tensors may look like markup or emoji codes."""
    from rich.console import Console

    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return Console(width=None if is_terminal else WIDTH, markup=False, emoji=False)


def print_json(value: object) -> None:
    """Print the JSON value of a command."""
    print(json.dumps(value, indent=2))
