"""Gru: a layer of gated recurrent units (GRU) on real numbers, one output row for each time step.

    x       (1, T, B, I)  int8     row t: the inputs of step t, for each sequence of the batch
    hidden  (B, U)        float32  the state before step 0
    w       (3 * U, I)    int8     weights of the gates: update, reset, candidate
    r       (3 * U, U)    int8     weights of the hidden state
    b       (3 * U)       float32  (4 * U) with `reset_after`, see below
    y       (1, T, B, U)  float32  row t: hidden state after step t

    update, reset = logistic(w x + r hidden + b)
    candidate     = tanh(w x + r (reset * hidden) + b)
                    tanh(w x + b + reset * (r hidden + b'))    with `reset_after`; b' follows b
    hidden'       = (1 - update) * candidate + update * hidden

Source: ONNX operator specification, GRU; `opkit/real_recurrence.py` defines the arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from penstock.ir.foreign import Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Site
from penstock.ir.tensor import Array
from penstock.opkit import onnx_recurrent
from penstock.opkit.float_functions import Floats, logistic, tanh
from penstock.opkit.real_recurrence import RealRecurrence, hidden_products, hidden_scales
from penstock.opkit.samples import int8, real_bias, reals, sample, weights

STATES = 1


@dataclass(frozen=True, slots=True)
class Gru(RealRecurrence):
    """GRU layer with a float32 state; `reset_after`: the reset gate multiplies the product of the
    hidden state instead of the hidden state (ONNX: linear_before_reset)."""

    reset_after: bool = False

    GATES = 3
    STATES = STATES
    KERNEL = "gru_s8_f32"

    ONNX = onnx_recurrent.names(STATES, "GRU")

    @property
    def biases(self) -> int:
        return self.GATES + self.reset_after

    def bias(self, of_inputs: Array, of_hidden: Array) -> Array:
        if not self.reset_after:
            return of_inputs + of_hidden
        last = len(of_inputs) // self.GATES
        sums = of_inputs[:-last] + of_hidden[:-last]
        return np.concatenate((sums, of_inputs[-last:], of_hidden[-last:]))

    def step(self, states: tuple[Floats, ...], products: Floats, site: Site) -> tuple[Floats, ...]:
        (hidden,) = states
        r, b, type = site.constant(3), site.constant(4), site.inputs[3]
        units, scales = hidden.shape[-1], hidden_scales(site, STATES)
        gates, last = slice(None, 2 * units), slice(2 * units, None)
        bias, after = b[: self.GATES * units], b[self.GATES * units :]
        first, rest = (scales, scales) if scales.size == 1 else (scales[gates], scales[last])
        sums = products[:, gates] + hidden_products(hidden, r[gates], type, first) + bias[gates]
        update, reset = np.split(logistic(sums), 2, axis=-1)
        if self.reset_after:
            recurrent = reset * (hidden_products(hidden, r[last], type, rest) + after)
            sums = products[:, last] + bias[last] + recurrent
        else:
            recurrent = hidden_products(reset * hidden, r[last], type, rest)
            sums = products[:, last] + recurrent + bias[last]
        candidate = (np.float32(1) - update) * tanh(sums)
        return (np.add(candidate, update * hidden, dtype=np.float32),)

    def parameters(self) -> tuple[tuple[str, int], ...]:
        return (("reset_after", int(self.reset_after)),)

    def scratch_vectors(self) -> int:
        return 1 if self.reset_after else 2


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX GRU."""
    op = Gru(reset_after=node.integer("linear_before_reset") != 0)
    return onnx_recurrent.nodes(node, op, ("Sigmoid", "Tanh"))


SAMPLES = (
    sample(
        Gru(), int8(1, 5, 1, 3), reals(1, 4),
        weights(12, 3, axis=0, scale=0.004), weights(12, 4, axis=0, scale=0.004), real_bias(12),
    ),
    sample(
        Gru(reset_after=True), int8(1, 3, 2, 5, zero=9), reals(2, 3),
        weights(9, 5, scale=0.01, zero=3), weights(9, 3, axis=0, scale=0.003), real_bias(12),
    ),
    sample(
        Gru(), int8(1, 2, 1, 4), reals(1, 5),
        weights(15, 4, scale=0.01), weights(15, 5, scale=0.01, zero=-9), real_bias(15),
    ),
)  # fmt: skip
