"""Steps of recurrent layers on float32: simple (RNN), LSTM and GRU.

    x  (1, T, B, gates * U)  float32  row t: weighted inputs of step t, with biases, gate by gate
    s  (B, U)                float32  each state before step 0; the hidden state h is the last
    r  (gates * U, U)        float32  weights of the hidden state, constant
    y  (1, T, B, n * U)      float32  row t: the n states after step t, computed from row t of x
                                      and row t - 1 of y

Products are added in the order of the units; each operation is rounded.  The weighted inputs are a
fully connected layer (`ops/real_recurrent.py`).

Source: ONNX operator specification, RNN, LSTM and GRU.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from penstock.frozen import frozen
from penstock.ir.op import Kernel, Params, Site, Table, Tables, members
from penstock.ir.tensor import Array, DType
from penstock.opkit.activation import UNLIMITED, Limits
from penstock.opkit.float_functions import Floats, logistic, tanh
from penstock.opkit.layers import QUAD, in_quads, narrowed
from penstock.opkit.recurrence import Gates, PlainRecurrence, products
from penstock.ops.dynamic_range import steps_of_rows


@frozen
class PlainRnn(PlainRecurrence):
    """hidden' = tanh(x + r hidden), or its positive part with `rectified`."""

    rectified: bool = False

    GATES = 1
    STATES = 1
    KERNEL = "rnn_f32"

    def step(self, states: Gates, weighted: Floats, site: Site) -> Gates:
        total = weighted + products(states[0], site.constant(2))
        return (np.where(total < 0, np.float32(0), total) if self.rectified else tanh(total),)

    def parameters(self) -> Params:
        return (("rectified", int(self.rectified)),)


@frozen
class PlainGru(PlainRecurrence):
    """Gates: update, reset, candidate.

    update, reset = logistic(x + r hidden)
    candidate     = tanh(x + r (reset * hidden))
                    tanh(x + reset * (r hidden + after))   with `reset_after`, constant `after`
    hidden'       = (1 - update) * candidate + update * hidden"""

    reset_after: bool = False

    GATES = 3
    STATES = 1
    KERNEL = "gru_f32"
    EXTRA_MEMBER = "after"

    @property
    def extra(self) -> int:
        return int(self.reset_after)

    def step(self, states: Gates, weighted: Floats, site: Site) -> Gates:
        (hidden,), r = states, site.constant(2)
        units = hidden.shape[1]
        first, last = r[: 2 * units], r[2 * units :]
        sums = weighted[:, : 2 * units] + products(hidden, first)
        update, reset = np.split(logistic(sums), 2, axis=-1)
        if self.reset_after:
            recurrent = reset * (products(hidden, last) + site.constant(3))
        else:
            recurrent = products(reset * hidden, last)
        candidate = (np.float32(1) - update) * tanh(weighted[:, 2 * units :] + recurrent)
        return (np.add(candidate, update * hidden, dtype=np.float32),)

    def tables(self, r: Array) -> Tables:
        units = r.shape[1]
        parts = {"recurrent": r[: 2 * units], "candidate": r[2 * units :]}
        return tuple((name, Table.of(in_quads(part[None]))) for name, part in parts.items())

    def scratch_floats(self, units: int) -> int:
        return 4 * units + 2 * QUAD


@frozen
class PlainLstm(PlainRecurrence):
    """Gates: input, output, forget, candidate.

    gate    = activation(x + r hidden + peephole * cell)   logistic, of the candidate tanh
    cell'   = forget * cell + input * candidate, clamped to `limits`
    hidden' = output * tanh(cell')

    With `peepholes`, constants (3 * U) weigh the cell state in the first three gates; in the output
    gate it is the new one.  With `scales`, of each gate, the weights are int8 steps, and so are
    hidden states, each vector by itself (TFLite's dynamic range); `symmetric`: without zero point.
    """

    peepholes: bool = False
    limits: Limits = UNLIMITED
    scales: tuple[float, ...] = ()
    symmetric: bool = False

    GATES = 4
    STATES = 2
    KERNEL = "lstm_f32"
    EXTRA_MEMBER = "peepholes"

    @property
    def extra(self) -> int:
        return 3 if self.peepholes else 0

    def step(self, states: Gates, weighted: Floats, site: Site) -> Gates:
        cell, hidden = states
        sums = weighted + self._products(hidden, site.constant(3))
        into, shown, kept, candidate = np.split(sums, self.GATES, axis=-1)
        peepholes = np.split(site.constant(4), 3) if self.peepholes else None
        if peepholes is not None:
            into, kept = into + peepholes[0] * cell, kept + peepholes[2] * cell
        added = logistic(into) * tanh(candidate)
        after = self.limits.applied(np.add(logistic(kept) * cell, added, dtype=np.float32))
        if peepholes is not None:
            shown = shown + peepholes[1] * after
        return after, logistic(shown) * tanh(after)

    def _products(self, hidden: Floats, r: Array) -> Floats:
        if not self.scales:
            return products(hidden, r)
        steps, scale = steps_of_rows(hidden, is_symmetric=self.symmetric)
        of_rows = np.repeat(np.array(self.scales, np.float32), hidden.shape[1])
        return np.multiply(products(steps, r), scale * of_rows, dtype=np.float32)

    def tables(self, r: Array) -> Tables:
        bounds = Table.of(self.limits.array(DType.FLOAT32))
        tables = (("weights", Table.of(narrowed(in_quads(r[None])))), ("bounds", bounds))
        scales = Table.reals(self.scales)
        return (*tables, ("scales", scales)) if self.scales else tables

    def kernel(self, site: Site) -> Kernel:
        found = PlainRecurrence.kernel(self, site)
        stored = narrowed(site.constant(1 + self.STATES))
        params = members(weight_bytes=stored.itemsize, symmetric=self.symmetric)
        return replace(found, params=(*found.params, *params))

    def scratch_floats(self, units: int) -> int:
        return (self.GATES + bool(self.scales)) * units
