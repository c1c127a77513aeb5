"""Random LSTM and GRU layers of ONNX against real arithmetic.

    python -m benchmarks.random_recurrent [--count 200] [--seed 0] [--first 0]
                                          [--last-rung host]

Each layer is compared with the reference evaluator of the package `onnx`, as by `penstock verify
--reference onnx`; then the machine and every point of the frontier with the reference, and the
generated C under sanitizers unless `--last-rung machine` is given.  Exits with 1 if an element of
the layer is off by more than one step, if the machine or the C code differs, or if a layer is
refused.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.entry import entry
from penstock import api
from penstock.errors import PenstockError
from tools.onnx_recurrent import DIRECTIONS, RecurrentLayer, add_layer
from tools.onnx_writer import Model

SCALES = (1 / 256, 1 / 128, 1 / 127, 1 / 100, 1 / 40)
"""Of the hidden states, which are in [-1, 1]."""


def main(arguments: Sequence[str]) -> int:
    """Prints one line for each layer with a finding, and the totals."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.random_recurrent", description=__doc__
    )
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, metavar="NUMBER")
    parser.add_argument("--last-rung", choices=("machine", "host"), default="host")
    wanted = parser.parse_args(arguments)
    findings, elements, near = 0, 0, 0
    for number in range(wanted.first, wanted.first + wanted.count):
        try:
            compared, off, finding = judged(wanted.seed, number, wanted.last_rung)
        except PenstockError as error:
            compared, off, finding = 0, 0, str(error)
        elements, near = elements + compared, near + off
        if finding:
            findings += 1
            print(f"layer {number}: {finding}", flush=True)
    print(f"{wanted.count} layers, {elements:,} elements compared with real arithmetic, of which")
    print(f"{near} are off by one step; {findings} findings")
    return int(findings > 0)


def judged(seed: int, number: int, last_rung: str = "host") -> tuple[int, int, str]:
    """Elements compared with real arithmetic, how many are off by one step, and what is wrong."""
    with tempfile.TemporaryDirectory(prefix="penstock-recurrent-") as folder:
        path = Path(folder) / "layer.onnx"
        path.write_bytes(draw_layer(seed, number))
        verified = api.verify(path, "host", reference="onnx", every_point=True, last_rung=last_rung)
    first, *_ = verified.rungs
    near = first.measured.elements if first.measured else 0
    wrong = [f"{r.step}: {r.compared.first}" for r in verified.rungs if r.compared.first]
    return first.compared.elements, near, "; ".join(wrong)


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


if __name__ == "__main__":
    entry(main)
