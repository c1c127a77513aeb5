"""Parallel execution of independent tasks, in this process or on an executor; same results.

An executor is any `concurrent.futures.Executor`; only its `submit` is called, so process pools,
thread pools, Dask's `ClientExecutor` and mpi4py's `MPIPoolExecutor` serve alike.  A task and its
outcome travel as bytes that `cloudpickle` makes: accelerators are described with closures, which
`pickle` refuses, and threads that work on copies share no objects.

A number of workers above one starts that many processes (`spawn`): a script that asks for them
keeps its own work under `if __name__ == "__main__"`.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from asyncio import CancelledError
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any, TypeVar
from weakref import WeakSet

import cloudpickle

from penstock.errors import PenstockError, ToolError, UsageError, internal_error

Workers = int | Executor
"""The number of processes that work, 1: this one alone; or an executor, which stays open."""

LOOKAHEAD = 32
"""Tasks submitted before the first result is read: enough for every core of a large machine, and a
bound on the memory that pickled tasks take."""

MOST_WORKERS = 1024
"""Processes of one machine; no more tasks than LOOKAHEAD are pending anyway."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@contextmanager
def executor_of(workers: Workers) -> Generator[Executor | None]:
    """The executor that tasks are submitted to; None where this process does all work.

    On exit, tasks that have not started are cancelled.  Raises UsageError where `workers` is
    neither a positive number nor an executor, ToolError where the executor fails."""
    if isinstance(workers, Executor):
        with _reporting(f"workers={type(workers).__name__}"), _cancelling(workers) as executor:
            yield executor
        return
    _check_count(workers)
    if workers == 1:
        yield None
        return
    with _reporting(f"--workers {workers}"), _own_processes(workers) as executor:
        yield executor


def mapped(
    function: Callable[[_Item], _Result], items: Iterable[_Item], executor: Executor | None
) -> Iterator[_Result]:
    """The function of each item, in the items' order.

    An executor of `executor_of` starts at once and runs up to LOOKAHEAD tasks ahead of the result
    that is read; without one, each call is made when its result is asked for."""
    if executor is None:
        return map(function, items)
    submitted = (_submitted(executor, _packed(function, item)) for item in items)
    return _in_order(deque(islice(submitted, LOOKAHEAD)), submitted)


def _in_order(pending: deque[Future[bytes]], submitted: Iterator[Future[bytes]]) -> Generator[Any]:
    while pending:
        outcome = _outcome(pending.popleft())
        pending.extend(islice(submitted, 1))
        yield outcome


class _ExecutorError(Exception):
    """The executor failed, not the task; its cause says how."""


def _submitted(executor: Executor, task: bytes) -> Future[bytes]:
    try:
        return executor.submit(_run, _versions(), task)
    except Exception as error:
        raise _ExecutorError from error


def _outcome(future: Future[bytes]) -> Any:
    """What a task returned; raises what it raised."""
    try:
        reply = future.result()
    except (Exception, CancelledError) as error:
        raise _ExecutorError from error
    outcome = pickle.loads(reply)
    if isinstance(outcome, PenstockError):
        raise outcome
    return outcome


def _packed(function: Callable[[_Item], object], item: _Item) -> bytes:
    """A task as bytes.  Raises ToolError where something in it cannot be pickled."""
    try:
        return cloudpickle.dumps((function, item))
    except Exception as error:
        raise _unpicklable("a task", error) from error


def _run(versions: tuple[str, str], task: bytes) -> bytes:
    """Runs a task in a worker.  Errors are returned, so that no executor can alter them."""
    outcome: object
    try:
        outcome = _attempt(versions, task)
    except PenstockError as error:
        outcome = error
    except Exception as error:
        outcome = internal_error(error)
    try:
        return cloudpickle.dumps(outcome)
    except Exception as error:
        return cloudpickle.dumps(_unpicklable("a result", error))


def _attempt(versions: tuple[str, str], task: bytes) -> object:
    """Runs a task.  Raises ToolError where this worker cannot read it."""
    if versions != _versions():
        raise ToolError(
            "tool-026",
            "a worker runs {} and {}, this process {} and {}".format(*_versions(), *versions),
            where="the workers' environment",
            help="install the same versions of Python and penstock for all workers",
        )
    try:
        function, item = pickle.loads(task)
    except Exception as error:
        raise ToolError(
            "tool-026",
            f"a worker cannot read a task: {type(error).__name__}: {error}",
            where="the workers' environment",
            help="make the modules that this process imports importable for all workers",
        ) from error
    return function(item)


@cache
def _versions() -> tuple[str, str]:
    """Of Python and of penstock: pickled functions are bytecode, and results must be the same."""
    return f"Python {sys.version_info.major}.{sys.version_info.minor}", (
        f"penstock {version('penstock')}"
    )


def _unpicklable(what: str, error: Exception) -> ToolError:
    return ToolError(
        "tool-027",
        f"{what} cannot be sent between processes: {type(error).__name__}: {error}",
        where="workers",
        why="it is pickled, and an accelerator's description holds something that cannot be",
        help="remove open files, locks and generators from the description, or use one worker",
    )


@contextmanager
def _reporting(where: str) -> Generator[None]:
    """Turns failures of an executor into ToolErrors."""
    try:
        yield
    except _ExecutorError as error:
        raise _failure(where, error.__cause__) from error.__cause__


def _failure(where: str, cause: BaseException | None) -> ToolError:
    if isinstance(cause, BrokenExecutor):
        return ToolError(
            "tool-022",
            "a worker ended before its work was done",
            where=where,
            why="something else ended it, perhaps for want of memory",
            help='give fewer workers; a script needs `if __name__ == "__main__"`',
        )
    return ToolError(
        "tool-028",
        "the executor did not return a result",
        where=where,
        why=f"{type(cause).__name__}: {cause}".removesuffix(": "),
        help="check that the executor is open, and that its workers run and can import penstock",
    )


class _Tracking(Executor):
    """The caller's executor; remembers what was submitted, so that it can be cancelled."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._futures: WeakSet[Future[Any]] = WeakSet()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = self._executor.submit(fn, *args, **kwargs)
        self._futures.add(future)
        return future

    def cancel(self) -> None:
        for future in list(self._futures):
            future.cancel()


@contextmanager
def _cancelling(executor: Executor) -> Generator[Executor]:
    tracking = _Tracking(executor)
    try:
        yield tracking
    finally:
        tracking.cancel()


def _check_count(workers: object) -> None:
    """Raises UsageError where it is no number of processes."""
    if not isinstance(workers, int):
        raise UsageError(
            "usage-018",
            f"workers is a {type(workers).__name__}, must be a number or an executor",
            where="workers",
            help="give a concurrent.futures.Executor; of a Dask client, client.get_executor()",
        )
    if not 1 <= workers <= MOST_WORKERS:
        raise UsageError(
            "usage-018",
            f"the number of workers is {workers}, must be at least 1 and at most {MOST_WORKERS}",
            where="--workers",
            help="1 is this process alone; more than there are cores gain nothing",
        )


@contextmanager
def _own_processes(count: int) -> Generator[Executor]:
    """A pool of processes that ends with this one, or with the `with` block."""
    context = get_context("spawn")
    told, tell = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(count, context, _listen, (told,))
    try:
        yield pool
    except _ExecutorError:
        raise
    except BaseException:
        tell.close()  # nobody will ask for what the workers are at
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        tell.close()
        told.close()


def _listen(told: Connection) -> None:
    """What a worker begins with: it ends without a word when it is interrupted, as a terminal does
    to all processes at one time, and when the other end of a pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    Thread(target=_end_with, args=(told,), daemon=True).start()


def _end_with(told: Connection) -> None:
    told.poll(None)
    os._exit(1)
