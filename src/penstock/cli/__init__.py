"""The command line: words on a terminal; no decisions."""

from __future__ import annotations

import atexit
import gc
import signal
import sys
from types import FrameType

OBJECTS_BETWEEN_SEARCHES = 1_000_000
"""So many more objects are there before those in cycles are looked for: the modules and the nouns
live to the end, and a tenth of the time went into looking through them."""


def main() -> None:
    """The entry point, see `app.main`.  A request to stop (SIGINT, SIGTERM) ends it in silence, and
    temporary files and child processes with it; importing takes long enough to be interrupted."""
    gc.set_threshold(OBJECTS_BETWEEN_SEARCHES)
    atexit.register(gc.freeze)  # nor at the end, when it all goes
    before = signal.signal(signal.SIGTERM, _exit)
    try:
        from penstock.cli import app

        app.main()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    finally:
        signal.signal(signal.SIGTERM, before)


def _exit(number: int, frame: FrameType | None) -> None:
    """Unwinds the stack, as the signal's own action would not."""
    sys.exit(128 + number)


__all__ = ["main"]
