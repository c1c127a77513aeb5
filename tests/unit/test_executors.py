"""Executors of others: the same bytes, the same errors, and a result where a worker is killed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from available import REPOSITORY
from executors import refused, results
from penstock import api
from penstock.errors import PenstockError, ToolError, UsageError
from penstock.pipeline.assignment import assign_engines
from penstock.pipeline.graphs import read, simplify
from penstock.pipeline.placing import PlacedPoint, place
from penstock.pipeline.search import schedule
from penstock.workers import LOOKAHEAD, executor_of, mapped

SCRIPT = str(REPOSITORY / "tests" / "executors.py")
REFUSED = {"code": "capacity-001", "what": "1 fails", "where": "here", "why": "so", "help": "more"}


def told_by(*command: str) -> dict[str, Any]:
    """What a command prints that runs the script."""
    paths = os.pathsep.join(sys.path)
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": paths, "PATH": path},
        capture_output=True,
        text=True,
        timeout=540,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def alone() -> dict[str, str]:
    """What this process finds without help."""
    return results(1)


def test_processes_of_the_caller(alone: dict[str, str], host_compilers: Sequence[str]) -> None:
    assert told_by(sys.executable, SCRIPT, "processes") == {"results": alone, "error": REFUSED}


def test_threads(alone: dict[str, str], host_compilers: Sequence[str]) -> None:
    with ThreadPoolExecutor(2) as threads:
        assert results(threads) == alone


def test_a_dask_cluster_of_which_a_worker_is_killed(
    alone: dict[str, str], host_compilers: Sequence[str]
) -> None:
    pytest.importorskip("distributed", reason="distributed is not installed")
    told = told_by(sys.executable, SCRIPT, "dask")
    assert told["killed"]
    assert (told["results"], told["error"]) == (alone, REFUSED)
    assert told["lost"]["code"] == "tool-028"
    assert told["lost"]["why"].startswith("KilledWorker: ")


def test_mpi(alone: dict[str, str], host_compilers: Sequence[str]) -> None:
    pytest.importorskip("mpi4py", reason="mpi4py is not installed", exc_type=ImportError)
    beside = Path(sys.executable).parent / "mpiexec"
    mpiexec = str(beside) if beside.exists() else shutil.which("mpiexec")
    if mpiexec is None:
        pytest.skip("mpiexec is not installed")
    told = told_by(mpiexec, "-n", "3", sys.executable, "-m", "mpi4py.futures", SCRIPT, "mpi")
    assert told == {"results": alone, "error": REFUSED}


def figures(points: Sequence[PlacedPoint]) -> list[tuple[int, float]]:
    return [(p.height_bytes, p.schedule.cost.cycles) for p in points]


def test_what_is_placed_ahead_of_the_points_that_beat_it_is_left_out() -> None:
    """resnet8 on Ethos-U has schedules that are faster by too little to be listed beside others."""
    pytest.importorskip("ethosu.vela", reason="ethos-u-vela is not installed")
    wanted = api.request("zoo:resnet8", "cortex-m55", accelerators=("ethos_u55",))
    graph = simplify(read(wanted.model), wanted.rounding)
    frontier = schedule(assign_engines(graph, wanted), wanted.target, wanted.options)
    alone = place(frontier, wanted.target, wanted.options)
    with ThreadPoolExecutor(2) as threads, executor_of(threads) as executor:
        shared = place(frontier, wanted.target, wanted.options, executor)
    assert figures(shared) == figures(alone)


class Holding(Executor):
    """Runs nothing until it is told to, and counts."""

    def __init__(self) -> None:
        self.futures: list[Future[Any]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.futures.append(Future())
        return self.futures[-1]


def test_no_more_than_a_bounded_number_of_tasks_is_submitted_ahead() -> None:
    holding = Holding()
    with executor_of(holding) as executor:
        mapped(abs, iter(range(10 * LOOKAHEAD)), executor)
    assert len(holding.futures) == LOOKAHEAD
    assert all(future.cancelled() for future in holding.futures)


def test_an_error_cancels_what_has_not_begun() -> None:
    with ThreadPoolExecutor(1) as threads:
        with pytest.raises(PenstockError), executor_of(threads) as executor:
            list(mapped(refused_or_slow, range(20), executor))
        begun = time.monotonic()
        threads.submit(abs, 0).result()
    assert time.monotonic() - begun < 10


def refused_or_slow(number: int) -> int:
    if number:
        time.sleep(1)
        return number
    return refused(number)


def generator_of(number: int) -> object:
    return (k for k in range(number))


@pytest.mark.parametrize(
    ("function", "item"),
    [(abs, generator_of(3)), (generator_of, 3)],
    ids=["a task", "a result"],
)
def test_what_cannot_be_pickled_is_said(function: Any, item: object) -> None:
    refusal = pytest.raises(ToolError, match="cannot be sent between processes")
    with ThreadPoolExecutor(1) as threads, refusal as caught, executor_of(threads) as executor:
        list(mapped(function, (item,), executor))
    assert (caught.value.code, "generator" in caught.value.what) == ("tool-027", True)


def test_another_version_on_a_worker_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.workers._versions", versions_by_turns())
    refusal = pytest.raises(ToolError, match=r"Python 3\.11 and penstock 0, this process Python 3")
    with ThreadPoolExecutor(1) as threads, refusal, executor_of(threads) as executor:
        list(mapped(abs, (1,), executor))


def versions_by_turns() -> Any:
    """This process is asked first, then the worker."""
    told = [("Python 3.11", "penstock 0"), ("Python 3.99", "penstock 9")]
    return lambda: told.pop() if len(told) > 1 else told[0]


def test_an_executor_that_is_closed_is_said() -> None:
    threads = ThreadPoolExecutor(1)
    threads.shutdown()
    with pytest.raises(ToolError, match="the executor did not return a result") as caught:
        api.compile("zoo:lenet5", workers=threads)
    assert caught.value.where == "workers=ThreadPoolExecutor"
    assert "shutdown" in caught.value.why


def test_a_worker_lost_by_the_callers_own_pool_is_said() -> None:
    refusal = pytest.raises(ToolError, match="a worker terminated")
    with ProcessPoolExecutor(1) as pool, refusal as caught, executor_of(pool) as executor:
        list(mapped(os._exit, (1,), executor))
    assert caught.value.where == "workers=ProcessPoolExecutor"


@pytest.mark.parametrize("workers", [None, "2", 2.5, object()])
def test_what_is_no_executor_is_refused(workers: Any) -> None:
    with pytest.raises(UsageError, match="must be a number or an executor"):
        api.compile("zoo:lenet5", workers=workers)
