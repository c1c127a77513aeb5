"""Compiles, explores and verifies on an executor, and prints digests of the results as JSON.

    python tests/executors.py processes | dask
    mpiexec -n 3 python -m mpi4py.futures tests/executors.py mpi

`dask` kills one of its two worker processes while a frontier is placed.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock import api
from penstock.errors import CapacityError, PenstockError
from penstock.exploration import OnProgress
from penstock.workers import Workers, executor_of, mapped

MODEL = "zoo:lenet5"
SMALL_MODEL = str(Path(__file__).parent / "models" / "arithmetic.tflite")


def refused(number: int) -> int:
    raise CapacityError("capacity-001", f"{number} fails", where="here", why="so", help="more")


def ignore_progress(stage: str, done: int = 0, of: int = 1) -> None:
    """Ignores progress, as by default."""


def results(workers: Workers, on_progress: OnProgress = ignore_progress) -> dict[str, str]:
    """Results that must not depend on the executor: digests of bundles, and verdicts."""
    bundles = {
        "explore": api.explore(MODEL, "cortex-m4", workers=workers, on_progress=on_progress),
        "compile": api.compile(MODEL, "cortex-m4", workers=workers),
    }
    verified = api.verify(
        SMALL_MODEL, "host", every_point=True, accelerators=("vanilla",), workers=workers
    )
    return {
        verb: hashlib.sha256(repr(result.bundle().files).encode()).hexdigest()
        for verb, result in bundles.items()
    } | {"verify": repr(verified.rungs)}


def error_on(executor: Executor, function: Callable[[int], object]) -> dict[str, str]:
    """The parts of the error that a task raises."""
    try:
        with executor_of(executor) as workers:
            list(mapped(function, (1, 1), workers))
    except PenstockError as error:
        return error.parts()
    return {}


@dataclass
class Killer:
    """Kills a process when the first schedule of a frontier is placed."""

    pid: int
    killed: list[int] = field(default_factory=list[int])

    def __call__(self, stage: str, done: int = 0, of: int = 1) -> None:
        if done == 1 and not self.killed:
            os.kill(self.pid, signal.SIGKILL)
            self.killed.append(self.pid)


def on_dask() -> dict[str, Any]:
    """Runs two workers and kills one; then runs a task that every worker fails on."""
    import dask
    from distributed import Client, LocalCluster

    def pids() -> set[int]:
        return set(client.run(os.getpid).values())

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
        client.get_executor() as executor,
    ):
        killer = Killer(min(pids()))
        return {
            "results": results(executor, killer),
            "killed": len(killer.killed) == 1 and killer.pid not in pids(),
            "error": error_on(executor, refused),
            "lost": error_on(executor, os._exit),
        }


def on(executor: Executor) -> dict[str, Any]:
    with executor:
        return {"results": results(executor), "error": error_on(executor, refused)}


def on_mpi() -> dict[str, Any]:
    from mpi4py.futures import MPIPoolExecutor

    return on(MPIPoolExecutor())


KINDS: dict[str, Callable[[], dict[str, Any]]] = {
    "processes": lambda: on(ProcessPoolExecutor(2)),
    "dask": on_dask,
    "mpi": on_mpi,
}

if __name__ == "__main__":
    print(json.dumps(KINDS[sys.argv[1]]()))
