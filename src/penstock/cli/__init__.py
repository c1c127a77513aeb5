"""The command line: parses options, calls `penstock.api`, prints results."""

from __future__ import annotations

import atexit
import gc
import signal
import sys
from threading import Timer
from types import FrameType

OBJECTS_BEFORE_COLLECTION = 1_000_000
"""Threshold of the cyclic garbage collector.  Modules and stage results live until the process
ends, so searching them for garbage at Python's default threshold costs a tenth of the run time."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SECONDS_UNTIL_REPEATED = 0.01


def main() -> None:
    """The entry point: run the command, then let nothing interrupt the end of the process."""
    try:
        run()
    finally:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)


def run() -> None:
    """Run the command that `sys.argv` states, see `app.main`.

    SIGINT and SIGTERM end it silently and remove temporary files and child processes.  Imports take
    long enough to be interrupted, hence the local import."""
    gc.set_threshold(OBJECTS_BEFORE_COLLECTION)
    atexit.register(gc.freeze)  # skip the collection at exit, too
    before = [signal.getsignal(number) for number in _SIGNALS]
    hook = sys.unraisablehook
    try:
        sys.unraisablehook = _repeat
        _handle_signals()
        from penstock.cli import app

        app.main()
    except KeyboardInterrupt:  # of another handler, such as that of a library
        sys.exit(128 + signal.SIGINT)
    finally:
        sys.unraisablehook = hook
        for number, handler in zip(_SIGNALS, before, strict=True):
            signal.signal(number, handler)


class Interruption(SystemExit):
    """A signal ends the process."""


def _handle_signals() -> None:
    for number in _SIGNALS:
        signal.signal(number, _stop)


def _stop(number: int, frame: FrameType | None) -> None:
    """Unwind the stack; the default action of SIGTERM would not.  Further signals do not disturb
    this."""
    for each in _SIGNALS:
        signal.signal(each, _ignore)
    raise Interruption(128 + number)


def _ignore(number: int, frame: FrameType | None) -> None:
    """Do nothing.  SIG_IGN would let child processes ignore the signal, too."""


def _repeat(unraisable: sys.UnraisableHookArgs) -> None:
    """Repeat a signal that arrived where Python drops exceptions, such as in a finalizer."""
    error = unraisable.exc_value
    if isinstance(error, Interruption) and isinstance(error.code, int):
        _handle_signals()
        Timer(_SECONDS_UNTIL_REPEATED, signal.raise_signal, (error.code - 128,)).start()
    else:
        sys.__unraisablehook__(unraisable)


__all__ = ["main", "run"]
