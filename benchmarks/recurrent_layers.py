"""Recurrent layers on real numbers, of random shapes."""

from __future__ import annotations

import numpy as np

from benchmarks.plain_drawing import EIGHTH, PlainDrawing
from penstock.ir.graph import Value
from penstock.ir.tensor import Array, DType, Quantisation
from penstock.ops.real_recurrent import Gru, RealHidden, RealLstm

SIZES = (2, 3, 5, 8, 12, 20, 32, 48)
"""Inputs and units of a layer."""
UNIT = Quantisation((2.0**-7,), (0,))


def recurrent_layers(d: PlainDrawing) -> None:
    """An LSTM and both kinds of GRU, and their hidden states."""
    for op in (RealLstm(), Gru(), Gru(reset_after=True)):
        depth, units = d.random.choice(SIZES), d.random.choice(SIZES)
        steps, batch = d.random.randint(2, 9), d.random.choice((1, 1, 2, 3))
        rng = np.random.default_rng(d.random.getrandbits(32))
        x = d.input(DType.INT8, (1, steps, batch, depth), EIGHTH)
        state = d.constant(rng.uniform(-1, 1, (batch, units)).astype(np.float32))
        bias = d.constant(rng.normal(0, 1, op.biases * units).astype(np.float32))
        weights = (_weights(d, rng, (op.GATES * units, n)) for n in (depth, units))
        y = d.apply(op, x, *(state,) * op.STATES, *weights, bias)
        d.apply(RealHidden(units), y, quantisation=UNIT)


def _weights(d: PlainDrawing, rng: np.random.Generator, shape: tuple[int, int]) -> Value:
    elements: Array = rng.integers(-127, 128, shape).astype(np.int8)
    return d.constant(elements, Quantisation((1.5 / 127 / shape[1] ** 0.5,), (0,)))
