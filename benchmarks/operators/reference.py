"""Reference: TensorFlow Lite Micro, or another runtime, in a process of its own, asked about many
models.

A runtime ends the process on some models (an assertion of its own, a division by zero): a new one
answers from there on, and the model counts as crashed.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from penstock.simulators.tflite_micro import require_tflite_micro
from penstock.simulators.tflite_micro_child import run_set

Array = NDArray[Any]
ARENA_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Refusal:
    """The runtime ran no inference; `reason` has its words, or its signal."""

    reason: str
    crashed: bool = False


Answer = tuple[Array, ...] | Refusal
"""The outputs, or why there are none."""

Runtime = Callable[[bytes, Sequence[Array]], tuple[Array, ...]]
"""The outputs of a model for its inputs, from a fresh state; raises whatever it likes."""


def tflite_micro(arena_bytes: int = ARENA_BYTES) -> Runtime:
    """TensorFlow Lite Micro.  Raises a UsageError without its package."""
    require_tflite_micro()
    return partial(_by_tflite_micro, arena_bytes)


class Reference:
    """A process that runs a runtime, which must be a function that it can import; use as a context
    manager."""

    def __init__(self, runtime: Runtime) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-reference-")
        self._log = Path(self._folder.name) / "stderr"
        self._runtime = runtime
        self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._folder.cleanup()

    def run(self, model_bytes: bytes, inputs: tuple[Array, ...]) -> Answer:
        """One inference from a fresh state."""
        self._pipe.send((model_bytes, inputs))
        try:
            return self._pipe.recv()
        except EOFError:
            self._process.join()
            code = self._process.exitcode or 0
            self._stop()
            self._start()
            return Refusal(signal.Signals(-code).name if code < 0 else f"exit code {code}", True)

    def _start(self) -> None:
        self._pipe, other = self._context.Pipe()
        arguments = (other, str(self._log), self._runtime)
        self._process = self._context.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        other.close()

    def _stop(self) -> None:
        self._pipe.close()
        self._process.join()


def _serve(pipe: Connection, log: str, runtime: Runtime) -> None:
    """Answers until the pipe is closed.  What the runtime prints goes to the file `log`."""
    with open(log, "w+b", buffering=0) as file:
        os.dup2(file.fileno(), 2)
        while True:
            try:
                model_bytes, inputs = pipe.recv()
            except EOFError:
                return
            os.ftruncate(2, 0)
            file.seek(0)
            pipe.send(_answer(runtime, model_bytes, inputs, log))


def _answer(runtime: Runtime, model_bytes: bytes, inputs: tuple[Array, ...], log: str) -> Answer:
    try:
        return runtime(model_bytes, inputs)
    except Exception as error:  # whatever it is, the reason is in the log
        lines = Path(log).read_text(errors="replace").splitlines()
        said = [line.strip() for line in lines if line.strip()]
        return Refusal(said[0] if said else str(error))


def _by_tflite_micro(
    arena_bytes: int, model_bytes: bytes, inputs: Sequence[Array]
) -> tuple[Array, ...]:
    found = dict(run_set(model_bytes, list(inputs), arena_bytes))
    outputs: list[Array] = []
    while (key := f"out{len(outputs)}") in found:
        outputs.append(np.array(found[key]))
    return tuple(outputs)
