"""Goldens: outputs of a reference runtime for sets of inputs.

`golden_archive.py` stores them in files; `make_goldens` obtains them from TensorFlow Lite Micro.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.brief import Brief
from penstock.frontends.explicit_states import Feedback
from penstock.simulators.drawn_inputs import KINDS, InputType, draw_inputs
from penstock.simulators.tflite_micro import (
    GoldenSet,
    run_tflite_micro_sets,
    tflite_micro_version,
)

Array = NDArray[Any]
Crcs = tuple[tuple[int, int], ...]
"""(tensor index, CRC-32), in ascending order of the index."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Goldens(Brief):
    """All sets of one archive, in ascending order of their numbers in the archive.

    `tensor_crc32` belongs to `sets[tensor_set]`, the only set with `tensors`.  An archive that
    holds tensors only has one set without inputs and outputs; its inputs are among its tensors,
    under their indices in the model.  If TensorFlow Lite Micro differs from `runtime`, `tflm_sets`
    (parallel to `sets`) and `tflm_tensor_crc32` hold its results; otherwise they are empty.
    """

    model: str
    runtime: str
    set_numbers: tuple[int, ...]
    kinds: tuple[str, ...]
    sets: tuple[GoldenSet, ...]
    tensor_set: int | None
    tensor_crc32: Crcs
    tflm_sets: tuple[GoldenSet, ...] = ()
    tflm_tensor_crc32: Crcs = ()
    stateful: bool = False
    model_crc32: int | None = None


def unrolled(goldens: Goldens) -> Goldens:
    """The goldens with one set for each run of a sequence."""
    if not goldens.stateful:
        return goldens
    steps = sequence_length(goldens)

    def apart(sets: tuple[GoldenSet, ...]) -> tuple[GoldenSet, ...]:
        return tuple(
            GoldenSet(
                tuple(array[step] for array in golden.inputs),
                tuple(array[step] for array in golden.outputs),
                golden.tensors if step == 0 else (),
            )
            for golden in sets
            for step in range(steps)
        )

    return replace(
        goldens,
        set_numbers=tuple(range(len(goldens.sets) * steps)),
        kinds=tuple(kind for kind in goldens.kinds for _ in range(steps)),
        sets=apart(goldens.sets),
        tflm_sets=apart(goldens.tflm_sets),
        tensor_set=None if goldens.tensor_set is None else goldens.tensor_set * steps,
        stateful=False,
    )


def sequence_length(goldens: Goldens) -> int:
    """The number of runs of each set: 1 unless the model has state."""
    return len(goldens.sets[0].inputs[0]) if goldens.stateful else 1


def array_crc32(values: Array) -> int:
    """CRC-32 (zlib) of the raw little-endian values, the last axis fastest."""
    return zlib.crc32(np.asarray(values, values.dtype.newbyteorder("<")).tobytes())


@dataclass(frozen=True, slots=True)
class Replaced:
    """Operators that TensorFlow Lite Micro does not run: their indices in the model, and a function
    from the inputs of all sets to the outputs of these operators in each set."""

    operators: tuple[int, ...]
    outputs: Callable[[Sequence[tuple[Array, ...]]], Sequence[tuple[Array, ...]]]


def make_goldens(
    model_bytes: bytes,
    types: Sequence[InputType],
    model: str,
    set_count: int = len(KINDS),
    steps: int | None = None,
    feedbacks: Sequence[Feedback] = (),
    replaced: Replaced | None = None,
) -> Goldens:
    """Outputs of TensorFlow Lite Micro for `set_count` random sets, and all tensors of the first
    run.

    `types` are the types of the model's inputs, except those of `feedbacks`, which receive outputs
    of the previous run; the seed is the CRC-32 of the model.  `steps`: for a model with state, the
    number of runs of each set, which follow a reset; None for others.  `replaced`: operators that
    are left out.
    Raises ToolError if the runtime is missing or rejects the model."""
    seed = zlib.crc32(model_bytes)
    if steps is None:
        drawn = [draw_inputs(types, number, seed) for number in range(set_count)]
    else:
        drawn = [_drawn_sequence(types, number, seed, steps) for number in range(set_count)]
    outputs = ((),) * set_count if replaced is None else replaced.outputs(drawn)
    answers = run_tflite_micro_sets(
        model_bytes,
        [(*arrays, *more) for arrays, more in zip(drawn, outputs, strict=True)],
        feedbacks,
        stateful=steps is not None,
        removed=() if replaced is None else replaced.operators,
    )
    first, *others = (
        GoldenSet(arrays, found.outputs, found.tensors)
        for arrays, found in zip(drawn, answers, strict=True)
    )
    return Goldens(
        model=model,
        runtime=tflite_micro_version(),
        set_numbers=tuple(range(set_count)),
        kinds=tuple(KINDS[number % len(KINDS)] for number in range(set_count)),
        sets=(first, *(GoldenSet(other.inputs, other.outputs) for other in others)),
        tensor_set=0,
        tensor_crc32=tuple((index, array_crc32(values)) for index, values in first.tensors),
        stateful=steps is not None,
        model_crc32=seed,
    )


def _drawn_sequence(
    types: Sequence[InputType], number: int, seed: int, steps: int
) -> tuple[Array, ...]:
    """The inputs of a sequence, each with the step as its first axis."""
    runs = (draw_inputs(types, number, seed + step) for step in range(steps))
    return tuple(np.stack(arrays) for arrays in zip(*runs, strict=True))
