"""Where verbs print: a console on stdout, and JSON."""

from __future__ import annotations

import json
import sys

from rich.console import Console

WIDTH = 120
_TERMINAL = sys.stdout is not None and sys.stdout.isatty()
# Names of files and tensors are printed as they are: no markup, no emoji codes in them.
out = Console(width=None if _TERMINAL else WIDTH, markup=False, emoji=False)


def print_json(value: object) -> None:
    """The one JSON value of a verb."""
    print(json.dumps(value, indent=2))
