"""The memory that files of a user may take while they are read.

A file of a few bytes can ask for any amount of memory: by compression, by constants that are
computed, or by referring to the same bytes many times.  Readers take from an allowance before they
allocate, so that such a file is refused instead of exhausting the machine.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from penstock.errors import ModelError

DEFAULT_SIZE_LIMIT_BYTES = 2**29
"""512 MiB: more than eight times as much as the constants of any target."""
SIZE_LIMIT_OPTION = "--size-limit"
ENTRY_BYTES = 64
"""Memory that an entry of a list takes as a Python object, at least."""
NODE_BYTES = 2**13
"""Memory that the compiler takes for a node, at least; measured on large networks: 1 MiB."""


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
