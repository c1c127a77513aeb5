"""The command line: parses options, calls `penstock.api`, prints results."""

from __future__ import annotations

import atexit
import gc
import signal
import sys
from types import FrameType

OBJECTS_BEFORE_COLLECTION = 1_000_000
"""Threshold of the cyclic garbage collector.  Modules and stage results live until the process
ends, so searching them for garbage at Python's default threshold costs a tenth of the run time."""


def main() -> None:
    """The entry point, see `app.main`.

    SIGINT and SIGTERM end the process silently and remove temporary files and child processes.
    Imports take long enough to be interrupted, hence the local import."""
    gc.set_threshold(OBJECTS_BEFORE_COLLECTION)
    atexit.register(gc.freeze)  # skip the collection at exit, too
    before = signal.signal(signal.SIGTERM, _exit)
    try:
        from penstock.cli import app

        app.main()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    finally:
        signal.signal(signal.SIGTERM, before)


def _exit(number: int, frame: FrameType | None) -> None:
    """Unwind the stack; the default action of the signal would not."""
    sys.exit(128 + number)


__all__ = ["main"]
