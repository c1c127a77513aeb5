"""The command line: words on a terminal; no decisions."""

from __future__ import annotations

import atexit
import gc

OBJECTS_BETWEEN_SEARCHES = 1_000_000
"""So many more objects are there before those in cycles are looked for: the modules and the nouns
live to the end, and a tenth of the time went into looking through them."""


def main() -> None:
    """The entry point, see `app.main`."""
    gc.set_threshold(OBJECTS_BETWEEN_SEARCHES)
    atexit.register(gc.freeze)  # nor at the end, when it all goes
    from penstock.cli import app

    app.main()


__all__ = ["main"]
