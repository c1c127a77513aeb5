"""Limits on the memory and the time that a task may take.

A file of a few bytes can ask for any amount of memory: by compression, by constants that are
computed, or by referring to the same bytes many times.  Readers take from an allowance before they
allocate, so that such a file is refused instead of exhausting the machine.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import current_thread, main_thread
from types import FrameType

from penstock.errors import ModelError, UsageError

# 512 MiB: more than eight times as much as the constants of any target.
DEFAULT_SIZE_LIMIT_BYTES = 2**29
SIZE_LIMIT_OPTION = "--size-limit"
ENTRY_BYTES = 64  # Memory that an entry of a list takes as a Python object, at least.
# Memory that the compiler takes for a node, at least; measured on large networks: 1 MiB.
NODE_BYTES = 2**13


class SizeLimitError(ModelError):
    """Reading a file takes more memory than the limit."""


def exhausted() -> SizeLimitError:
    """The error for a MemoryError, which the operating system or a limit of it causes."""
    return SizeLimitError(
        "limit-003",
        "the memory of this process is exhausted",
        where="this machine",
        why="the model needs more than there is, or than a limit of the process allows",
        help="raise the limit, or use a machine with more memory",
        cause="memory",
    )


class Allowance:
    """Counts the bytes that are taken, up to a limit."""

    def __init__(self, limit_bytes: int = DEFAULT_SIZE_LIMIT_BYTES) -> None:
        self._limit_bytes, self._taken_bytes = limit_bytes, 0

    def take(self, size_bytes: int, what: str, where: str = "") -> None:
        """Take some bytes; `what` and `where` name their purpose for the error.

        Raises SizeLimitError if the sum exceeds the limit."""
        self._taken_bytes += size_bytes
        if self._taken_bytes > self._limit_bytes:
            raise SizeLimitError(
                "limit-002",
                f"reading takes more than {_written(self._limit_bytes)} of memory",
                where=where,
                why=f"at {what}, the sum is {_written(self._taken_bytes)}",
                help="the limit protects from files that ask for more memory than there is; for a "
                f"file that you trust, raise it with {SIZE_LIMIT_OPTION} SIZE",
                cause="the size limit",
            )


_current: ContextVar[Allowance | None] = ContextVar("allowance", default=None)


@contextmanager
def allowed(limit_bytes: int) -> Generator[None]:
    """Let the readers that run in the context take this many bytes, in total."""
    token = _current.set(Allowance(limit_bytes))
    try:
        yield
    finally:
        _current.reset(token)


def take(size_bytes: int, what: str, where: str = "") -> None:
    """Take some bytes from the allowance of the context, see `Allowance.take`.  Outside of every
    context, only a single amount that exceeds the default limit is an error."""
    (_current.get() or Allowance()).take(size_bytes, what, where)


def _written(size_bytes: int) -> str:
    """A size in the largest unit of which it is a multiple.

    >>> _written(2**29), _written(3 * 2**29), _written(1000)
    ('512 MiB', '1536 MiB', '1000 bytes')
    """
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size_bytes >= size and size_bytes % size == 0:
            return f"{size_bytes // size} {unit}"
    return f"{size_bytes} bytes"


# A limit on the memory of a task, which raises a MemoryError.


def check_memory_limit(limit_bytes: int | None) -> None:
    """Raise UsageError if a memory limit cannot be observed."""
    if limit_bytes is not None and not sys.platform.startswith("linux"):
        raise UsageError(
            "usage-165",
            "the memory per model cannot be limited here",
            where="--memory-limit",
            why="only Linux limits all memory that a process allocates",
            help="omit it, or scan in a container with a memory limit",
        )


@contextmanager
def memory_limit(limit_bytes: int | None) -> Generator[None]:
    """Limit the memory that this process and those that it starts may allocate in the context,
    including what they have before; None: no limit beyond that of the operating system."""
    if limit_bytes is None or sys.platform == "win32":
        yield
        return
    import resource

    before, most = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [limit for limit in (limit_bytes, before) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, most))


# A limit on the time of a task, which interrupts it.


MOST_SECONDS = 86_400  # Maximum limit: a day.

# Finalisers and compiled code may drop an interruption, which is therefore repeated. Until then, a
# task can remove its temporary files.
SECONDS_UNTIL_REPEATED = 10.0


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
