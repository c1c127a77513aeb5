"""WatchedProcess: a process that answers tasks, ended and replaced when it computes for too long.

Limits are on time on the processor: other processes may take the machine's.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

READY = "ready"
"""Said once, when everything is imported: no task pays for that."""
WALL_FACTOR = 10
"""Wall-clock limit as a multiple of the processor-time limit: catches a process that sleeps."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The process gave no answer: it computed for too long (no exit code), or ended."""

    exit_code: int | None = None


class WatchedProcess:
    """A process that runs `serve(pipe, *arguments)`, which says READY and then answers tasks."""

    def __init__(self, serve: Callable[..., None], *arguments: object) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._serve, self._arguments = serve, arguments
        self._start()

    def send(self, task: object) -> None:
        self._pipe.send(task)

    def receive(self, seconds: float) -> Any:
        """The next answer, or Lost; then a new process has taken the place of the old one."""
        try:
            if self._answers(seconds):
                return self._pipe.recv()
            lost = Lost()
        except (EOFError, OSError):
            self._process.join()
            lost = Lost(self._process.exitcode)
        self.close()
        self._start()
        return lost

    def close(self) -> None:
        """Ends the process, with the compilers that it started."""
        self._pipe.close()
        if self._process.is_alive() and self._process.pid:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.join()

    def _start(self) -> None:
        self._pipe, other = self._context.Pipe()
        arguments = (other, self._serve, self._arguments)
        self._process = self._context.Process(target=_run, args=arguments)
        self._process.start()
        other.close()
        if self._pipe.recv() != READY:
            raise RuntimeError("a process must begin by saying that it is ready")

    def _answers(self, seconds: float) -> bool:
        """Whether there is an answer before the process has computed for so many seconds."""
        begin, clock = self._processor_seconds(), time.monotonic()
        while not self._pipe.poll(1.0):
            computed = self._processor_seconds() - begin
            if computed > seconds or time.monotonic() - clock > WALL_FACTOR * seconds:
                return False
        return True

    def _processor_seconds(self) -> float:
        """What the process has computed; 0 where the system does not say."""
        try:
            text = Path(f"/proc/{self._process.pid}/stat").read_text()
        except OSError:
            return 0.0
        user, system = text.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _run(pipe: Connection, serve: Callable[..., None], arguments: tuple[object, ...]) -> None:
    """Serves in a process group of its own, so that it can be ended with its children."""
    os.setsid()
    serve(pipe, *arguments)


def limit_memory(more: int | None) -> None:
    """Limits the address space to so many bytes more than are taken, by libraries and what else
    this process has done; the hard limit stays, so that None can lift it again."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    soft = hard if more is None else _taken_bytes() + more
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _taken_bytes() -> int:
    """Bytes of address space of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()
