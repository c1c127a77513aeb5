"""Random LSTM and GRU layers of ONNX, against real arithmetic by the package `onnx`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.torture.case import Case, Generator, Outcome, Verdict
from benchmarks.torture.compiling import mismatch, refusal
from benchmarks.watched_process import limit_memory
from penstock import api
from penstock.errors import PenstockError
from tools.onnx_recurrent import DIRECTIONS, RecurrentLayer, add_layer
from tools.onnx_writer import Model

SCALES = (1 / 256, 1 / 128, 1 / 127, 1 / 100, 1 / 40)
"""Of the hidden states, which are in [-1, 1]."""


def draw(seed: int) -> Case:
    """The layer of a seed."""
    return Case(draw_layer(seed, 0), ".onnx", judge)


def judge(case: Case, deep: bool) -> Verdict:
    """The verdict on a layer: within a step of real arithmetic, as by `penstock verify --reference
    onnx`; then the machine at every point of the frontier, and if `deep` the C, are exact."""
    limit_memory(None)  # the address sanitizer reserves terabytes
    try:
        rungs = verified(case.raw, "host" if deep else "machine").rungs
    except PenstockError as error:
        return refusal(error)
    return next(filter(None, map(mismatch, rungs)), Verdict(Outcome.EXACT))


def verified(raw: bytes, last_rung: str) -> api.Verified:
    """A layer, compared with the reference evaluator up to a rung.  Raises PenstockError."""
    with tempfile.TemporaryDirectory(prefix="penstock-recurrent-") as folder:
        path = Path(folder) / "layer.onnx"
        path.write_bytes(raw)
        return api.verify(path, "host", reference="onnx", every_point=True, last_rung=last_rung)


def draw_layer(seed: int, number: int) -> bytes:
    """A model with one random layer."""
    rng = np.random.default_rng([seed, number])

    def one_of(*choices: Any) -> Any:
        return choices[int(rng.integers(len(choices)))]

    layer = RecurrentLayer(
        one_of("LSTM", "GRU"),
        int(rng.integers(1, 25)),
        one_of("forward", *DIRECTIONS),
        one_of(False, True),
        one_of(False, True),
        one_of("float32", "int8", "int32", ""),
        one_of("", "constant", "int8", "float32"),
        one_of(False, True),
    )
    steps, batch, depth = (int(rng.integers(1, most)) for most in (25, 4, 17))
    model = Model(opset=14, zero=int(rng.integers(-20, 21)))
    shape = (batch, steps, depth) if layer.batch_first else (steps, batch, depth)
    x = model.input(*shape, scale=float(one_of(0.005, 0.02, 0.1)))
    return model.raw(
        add_layer(model, x, (steps, batch, depth), layer, rng, scale=float(one_of(*SCALES)))
    )


GENERATOR = Generator("onnx-recurrent", draw)
