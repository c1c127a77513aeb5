"""Output of commands: a console on stdout, and JSON."""

from __future__ import annotations

import json
import sys

from rich.console import Console

WIDTH = 120
_TERMINAL = sys.stdout is not None and sys.stdout.isatty()
# Names of files and tensors may look like markup or emoji codes.
out = Console(width=None if _TERMINAL else WIDTH, markup=False, emoji=False)


def print_json(value: object) -> None:
    """Print the JSON value of a command."""
    print(json.dumps(value, indent=2))
