"""A limit on the memory of a task, which raises a MemoryError."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager

from penstock.errors import UsageError


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
