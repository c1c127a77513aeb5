"""Layers of real numbers with int8 weights, against answers of TensorFlow's reference kernels that
`tools/make_dynamic_range.py` recorded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from penstock.frontends.open import parse
from penstock.simulators.graph import run_sequences

RECORDED = np.load(Path(__file__).with_name("dynamic_range.npz"))
NAMES = [name.removesuffix("/model") for name in RECORDED.files if name.endswith("/model")]
TOLERANCES = {"transposed": 2e-6, "recurrent": 1e-6}
"""Relative to the largest result: the reference rounds each product of transposed convolutions;
functions of recurrent layers differ in the last bits."""


@pytest.mark.parametrize("name", NAMES)
def test_layers_equal_the_reference(name: str) -> None:
    graph = parse(RECORDED[f"{name}/model"].tobytes(), "m.tflite")
    tolerance = TOLERANCES.get(name.split(",")[0], 0.0)
    (x,), (y,) = graph.inputs, graph.outputs
    for given, expected in zip(RECORDED[f"{name}/x"], RECORDED[f"{name}/y"], strict=True):
        (found,) = run_sequences(graph, [{x.name: given}], 1)
        limit = tolerance * np.abs(expected).max()
        np.testing.assert_allclose(found[y.name], expected, rtol=0, atol=limit)
