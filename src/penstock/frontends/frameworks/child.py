"""What the processes in which frameworks run have in common; `conversion` starts them.

    arguments  the model file, and a folder for samples and results
    stdout     {"inputs": [[name, element type, shape], ..]} on one line, null for an open extent
    stdin      a `Task` on one line; for QUANTISE and EVALUATE, the folder contains `SAMPLES`: an
               array for each input, in order, whose first axis is the sample
    stdout     {} on one line when the folder contains `MODEL`, or for EVALUATE `RESULTS`: an array
               for each output, in order, whose first axis is the sample
    stdout     {"error": the first cause} in the place of either line

What the framework prints goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from penstock.ir.tensor import Array

Foreign = Any
"""A module or an object of a framework: none has annotations that are complete."""
BATCH = 64  # Samples that are evaluated together.
SAMPLES, RESULTS, MODEL = "samples.npz", "results.npz", "model"


class Task(Enum):
    """What the process is to do with a model.

    CONVERT: to real numbers.  QUANTISE: with samples.  EVALUATE: the outputs for samples."""

    CONVERT = "convert"
    QUANTISE = "quantise"
    EVALUATE = "evaluate"


class Loaded(Protocol):
    """A model that the framework has loaded.  A sample has a batch axis, as the inputs do."""

    def inputs(self) -> list[tuple[str, str, list[int | None]]]:
        """Name, element type and shape of each input; None for an open extent."""
        ...

    def converted(self, samples: Sequence[Array] | None) -> bytes:
        """The model as a TFLite or ONNX file, quantised if there are samples."""
        ...

    def outputs(self, samples: Sequence[Array]) -> list[Array]:
        """The outputs for samples."""
        ...


def outputs_of(
    call: Callable[..., Sequence[Foreign]], samples: Sequence[Array], *, is_open: bool
) -> list[Array]:
    """The outputs of a model for samples; `is_open`: whether its batch may have any extent."""
    if not is_open:
        found = [list(map(np.asarray, call(*sample))) for sample in zip(*samples, strict=True)]
        return [np.stack(arrays) for arrays in zip(*found, strict=True)]
    whole = [x.reshape(-1, *x.shape[2:]) for x in samples]
    count = len(whole[0])
    batches: list[list[Array]] = []
    for chosen in np.array_split(np.arange(count), -(-count // BATCH)):
        # torch may take a batch of 1 for a constant.
        rows = np.resize(chosen, max(2, len(chosen)))
        batches.append([np.asarray(y)[: len(chosen)] for y in call(*(x[rows] for x in whole))])
    found = [np.concatenate(arrays) for arrays in zip(*batches, strict=True)]
    if any(len(y) != count for y in found):
        raise ValueError("an output has no batch axis")
    return [y[:, np.newaxis] for y in found]


def serve(load: Callable[[str], Loaded]) -> None:
    """Converts or evaluates the model that the arguments name.  Does not raise."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**values: object) -> None:
        answers.write(json.dumps(values) + "\n")
        answers.flush()

    path, folder = sys.argv[1], Path(sys.argv[2])
    try:
        model = load(path)
        answer(inputs=model.inputs())
        _done(model, Task(sys.stdin.readline().strip()), folder)
        answer()
    except Exception as found:
        error: BaseException = found
        traceback.print_exc()
        while error.__cause__ is not None:
            error = error.__cause__
        answer(error=str(error) or type(error).__name__)


def _done(model: Loaded, task: Task, folder: Path) -> None:
    def samples() -> list[Array]:
        return list(np.load(folder / SAMPLES).values())

    match task:
        case Task.EVALUATE:
            np.savez(folder / RESULTS, *model.outputs(samples()))
        case Task.QUANTISE:
            (folder / MODEL).write_bytes(model.converted(samples()))
        case Task.CONVERT:
            (folder / MODEL).write_bytes(model.converted(None))
