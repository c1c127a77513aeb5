"""Interruption: delays SIGINT and SIGTERM while files are written, so that no half is left."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _Interrupted(BaseException):
    """A delayed signal has arrived, and the context can still be undone."""


@contextmanager
def delayed() -> Generator[Callable[[], None]]:
    """Delay SIGINT and SIGTERM until the context ends.

    The context calls its value where it can still be undone: this raises an exception if a signal
    has arrived.  Only the main thread receives signals; other threads are not delayed."""
    arrived: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        arrived.append(number)

    def check() -> None:
        if arrived:
            raise _Interrupted

    if current_thread() is not main_thread():
        yield check
        return
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    delaying = [n for n, handler in handlers.items() if handler not in (signal.SIG_IGN, None)]
    try:
        for number in delaying:
            signal.signal(number, note)
        yield check
    except _Interrupted:
        pass  # the signal is delivered below
    finally:
        for number in delaying:
            signal.signal(number, handlers[number])
        if arrived:
            signal.raise_signal(arrived[0])
