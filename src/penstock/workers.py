"""workers: independent work, done in this process or on an executor; the results are the same.

An executor is any of `concurrent.futures`, so that Dask or MPI can take over.  A number of workers
above one means so many processes, begun anew (`spawn`): a script that asks for them keeps its own
work under `if __name__ == "__main__"`.  What they are given, and what they give back, is pickled.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Thread
from typing import TypeVar

from penstock.errors import PenstockError, ToolError, UsageError, internal_error

Workers = int | Executor
"""How many processes work beside this one, 1: none does; or an executor, which stays open."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@contextmanager
def executor_of(workers: Workers) -> Generator[Executor | None]:
    """What work is given to; None where this process does it all.

    Raises UsageError for a number below one, ToolError where a worker is lost."""
    if isinstance(workers, Executor):
        yield workers
        return
    if workers < 1:
        raise UsageError(
            "usage-018",
            f"the number of workers is {workers}, must be at least 1",
            where="--workers",
            help="1 is this process alone; more than there are cores gain nothing",
        )
    if workers == 1:
        yield None
        return
    context = get_context("spawn")
    told, tell = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(workers, context, _listen, (told,))
    try:
        yield pool
    except BrokenExecutor as error:
        raise ToolError(
            "tool-022",
            "a worker ended before its work was done",
            where=f"--workers {workers}",
            why="something else ended it, perhaps for want of memory",
            help='give fewer workers; a script needs `if __name__ == "__main__"`',
        ) from error
    except BaseException:
        tell.close()  # nobody will ask for what the workers are at
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        tell.close()
        told.close()


def mapped(
    function: Callable[[_Item], _Result], items: Iterable[_Item], executor: Executor | None
) -> Iterator[_Result]:
    """The function of each item, in the items' order.  An executor begins them all at once, else
    each is begun when it is asked for."""
    if executor is None:
        return map(function, items)
    return executor.map(partial(_told, function), items)


def _told(function: Callable[[_Item], _Result], item: _Item) -> _Result:
    """The function of an item; what is raised says where, for no traceback leaves a process."""
    try:
        return function(item)
    except PenstockError:
        raise
    except Exception as error:
        raise internal_error(error) from error


def _listen(told: Connection) -> None:
    """What a worker begins with: it ends without a word when it is interrupted, as a terminal does
    to all processes at one time, and when the other end of a pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    Thread(target=_end_with, args=(told,), daemon=True).start()


def _end_with(told: Connection) -> None:
    told.poll(None)
    os._exit(1)
