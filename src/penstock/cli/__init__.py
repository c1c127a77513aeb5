"""The command line: parses options, calls `penstock.api`, prints results."""

from __future__ import annotations

import atexit
import gc
import signal
import sys
from contextlib import suppress
from threading import Event, Timer
from types import FrameType

# Threshold of the cyclic garbage collector. Modules and stage results live until the process ends,
# so searching them for garbage at Python's default threshold costs a tenth of the run time.
OBJECTS_BEFORE_COLLECTION = 1_000_000

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SECONDS_UNTIL_REPEATED = 0.01
_accepts_signals = Event()


def main() -> None:
    """The entry point: run the command, then let nothing interrupt the end of the process.

    Only this function prints what penstock logs."""
    try:
        _run(show_log=True)
    finally:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)


def run() -> None:
    """Run the command that `sys.argv` states, see `app.main`, and restore the handlers of
    signals."""
    before = [signal.getsignal(number) for number in _SIGNALS]
    hook = sys.unraisablehook
    try:
        _run()
    finally:
        sys.unraisablehook = hook
        for number, handler in zip(_SIGNALS, before, strict=True):
            signal.signal(number, handler)


def _run(*, show_log: bool = False) -> None:
    # SIGINT and SIGTERM end it with one line and remove temporary files and child processes.
    # Imports take long enough to be interrupted, hence the local import.
    gc.set_threshold(OBJECTS_BEFORE_COLLECTION)
    atexit.register(gc.freeze)  # skip the collection at exit, too
    try:
        sys.unraisablehook = _ignore_interruption
        _handle_signals()
        from penstock.cli import app, terminal

        if show_log:
            terminal.show_log()
        app.main()
    except Interruption as error:
        error.is_delivered = True
        _say_interrupted()
        raise
    except KeyboardInterrupt:  # of another handler, such as that of a library
        _say_interrupted()
        sys.exit(128 + signal.SIGINT)


def _say_interrupted() -> None:
    with suppress(OSError, AttributeError):  # standard error is closed
        print("interrupted", file=sys.stderr, flush=True)


class Interruption(SystemExit):
    """A signal ends the process.

    Finalisers, compiled code and handlers of exceptions may drop it.  It is destroyed then, and
    repeats the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.is_delivered = False
        self._number = number

    def __del__(self) -> None:
        if not self.is_delivered and not sys.is_finalizing():
            timer = Timer(_SECONDS_UNTIL_REPEATED, _repeat, (self._number,))
            timer.daemon = True
            timer.start()


def _repeat(number: int) -> None:
    _accepts_signals.set()
    signal.raise_signal(number)


def _handle_signals() -> None:
    _accepts_signals.set()
    for number in _SIGNALS:
        signal.signal(number, _stop)


def _stop(number: int, frame: FrameType | None) -> None:
    """Unwind the stack; the default action of SIGTERM would not.  Further signals do not disturb
    this.  SIG_IGN would let child processes ignore the signal, too."""
    if _accepts_signals.is_set():
        _accepts_signals.clear()
        raise Interruption(number)


def _ignore_interruption(unraisable: sys.UnraisableHookArgs) -> None:
    if not isinstance(unraisable.exc_value, Interruption):
        sys.__unraisablehook__(unraisable)


__all__ = ["main", "run"]
