"""Work that is shared: the same results, errors in the same words, and no waiting for the lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

import penstock
from available import COMMITTED, path_of
from penstock import api
from penstock.errors import (
    InternalError,
    MismatchError,
    PenstockError,
    ToolError,
    UsageError,
)
from penstock.workers import executor_of, mapped

INTERRUPTED = """
from sys import stdout
from tempfile import TemporaryDirectory
from time import sleep
from penstock.workers import executor_of, mapped

def work(seconds):
    with TemporaryDirectory():
        stdout.write("at work\\n")  # in one piece, as both workers write
        stdout.flush()
        sleep(seconds)

if __name__ == "__main__":
    with executor_of(2) as executor:
        list(mapped(work, (600, 600), executor))
"""


class Counting(ThreadPoolExecutor):
    """Somebody else's executor, which counts what it is given."""

    count = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.count += 1
        return super().submit(fn, *args, **kwargs)


def nothing_found(number: int) -> int:
    raise LookupError(f"nothing at {number}")


def too_few(number: int) -> int:
    raise MismatchError("verify-001", f"{number} is too few", where="here", why="so", help="more")


def half_refused(number: int) -> int:
    return too_few(number) if number % 2 else number


@pytest.mark.parametrize("workers", [1, 2])
def test_results_are_in_the_order_of_the_items(workers: int) -> None:
    with executor_of(workers) as executor:
        assert list(mapped(abs, range(-20, 0), executor)) == list(range(20, 0, -1))


def test_an_executor_of_ones_own_is_used_and_stays_open() -> None:
    model = path_of(COMMITTED[0])
    alone = api.compile(model, "cortex-m4")
    with Counting(2) as mine:
        shared = api.compile(model, "cortex-m4", workers=mine)
        placed = len(alone.compilation.frontier.schedules)
        kept = len(alone.compilation.points)  # are placed again, with the whole budget
        assert mine.count == placed + kept + 1  # and the plan with a streamed input
        assert api.explore(model, workers=mine).bundle() == api.explore(model).bundle()
        mine.submit(abs, 0).result()
    assert shared.bundle() == alone.bundle()


@pytest.mark.parametrize("function", [nothing_found, too_few, half_refused])
def test_errors_of_workers_say_what_they_would_say_here(function: Callable[[int], int]) -> None:
    with executor_of(2) as executor, pytest.raises(PenstockError) as there:
        list(mapped(function, (1, 2), executor))
    if function is nothing_found:
        assert type(there.value) is InternalError
        assert there.value.what == "LookupError: nothing at 1"
        assert there.value.where.startswith("test_workers.py:")
        return
    with executor_of(1) as executor, pytest.raises(MismatchError) as here:
        list(mapped(function, (1, 2), executor))
    assert (type(there.value), str(there.value)) == (type(here.value), str(here.value))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_model_that_does_not_fit_is_said_in_the_same_words(workers: int) -> None:
    with pytest.raises(penstock.CapacityError) as caught:
        api.compile("zoo:lenet5", sram="1KiB", workers=workers)
    assert caught.value.code == "capacity-001"
    assert "the network needs" in caught.value.what


def test_a_number_below_one_is_refused() -> None:
    with pytest.raises(UsageError, match="must be from 1 to 1024"):
        api.compile("zoo:lenet5", workers=0)


def test_a_worker_that_is_lost_is_said() -> None:
    with pytest.raises(ToolError, match="a worker terminated"), executor_of(2) as executor:
        list(mapped(os._exit, (1, 1), executor))


def test_every_point_is_verified_by_workers(host_compilers: tuple[str, ...]) -> None:
    model = path_of(COMMITTED[0])
    alone, shared = (
        api.verify(model, "host", every_point=True, workers=workers) for workers in (1, 2)
    )
    assert shared.passed
    assert shared.rungs == alone.rungs
    assert shared.report == alone.report


@pytest.mark.parametrize("everyone", [True, False])
def test_an_interrupt_ends_workers_without_a_word(everyone: bool, tmp_path: Any) -> None:
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED)
    process = subprocess.Popen(
        (sys.executable, str(script)),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == [b"at work\n"] * 2
    (os.killpg if everyone else os.kill)(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert said.count(b"Traceback") == said.count(b"KeyboardInterrupt") == 1  # the script's own
    assert process.returncode == -signal.SIGINT
    assert list(tmp_path.iterdir()) == [script]
