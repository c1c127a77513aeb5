"""Random TFLite networks with state, run by run against TensorFlow Lite Micro.

Each network runs two sequences of runs, each after a reset.  The reference is compared with
TensorFlow Lite Micro; the machine, every point of the frontier, the generated C under sanitizers
and, if asked for, a simulated Cortex-M4 are compared with the reference.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from penstock import api, ladder
from penstock.api.arrays import input_types
from penstock.frontends.variables import feedbacks
from penstock.ground_truth import golden_inputs
from penstock.pipeline.graphs import read
from penstock.simulators.goldens import make_goldens, unrolled
from tools.lstm_network import draw_lstm
from tools.stateful_network import draw_explicit, draw_stateful
from tools.svdf_network import draw_svdf

TARGET = "cortex-m4"
SEQUENCES = 2
Drawn = tuple[bytes, dict[str, str]]
"""A model file, and the output of each explicit state by its input."""
KINDS: dict[str, Callable[[int, int], Drawn]] = {
    "variables": lambda seed, number: (draw_stateful(seed, number), {}),
    "explicit": draw_explicit,
    "svdf": lambda seed, number: (draw_svdf(seed, number), {}),
    "lstm": lambda seed, number: (draw_lstm(seed, number), {}),
}
"""By name; the states of `explicit` are inputs and outputs."""


def climbed(raw: bytes, states: dict[str, str], steps: int, *, core: bool) -> list[ladder.Rung]:
    """The rungs of a network, against sequences of TensorFlow Lite Micro.  Raises PenstockError."""
    with tempfile.TemporaryDirectory(prefix="penstock-states-") as folder:
        path = Path(folder) / "network.tflite"
        path.write_bytes(raw)
        done = api.compile(path, TARGET if core else "host", states=states).compilation
        types = input_types(done.model.inputs)
        fed_back = feedbacks(read(str(path)), done.request.reading)
        truth = unrolled(make_goldens(raw, types, "network", SEQUENCES, steps, fed_back))
        sets = golden_inputs(done.model, truth)
        return list(ladder.climb(done, ladder.Truth(truth), sets, every_point=True, steps=steps))
