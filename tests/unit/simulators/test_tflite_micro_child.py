"""Models that the process of the reference runtime makes."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.simulators.tflite_micro_child import SCHEMA, without_operators
from tools.tflite_writer import OperatorSpec, TensorSpec, write_tflite


def test_an_output_named_twice_becomes_one_input() -> None:
    """A removed operator whose file names its output twice; one input was missing."""
    schema = pytest.importorskip(SCHEMA, reason="the extra 'reference' is not installed")
    x, y = (TensorSpec(name, (1, 4), "float32") for name in "xy")
    raw = write_tflite([x, y], [OperatorSpec("TANH", (0,), (1, 1))], [0], [1])
    made = schema.ModelT.InitFromObj(schema.Model.GetRootAs(without_operators(raw, [0], None), 0))
    np.testing.assert_array_equal(made.subgraphs[0].inputs, [0, 1])
