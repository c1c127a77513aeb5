"""A limit on the time of a task, which interrupts it."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType

from penstock.errors import UsageError

MOST_SECONDS = 86_400
"""Maximum limit: a day."""

SECONDS_UNTIL_REPEATED = 10.0
"""Finalisers and compiled code may drop an interruption, which is therefore repeated.  Until then,
a task can remove its temporary files."""


class TimeLimitReached(KeyboardInterrupt):
    """The time of a task is over.  It is handled like an interruption by the user."""


def check_time_limit(seconds: float | None, *, here: bool) -> None:
    """Raise UsageError if a time limit is out of range or cannot be observed.

    here: the task runs in this thread, instead of in the main thread of another process."""
    if seconds is None:
        return
    if not 0 < seconds <= MOST_SECONDS:
        raise UsageError(
            "usage-148",
            f"the time limit is {seconds:g} s, must be above 0 and at most {MOST_SECONDS:,} s",
            where="--time-limit",
            help="omit it to let every model run to its end",
        )
    if not hasattr(signal, "setitimer") or (here and current_thread() is not main_thread()):
        raise UsageError(
            "usage-149",
            "the time per model cannot be limited here",
            where="time limit",
            why="only the main thread of a process on Linux, macOS or another Unix is interrupted",
            help="omit the time limit, or set workers to 2 if this is another thread",
        )


@contextmanager
def time_limit(seconds: float | None) -> Generator[None]:
    """Raise TimeLimitReached in the context once it has run for a number of seconds; None: never.

    Compiled code delays this until it returns."""
    if seconds is None:
        yield
        return
    before = signal.signal(signal.SIGALRM, _stop)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds, SECONDS_UNTIL_REPEATED)
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:  # the signal may have arrived before the timer was stopped
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _stop(number: int, frame: FrameType | None) -> None:
    raise TimeLimitReached
