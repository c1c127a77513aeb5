"""Execution of independent tasks, in this process or in parallel on an executor.

An executor is any `concurrent.futures.Executor`. Only its `submit` is called, so process pools,
thread pools, Dask's `ClientExecutor` and mpi4py's `MPIPoolExecutor` are all supported. Tasks and
results are serialised with `cloudpickle`, because accelerators are described with closures, which
`pickle` rejects, and so that threads share no objects.

For a number of workers above one, that many processes are started with `spawn`. A script that does
so must be guarded by `if __name__ == "__main__"`.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Thread, main_thread
from time import sleep
from types import FrameType
from typing import Any, TypeVar
from weakref import WeakSet

import cloudpickle

from penstock.errors import PenstockError, ToolError, UsageError, internal_error

# The number of processes (1: only this one), or an executor, which is not closed.
Workers = int | Executor

# Number of tasks submitted before the first result is read. It suffices for all cores of a large
# machine, and bounds the memory of serialised tasks.
LOOKAHEAD = 32

# Maximum number of local processes; at most LOOKAHEAD tasks are pending anyway.
MOST_WORKERS = 1024

# Time for a worker to remove the temporary files of its task, in which compiled code may delay a
# signal.
GRACE_SECONDS = 10

_END_SIGNALS = (signal.SIGINT, signal.SIGTERM)

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@contextmanager
def executor_of(workers: Workers) -> Generator[Executor | None]:
    """Return the executor for tasks, or None if this process executes them itself.

    On exit, tasks that have not started are cancelled. Raises UsageError if `workers` is neither a
    positive number nor an executor, ToolError if the executor fails.
    """
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
    function: Callable[[_Item], _Result],
    items: Iterable[_Item],
    executor: Executor | None,
    at_interruption: Callable[[_Result], None] | None = None,
) -> Iterator[_Result]:
    """Yield the function's result for each item, in order.

    An executor of `executor_of` starts immediately and keeps up to LOOKAHEAD tasks pending. Without
    an executor, each call is made when its result is requested. If an interruption ends the wait
    for a result, `at_interruption` receives the later results that exist already.
    """
    if executor is None:
        return map(function, items)
    submitted = (_submitted(executor, _packed(function, item)) for item in items)
    return _in_order(deque(islice(submitted, LOOKAHEAD)), submitted, at_interruption)


def _in_order(
    pending: deque[Future[bytes]],
    submitted: Iterator[Future[bytes]],
    at_interruption: Callable[[_Result], None] | None,
) -> Generator[_Result]:
    while pending:
        try:
            outcome = _outcome(pending.popleft())
        except (KeyboardInterrupt, SystemExit):
            for future in pending:
                done = future.done() and not future.cancelled() and future.exception() is None
                if done and at_interruption is not None:
                    at_interruption(_outcome(future))
            raise
        pending.extend(islice(submitted, 1))
        yield outcome


class _Ended(SystemExit):
    """This worker is to end."""


class _ExecutorError(Exception):
    """The executor failed, not the task. The cause contains the reason."""


def _submitted(executor: Executor, task: bytes) -> Future[bytes]:
    try:
        return executor.submit(_run, _versions(), task)
    except Exception as error:
        raise _ExecutorError from error


def _outcome(future: Future[bytes]) -> Any:
    """The result of a task, or raise its exception."""
    from asyncio import CancelledError  # takes long to import

    try:
        reply = future.result()
    except (Exception, CancelledError) as error:
        raise _ExecutorError from error
    outcome = pickle.loads(reply)
    if isinstance(outcome, PenstockError):
        raise outcome
    return outcome


def _packed(function: Callable[[_Item], object], item: _Item) -> bytes:
    """Serialise a task. Raises ToolError if something in it cannot be pickled."""
    try:
        return cloudpickle.dumps((function, item))
    except Exception as error:
        raise _unpicklable("a task", error) from error


def _run(versions: tuple[str, str], task: bytes) -> bytes:
    outcome: object
    try:
        outcome = _attempt(versions, task)
    except PenstockError as error:
        outcome = error
    except Exception as error:
        outcome = internal_error(error)
    except _Ended:
        os._exit(1)
    try:
        return cloudpickle.dumps(outcome)
    except Exception as error:
        return cloudpickle.dumps(_unpicklable("a result", error))


def _attempt(versions: tuple[str, str], task: bytes) -> object:
    """Run a task. Raises ToolError if this worker cannot deserialise it."""
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
    """The versions of Python and penstock, which must match: pickled functions contain
    bytecode, and results must not differ."""
    return f"Python {sys.version_info.major}.{sys.version_info.minor}", (
        f"penstock {version('penstock')}"
    )


def _unpicklable(what: str, error: Exception) -> ToolError:
    return ToolError(
        "tool-027",
        f"{what} cannot be sent between processes: {type(error).__name__}: {error}",
        where="workers",
        why="the description of an accelerator contains something that cannot be serialised",
        help="remove open files, locks and generators from the description, or use one worker",
    )


@contextmanager
def _reporting(where: str) -> Generator[None]:
    try:
        yield
    except _ExecutorError as error:
        raise _failure(where, error.__cause__) from error.__cause__


def _failure(where: str, cause: BaseException | None) -> ToolError:
    if isinstance(cause, BrokenExecutor):
        return ToolError(
            "tool-022",
            "a worker terminated before its task was complete",
            where=where,
            why="it was terminated externally, perhaps because memory was exhausted",
            help='use fewer workers; a script needs `if __name__ == "__main__"`',
        )
    return ToolError(
        "tool-028",
        "the executor did not return a result",
        where=where,
        why=f"{type(cause).__name__}: {cause}".removesuffix(": "),
        help="check that the executor is open, and that its workers run and can import penstock",
    )


class _Tracking(Executor):
    """Wraps the caller's executor and records the submitted tasks, so they can be cancelled."""

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
    """Raise UsageError if `workers` is not a valid number of processes."""
    if not isinstance(workers, int):
        raise UsageError(
            "usage-018",
            f"workers is a {type(workers).__name__}, must be a number or an executor",
            where="workers",
            help="pass a concurrent.futures.Executor; for a Dask client, client.get_executor()",
        )
    if not 1 <= workers <= MOST_WORKERS:
        raise UsageError(
            "usage-018",
            f"the number of workers is {workers}, must be from 1 to {MOST_WORKERS}",
            where="--workers",
            help="1 runs everything in this process; more workers than cores do not help",
        )


@contextmanager
def _own_processes(count: int) -> Generator[Executor]:
    context = get_context("spawn")
    told, tell = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(count, context, _listen, (told,))
    try:
        yield pool
    except _ExecutorError:
        raise
    except BaseException:
        tell.close()  # closing the pipe ends the workers
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        tell.close()
        told.close()


def _listen(told: Connection) -> None:
    """Initialise a worker: it exits silently on interruption, which a terminal sends to all
    processes, on termination, which a pool sends to its other workers once one has exited, and
    when the other end of the pipe is closed."""
    for number in _END_SIGNALS:
        signal.signal(number, _end)
    Thread(target=_end_with, args=(told,), daemon=True).start()


def _end(number: int, frame: FrameType | None) -> None:
    """End a worker.  A task is unwound first, which removes its temporary files; further signals
    do not disturb it."""
    for each in _END_SIGNALS:
        signal.signal(each, _ignore)
    while frame is not None:
        if frame.f_code is _run.__code__:
            raise _Ended(128 + number)
        frame = frame.f_back
    os._exit(1)


def _ignore(number: int, frame: FrameType | None) -> None:
    """Do nothing.  SIG_IGN would let Python report a signal that has arrived but is not handled."""


def _end_with(told: Connection) -> None:
    """Interrupt the main thread once the pipe is closed; exit in any case soon after."""
    told.poll(None)
    if sys.platform != "win32":
        signal.pthread_kill(main_thread().ident or 0, signal.SIGINT)
        sleep(GRACE_SECONDS)
    os._exit(1)
