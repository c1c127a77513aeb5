"""Conversion of frameworks' files: a Keras model to TensorFlow Lite, a PyTorch program to ONNX.

The framework does it, in a process of its own: it may crash, prints much, and reads files that may
contain code (SECURITY.md).  What it prints is logged, for --verbose.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, cast

import numpy as np

from penstock.errors import ModelError, ToolError, UnsupportedError
from penstock.frontends.frameworks.child import MODEL, RESULTS, SAMPLES, Task
from penstock.frontends.frameworks.framework import Framework
from penstock.frontends.reading import Reading
from penstock.frozen import frozen
from penstock.guides import guide
from penstock.ir.tensor import Array

if TYPE_CHECKING:
    from penstock.frontends.onnx.file import Border
    from penstock.frontends.onnx.post_training import Samples

LOGGER: Final = logging.getLogger("penstock.frameworks")
MOST_LETTERS: Final = 400  # Of a framework's message in an error.
COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
Answer = Mapping[str, Any]


def converted(raw: bytes, path: Path, framework: Framework, reading: Reading) -> bytes:
    """The model in a framework's file, as the bytes of a TFLite or ONNX file.  It is converted once
    for equal files and samples.

    Raises ToolError if packages are missing or the converter fails, ModelError if the framework
    cannot load the file or the samples do not fit."""
    _check_installed(framework)
    archive = reading.calibration if framework.quantises else None
    return _converted(
        path, framework, archive, reading.size_limit_bytes, _digest(raw), _digest_of(archive)
    )


def _check_installed(framework: Framework) -> None:
    missing = [name for name in framework.packages if importlib.util.find_spec(name) is None]
    if missing:
        raise ToolError(
            "framework-002",
            f"{missing[0]} is not installed",
            where=f"Python package {missing[0]}",
            why=f"{framework.converter} converts {framework.suffix} files",
            help=f"pip install 'penstock[{framework.extra}]'",
        )


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def _digest_of(archive: Path | None) -> str:
    """The digest of an archive; empty if there is none, or if it cannot be read."""
    try:
        return "" if archive is None else _digest(archive.read_bytes())
    except OSError:
        return ""


def evaluated(path: Path, framework: Framework, samples: Samples) -> list[Array]:
    """What the framework computes for samples: an array for each output, whose first axis is the
    sample.

    samples: arrays by the names of the inputs, with a batch axis.

    Raises ToolError and ModelError as `converted`."""
    _check_installed(framework)
    with _process(path, framework) as process:
        return process.outputs(process.inputs(), samples)


@lru_cache(maxsize=4)
def _converted(
    path: Path, framework: Framework, archive: Path | None, limit_bytes: int, *_digests: str
) -> bytes:
    """`_digests` make the results of files that were changed differ."""
    with _process(path, framework) as process:
        inputs = process.inputs()
        if framework.quantises:
            _check_extents(inputs, path)
        if archive is None:
            return process.converted(Task.CONVERT)
        from penstock.frontends.onnx.post_training import read_samples  # takes long to import

        return process.converted(Task.QUANTISE, inputs, read_samples(archive, inputs, limit_bytes))


def _check_extents(inputs: Sequence[Border], path: Path) -> None:
    """Raises UnsupportedError if an extent is open."""
    for border in inputs:
        if not all(isinstance(extent, int) for extent in border.shape):
            raise UnsupportedError(
                "framework-005",
                f'input "{border.name}" has an open extent: [{", ".join(map(str, border.shape))}]',
                where=path.name,
                why="memory is planned at compile time, so every extent but the batch's must be "
                "known",
                help="build the model with a fixed shape: keras.Input(shape)",
            )


@frozen
class _Process:
    """The process of a framework that has a model to load, and then one task, see `child`.

    messages: the file of its stderr."""

    path: Path
    framework: Framework
    folder: Path
    child: subprocess.Popen[bytes]
    messages: IO[bytes]

    def inputs(self) -> tuple[Border, ...]:
        """The inputs of the model.  Raises ModelError if it cannot be loaded."""
        from penstock.frontends.onnx.file import Border  # takes long to import

        answer = self._answer()
        if "inputs" not in answer:
            raise ModelError(
                "framework-003",
                f"{self.framework.name} cannot load the model",
                where=self.path.name,
                why=self._reason(answer),
                help=self.framework.causes,
            )
        return tuple(
            Border(name, dtype, tuple("?" if extent is None else extent for extent in shape))
            for name, dtype, shape in answer["inputs"]
        )

    def converted(self, task: Task, inputs: Sequence[Border] = (), samples: Samples = ()) -> bytes:
        """The converted model.  Raises ToolError."""
        self._run(task, inputs, samples, f"{self.framework.converter} cannot convert the model")
        return (self.folder / MODEL).read_bytes()

    def outputs(self, inputs: Sequence[Border], samples: Samples) -> list[Array]:
        """The outputs of the model.  Raises ToolError."""
        self._run(
            Task.EVALUATE, inputs, samples, f"{self.framework.name} cannot evaluate the model"
        )
        return list(np.load(self.folder / RESULTS).values())

    def _run(
        self, task: Task, inputs: Sequence[Border], samples: Samples, what_failed: str
    ) -> None:
        if samples:
            arrays = (np.stack([one[x.name] for one in samples]).astype(x.dtype) for x in inputs)
            np.savez(self.folder / SAMPLES, *arrays)
        with suppress(BrokenPipeError):  # of a process that has ended, which gives no answer
            assert self.child.stdin is not None
            self.child.stdin.write(task.value.encode() + b"\n")
            self.child.stdin.close()
        answer = self._answer()
        if answer:
            raise ToolError(
                "framework-004",
                what_failed,
                where=self.path.name,
                why=self._reason(answer),
                help=f"--verbose prints what {self.framework.name} prints; "
                f"{guide(self.framework.guide)}",
            )

    def _answer(self) -> Answer:
        """The next answer; {"error": ""} if the process has ended without one."""
        assert self.child.stdout is not None
        try:
            return cast(Answer, json.loads(self.child.stdout.readline()))
        except ValueError:
            return {"error": ""}

    def _reason(self, answer: Answer) -> str:
        message = str(answer["error"])
        if not message:
            code = self.child.wait()
            ended = f"signal {-code} ended it" if code < 0 else f"it ended with exit code {code}"
            lines = self.text().strip().splitlines()
            message = f"{ended}; its last message: {lines[-1] if lines else 'none'}"
        return " ".join(COLOUR.sub("", message).split())[:MOST_LETTERS]

    def text(self) -> str:
        """What the process has printed so far."""
        self.messages.seek(0)
        return self.messages.read().decode(errors="replace")


@contextmanager
def _process(path: Path, framework: Framework) -> Generator[_Process]:
    """The process of a framework, and the folder of its files; both end with the context."""
    with (
        tempfile.TemporaryDirectory(prefix="penstock-") as folder,
        tempfile.TemporaryFile() as messages,
        subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                f"{__package__}.{framework.child}",
                path.resolve(),
                folder,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=messages,
            env={**os.environ, **_variables(folder)},
        ) as child,
    ):
        process = _Process(path, framework, Path(folder), child, messages)
        try:
            yield process
        finally:
            child.kill()
            LOGGER.debug("%s", process.text().rstrip())


def _variables(folder: str) -> dict[str, str]:
    """Variables with which the process finds the same packages, writes to its folder only, prints
    little, and runs no code of a pickled object."""
    return {
        "PYTHONPATH": os.pathsep.join(one for one in sys.path if one),
        **dict.fromkeys(("TMPDIR", "TEMP", "TMP", "KERAS_HOME"), folder),
        "KERAS_BACKEND": "tensorflow",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1",
    }
