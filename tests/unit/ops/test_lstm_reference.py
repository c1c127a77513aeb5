"""LSTM layers against TensorFlow Lite Micro: outputs and both states, over sequences of runs."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.frontends.open import parse
from penstock.ir.tensor import Array
from penstock.simulators.graph import run_sequences
from penstock.simulators.tflite_micro_child import fresh_interpreter
from tools.lstm_network import LayerSpec, LstmNetwork, draw_lstm

pytest.importorskip("tflite_micro", reason="the extra 'reference' is not installed")

NETWORKS, RUNS = 40, 3
ARENA_BYTES = 2**22


def compare(raw: bytes, seed: int, runs: int) -> None:
    """Compares outputs and new states of each run of a sequence."""
    graph = parse(raw, "m.tflite")
    (x,) = graph.inputs
    rng = np.random.default_rng(seed)
    every = [{x.name: rng.integers(-128, 128, x.type.shape).astype(np.int8)} for _ in range(runs)]
    values = [*graph.outputs, *(state.after for state in graph.states)]
    interpreter = fresh_interpreter(raw, ARENA_BYTES)
    for mine, inputs in zip(run_sequences(graph, every, runs), every, strict=True):
        interpreter.set_input(inputs[x.name], 0)
        interpreter.invoke()
        for value in values:
            expected: Array = interpreter.GetTensor(value.origin, 0)["tensor_data"]
            np.testing.assert_array_equal(mine[value.name], expected, value.name)


@pytest.mark.parametrize("number", range(NETWORKS))
def test_outputs_and_states_of_sequences_equal_the_reference(number: int) -> None:
    compare(draw_lstm(9, number), number, RUNS)


@pytest.mark.parametrize("seed", range(4))
def test_products_of_scales_have_double_precision(seed: int) -> None:
    """In single precision, a few of these elements would differ."""
    net = LstmNetwork(np.random.default_rng(seed))
    x = net.input((300, 1, 8), 0.0123, 5)
    y = net.lstm(x, LayerSpec(units=64, cell_exponent=-15, input_gain=3))
    compare(net.tflite(x, y), seed, 2)
