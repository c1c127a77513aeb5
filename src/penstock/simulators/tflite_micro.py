"""Ground truth: runs a model in TensorFlow Lite Micro and keeps every tensor.

TensorFlow Lite Micro may abort on unexpected models.  It therefore runs in a process of its own
(`tflite_micro_child.py`), which yields either a `GoldenSet` or a `ToolError` with its messages.
"""

from __future__ import annotations

import importlib.util
import io
import re
import signal
import subprocess
import sys
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.errors import PenstockError, ToolError
from penstock.frontends.tflite import decode
from penstock.frontends.variables import Feedback, zeros
from penstock.frozen import frozen

Array = NDArray[Any]

CHILD = Path(__file__).with_name("tflite_micro_child.py")

# Sizes tried in this order. No two tensors share memory here, unlike on a device.
ARENA_BYTES = (16 << 20, 128 << 20, 1 << 30)

# Message of tensorflow/lite/micro/arena_allocator for a small arena: "Failed to allocate tail
# memory. Requested: 8216, available 1928, missing: 6288".
ARENA_TOO_SMALL = re.compile(r"Requested: \d+, available:? \d+")


@frozen(eq=False)
class GoldenSet:
    """Results of the reference for one set of inputs.

    `tensors` holds (tensor index in subgraph 0, values) of every tensor without constant data, in
    ascending order; it is empty if only the outputs are known.
    """

    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    tensors: tuple[tuple[int, Array], ...] = ()


@frozen
class Refusal:
    """Exit code and messages of a child process that failed."""

    exit_code: int
    message: str

    @property
    def is_crash(self) -> bool:
        """Whether it did not exit regularly with code 1."""
        return self.exit_code != 1

    @property
    def wants_more_arena(self) -> bool:
        return ARENA_TOO_SMALL.search(self.message) is not None


def tflite_micro_version() -> str:
    """Name and version of the runtime, as archives record it.

    Raises ToolError if it is not installed."""
    require_tflite_micro()
    from importlib.metadata import version  # slow to import, and only needed here

    return f"tflite-micro {version('tflite-micro')}"


def require_tflite_micro() -> None:
    """Raises ToolError with installation instructions if the reference is not installed."""
    if importlib.util.find_spec("tflite_micro") is None:
        raise ToolError(
            "tool-040",
            "TensorFlow Lite Micro is not installed",
            where="Python package tflite_micro",
            why="ground truth comes from the reference runtime, never from penstock itself",
            help="pip install 'penstock[reference]'",
        )


def run_tflite_micro(model_bytes: bytes, inputs: tuple[Array, ...]) -> GoldenSet:
    """One invocation from the initial state: outputs and all tensors, as stored by the runtime.

    Raises ToolError if the runtime is missing, rejects the model or the inputs, or crashes."""
    (golden_set,) = run_tflite_micro_sets(model_bytes, (inputs,))
    return golden_set


def run_tflite_micro_sets(
    model_bytes: bytes,
    input_sets: Sequence[tuple[Array, ...]],
    feedbacks: Sequence[Feedback] = (),
    *,
    stateful: bool = False,
    removed: Sequence[int] = (),
) -> tuple[GoldenSet, ...]:
    """`run_tflite_micro` for several sets in one process; each starts from the initial state.

    If `stateful`, each set is a sequence of invocations: the first axis of its inputs and outputs
    is the step; tensors are those of the first invocation.  After each of them, the outputs that
    `feedbacks` name are copied to inputs; the sets contain neither.

    The operators with the indices `removed` are left out: each set ends with their outputs."""
    require_tflite_micro()
    ask = partial(_ask, model_bytes, input_sets, feedbacks, removed, stateful=stateful)
    reply, arena_bytes = Refusal(0, ""), 0
    for arena_bytes in ARENA_BYTES:
        reply = ask(arena_bytes)
        if not isinstance(reply, Refusal):
            return tuple(_golden_set(reply, s, inputs) for s, inputs in enumerate(input_sets))
        if not reply.wants_more_arena:
            break
    raise _error(reply, _crashing(model_bytes, partial(ask, arena_bytes)) if reply.is_crash else "")


def _crashing(model_bytes: bytes, ask: Callable[[int], dict[str, Array] | Refusal]) -> str:
    """Where the first operator is on which the runtime crashes, if it runs those before it; else
    an empty text.  `ask` runs the first operators of the model, as many as it is told."""
    try:
        nodes = decode(model_bytes, "the model").nodes
    except PenstockError:
        return ""

    def crashes(count: int) -> bool:
        reply = ask(count)
        return isinstance(reply, Refusal) and reply.is_crash

    found = bisect_left(range(len(nodes) + 1), True, key=crashes) - 1
    return nodes[found].where if 0 <= found < len(nodes) else ""


def _ask(
    model_bytes: bytes,
    input_sets: Sequence[tuple[Array, ...]],
    feedbacks: Sequence[Feedback],
    removed: Sequence[int],
    arena_bytes: int,
    operators: int | None = None,
    *,
    stateful: bool,
) -> dict[str, Array] | Refusal:
    request: dict[str, Array] = {
        "model": np.frombuffer(model_bytes, np.uint8),
        "arena_bytes": np.array(arena_bytes),
        "set_count": np.array(len(input_sets)),
        "stateful": np.array(stateful),
        "removed": np.array(removed, np.int64),
        "feedbacks": np.array([(f.input, f.output) for f in feedbacks], np.int64).reshape(-1, 2),
    }
    if operators is not None:
        request["operators"] = np.array(operators)
    request |= {f"initial{f.input}": zeros(f.type).array(f.type) for f in feedbacks}
    for number, inputs in enumerate(input_sets):
        for position, values in enumerate(inputs):
            request[f"in{position}_set{number}"] = values
    packed = io.BytesIO()
    np.savez(packed, allow_pickle=False, **request)
    child = subprocess.run(  # -P: this folder, which has a tflite_micro.py too, is no import path
        [sys.executable, "-P", str(CHILD)],
        input=packed.getvalue(),
        capture_output=True,
        check=False,
    )
    if child.returncode != 0:
        return Refusal(child.returncode, child.stderr.decode(errors="replace"))
    with np.load(io.BytesIO(child.stdout), allow_pickle=False) as archive:
        return dict(archive)


def _golden_set(reply: dict[str, Array], number: int, inputs: tuple[Array, ...]) -> GoldenSet:
    outputs: list[Array] = []
    while (key := f"out{len(outputs)}_set{number}") in reply:
        outputs.append(reply[key])
    matches = ((re.fullmatch(rf"t(\d+)_set{number}", key), values) for key, values in reply.items())
    tensors = sorted((int(match[1]), values) for match, values in matches if match)
    return GoldenSet(inputs=inputs, outputs=tuple(outputs), tensors=tuple(tensors))


def _error(refusal: Refusal, where: str) -> ToolError:
    lines = [line.strip() for line in refusal.message.splitlines() if line.strip()]
    words = "; ".join(lines[-8:]) or "it printed nothing"
    if refusal.is_crash:
        names = {-known.value: known.name for known in signal.Signals}
        name = names.get(refusal.exit_code, f"exit code {refusal.exit_code}")
        return ToolError(
            "tool-042",
            f"TensorFlow Lite Micro crashed on this model ({name})",
            where=where or "the reference runtime, in its own process",
            why=words,
            help="pass goldens of another runtime to `penstock verify --goldens`",
        )
    return ToolError(
        "tool-041",
        "TensorFlow Lite Micro refuses this model or its inputs",
        where="the reference runtime, in its own process",
        why=words,
        help="if the inputs are right, pass goldens of another runtime to `penstock verify "
        "--goldens`",
    )
