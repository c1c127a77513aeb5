"""Writes the ONNX networks of `tests/models/onnx`, with goldens from onnxruntime.

    python -m tools.make_onnx_models               # needs the package onnxruntime

Graph optimisation is disabled, so that onnxruntime computes what the file says: real arithmetic
between QuantizeLinear and DequantizeLinear.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from penstock.simulators.drawn_inputs import KINDS, draw_inputs
from penstock.simulators.goldens import Goldens, write_goldens
from penstock.simulators.tflite_micro import GoldenSet
from tools.onnx_recurrent import RecurrentLayer, add_layer
from tools.onnx_writer import Array, Model

FOLDER = Path(__file__).parents[1] / "tests" / "models" / "onnx"
STEPS, DEPTH, RUNS = 6, 5, 4
STATES = {
    "first/h_in": "first/h_out_d",
    "second/h_in": "second/h_out",
    "second/c_in": "second/c_out",
}
"""Inputs and outputs of the states of `recurrent`."""


def recurrent() -> bytes:
    """A GRU with an int8 state, an LSTM with real states, and a bidirectional GRU.

    The sequence goes on with the next run: states are inputs and outputs (`STATES`)."""
    rng = np.random.default_rng(7)
    model = Model(opset=14)
    x = model.input(STEPS, 1, DEPTH, scale=1 / 64)
    depth = DEPTH
    layers = {
        "first/": RecurrentLayer("GRU", 6, channels=True, states="int8", reset_after=True),
        "second/": RecurrentLayer("LSTM", 7, bias="int32", states="float32"),
        "third/": RecurrentLayer("GRU", 4, "bidirectional"),
    }
    for prefix, layer in layers.items():
        x = add_layer(model, x, (STEPS, 1, depth), layer, rng, prefix)
        depth = layer.units
        if layer.directions == 1:
            axes = model.constant(np.array([1], np.int64))
            x = model.node("Squeeze", x, axes, scale=None)
    return model.raw(x)


def goldens(raw: bytes, name: str) -> Goldens:
    """Sequences of `RUNS` runs, one for each kind of random inputs."""
    import onnxruntime  # pyright: ignore[reportMissingImports]

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(raw, options)
    names = [found.name for found in session.get_outputs() if found.name not in STATES.values()]
    sets = tuple(_sequence(session, tuple(_runs(number)), names) for number in range(len(KINDS)))
    runtime = f"onnxruntime {onnxruntime.__version__} CPU, graph optimisation disabled"
    numbers = tuple(range(len(KINDS)))
    return Goldens(name, runtime, numbers, tuple(KINDS), sets, None, (), stateful=True)


def _runs(number: int) -> Iterator[Array]:
    """The inputs of each run of a sequence, in [-2, 2)."""
    for run in range(RUNS):
        (drawn,) = draw_inputs([((STEPS, 1, DEPTH), np.float32, 0)], number, seed=run)
        yield (2 * drawn).astype(np.float32)


def _sequence(session: Any, runs: tuple[Array, ...], names: list[str]) -> GoldenSet:
    shapes = {found.name: found.shape for found in session.get_inputs()}
    states = {name: np.zeros(shapes[name], np.float32) for name in STATES}
    outputs: list[list[Array]] = []
    for x in runs:
        *found, first, second, third = session.run([*names, *STATES.values()], {"x": x, **states})
        states = dict(zip(STATES, (first, second, third), strict=True))
        outputs.append(found)
    together = (np.stack(arrays) for arrays in zip(*outputs, strict=True))
    return GoldenSet((np.stack(runs),), tuple(together), ())


def main() -> None:
    """Writes all models and goldens."""
    FOLDER.mkdir(exist_ok=True)
    raw = recurrent()
    (FOLDER / "recurrent.onnx").write_bytes(raw)
    write_goldens(goldens(raw, "recurrent.onnx"), FOLDER / "recurrent.npz")


if __name__ == "__main__":
    main()
