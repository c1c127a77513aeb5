"""RealLstm: a layer of long short-term memory (LSTM) on real numbers, one row for each time step.

    x       (1, T, B, I)      int8     row t: the inputs of step t, for each sequence of the batch
    cell    (B, U)            float32  the states before step 0
    hidden  (B, U)            float32
    w       (4 * U, I)        int8     weights of the gates: input, output, forget, candidate
    r       (4 * U, U)        int8     weights of the hidden state
    b       (4 * U)           float32
    y       (1, T, B, 2 * U)  float32  row t: cell state, then hidden state after step t

    gate    = activation(w x + r hidden + b)     logistic, of the candidate tanh
    cell'   = forget * cell + input * candidate
    hidden' = output * tanh(cell')

Source: ONNX operator specification, LSTM; `opkit/real_recurrence.py` defines the arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from penstock.ir.foreign import Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Site
from penstock.opkit import onnx_recurrent
from penstock.opkit.float_functions import Floats, logistic, tanh
from penstock.opkit.real_recurrence import RealRecurrence, hidden_products, hidden_scales
from penstock.opkit.samples import int8, real_bias, reals, sample, weights

STATES = 2
PEEPHOLES = 7
"""Position of an input."""


@dataclass(frozen=True, slots=True)
class RealLstm(RealRecurrence):
    """LSTM layer with float32 states, between quantised inputs and outputs."""

    GATES = 4
    STATES = STATES
    KERNEL = "lstm_s8_f32"

    ONNX = onnx_recurrent.names(STATES, "LSTM")

    def step(self, states: tuple[Floats, ...], products: Floats, site: Site) -> tuple[Floats, ...]:
        cell, hidden = states
        r, b = site.constant(4), site.constant(5)
        scales = hidden_scales(site, STATES)
        sums = products + hidden_products(hidden, r, site.inputs[4], scales) + b
        into, shown, kept, candidate = np.split(sums, self.GATES, axis=-1)
        added = logistic(into) * tanh(candidate)
        after = np.add(logistic(kept) * cell, added, dtype=np.float32)
        return after, logistic(shown) * tanh(after)


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX LSTM."""
    if node.optional(PEEPHOLES) is not None:
        raise node.unsupported(
            f'input {PEEPHOLES} "{node.input(PEEPHOLES).name}", peephole connections, is given, '
            "must be absent"
        )
    if node.integer("input_forget"):
        raise node.unsupported("attribute input_forget is 1, must be 0")
    return onnx_recurrent.nodes(node, RealLstm(), ("Sigmoid", "Tanh", "Tanh"))


SAMPLES = (
    sample(
        RealLstm(), int8(1, 5, 1, 3), reals(1, 4), reals(1, 4),
        weights(16, 3, axis=0, scale=0.004), weights(16, 4, axis=0, scale=0.004), real_bias(16),
    ),
    sample(
        RealLstm(), int8(1, 3, 2, 5, zero=9), reals(2, 3), reals(2, 3),
        weights(12, 5, scale=0.01, zero=-7), weights(12, 3, scale=0.01, zero=5), real_bias(12),
    ),
)  # fmt: skip
