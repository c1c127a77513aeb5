"""Families of operators with state.  A model runs one inference, from the initial state;
`states.py` and `tests/unit/ops` run sequences."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchmarks.operators.drawing import Drawing
from benchmarks.operators.elementwise import Family
from benchmarks.operators.weighted import bias_of, random_weights
from tools.lstm_network import OPERATOR, LstmNetwork, draw_layer
from tools.tflite_writer import TensorSpec


def svdf(d: Drawing) -> None:
    """States of 8 or 16 bits; sums over time that fit 32 bits or wrap around."""
    depth, steps, units, rank = d.integer(1, 40), d.integer(1, 6), d.integer(1, 9), d.integer(1, 4)
    filters, wide = units * rank, d.chance(0.6)
    dtype, most = ("int16", 2**15 - 1) if wide else ("int8", 127)
    x = d.input((1, depth))
    feature = random_weights(d, (filters, depth), d.choose(127, 127, 20))
    w = d.tensor(TensorSpec("w", feature.shape, "int8", (d.scale(),), (0,), 0, feature))
    spread = (float(np.std(feature)) + 1.0) * depth**0.5
    reach = d.scale_of(x) * d.scale_of(w) * spread * 100 / most
    state = d.tensor(
        TensorSpec(
            "state", (1, filters * steps), dtype, (d.scale_near(reach),), (0,), is_variable=True
        )
    )
    largest = d.choose(most, most, most // 8)
    time = d.rng.integers(-largest, largest + 1, (filters, steps)).astype(dtype)
    v = d.tensor(TensorSpec("v", time.shape, dtype, (d.scale(),), (0,), 0, time))
    b = bias_of(d, state, v, units, d.choose(0, 2**5, 2**16, 2**30))
    sums = d.scale_of(state) * d.scale_of(v) * min(largest * most * 0.3 * rank**0.5, 2**30)
    y = d.output((1, units), d.scale_near(sums / 60))
    activation = d.choose("NONE", "RELU")
    operands = (x, w, v, b, state)
    d.operator("SVDF", operands, y, rank=rank, fused_activation_function=activation)


def lstm(d: Drawing) -> None:
    """An LSTM layer, of one or several sequences."""
    net = LstmNetwork(d.rng, d.tensors, d.operators)
    time_major = d.chance(0.5)
    first, second, depth = d.integer(1, 6), d.integer(1, 6), d.integer(1, 8)
    x = net.input((first, second, depth), d.scale(), d.zero_point())
    d.inputs.append(x)
    net.lstm(x, draw_layer(d.rng, time_major))


FAMILIES: Mapping[str, Family] = {"SVDF": svdf, OPERATOR: lstm}
