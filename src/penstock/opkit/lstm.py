"""The arithmetic of a step of an LSTM: int8 inputs and hidden state, int16 cell state.

    gate     = activation(sat16(M_x * (w (x - zero_x) + b)) + M_h * r (h - zero_h)))    Q0.15
    cell'    = clip(sat16(forget * cell + input * candidate))
    hidden'  = zero_h + M * output * tanh(cell'), clamped to int8

The activation of the candidate is tanh, that of the other gates the logistic function; sums and
products are saturated to int16, those before the activation are Q3.12.

Source: TensorFlow Lite Micro, `kernels/lstm_eval.h`, `lstm_eval.cc`, `lstm_eval_common.cc`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from penstock.fixedpoint import Int64s, multiply, quantise_multiplier
from penstock.ir.op import Site, Table
from penstock.ir.tensor import TensorType
from penstock.opkit.accumulators import require_fitting_sums
from penstock.opkit.interpolated import logistic, tanh
from penstock.opkit.requantise import Multipliers, fitting_multiplier

GATES = 4
"""Input gate, forget gate, candidate ("cell gate"), output gate: the order of TFLite's inputs."""
CANDIDATE = 2
GATE_SCALE = 2.0**-12
"""Scale of the arguments of activations."""
UNIT_SCALE = 2.0**-15
"""Scale of the results of activations."""
LARGEST_PRODUCT = 2**30


@dataclass(frozen=True, slots=True)
class StepScales:
    """Constants of a step: fixed-point multipliers (multiplier, shift), zero points, cell format.

    inputs, recurrents: of the products with inputs and hidden state, one per gate.
    forgotten: of forget gate * cell; added: of input gate * candidate; shown: of output gate *
        tanh(cell).
    integer_bits: bits of the cell state before the binary point.
    clip: largest magnitude of the cell state.
    """

    inputs: Multipliers
    recurrents: Multipliers
    forgotten: tuple[int, int]
    added: tuple[int, int]
    shown: tuple[int, int]
    input_zero: int
    hidden_zero: int
    integer_bits: int
    clip: int

    def tables(self) -> tuple[tuple[str, Table], ...]:
        """Kernel tables of the multipliers: those of products with inputs, then those with the
        hidden state, then `forgotten`, `added` and `shown`."""
        pairs = [self.forgotten, self.added, self.shown]
        multipliers = [*self.inputs.multipliers, *self.recurrents.multipliers]
        shifts = [*self.inputs.shifts, *self.recurrents.shifts]
        return (
            ("multipliers", Table.of(np.array([*multipliers, *(m for m, _ in pairs)], np.int32))),
            ("shifts", Table.of(np.array([*shifts, *(s for _, s in pairs)], np.int8))),
        )


def step_scales(
    x: TensorType, hidden: TensorType, cell: TensorType, w: TensorType, r: TensorType, clip: int
) -> StepScales:
    """The constants for inputs x, both states, and weights w and r of all gates.

    Weights have one scale, or one for each of their rows: those of a gate are equal.  Products of
    scales are computed in double precision.

    Raises UnsupportedError if a product may overflow int32."""
    bits = 15 + round(math.log2(cell.scale))
    return StepScales(
        _gate_multipliers(x, w),
        _gate_multipliers(hidden, r),
        quantise_multiplier(UNIT_SCALE * cell.scale / cell.scale),
        fitting_multiplier(UNIT_SCALE * UNIT_SCALE / cell.scale, LARGEST_PRODUCT),
        fitting_multiplier(UNIT_SCALE * UNIT_SCALE / hidden.scale, LARGEST_PRODUCT),
        x.zero_point,
        hidden.zero_point,
        bits,
        clip,
    )


def _gate_multipliers(x: TensorType, w: TensorType) -> Multipliers:
    assert w.quantisation is not None
    every = w.quantisation.scales
    scales = every * GATES if len(every) == 1 else every[:: len(every) // GATES]
    return Multipliers.of([x.scale * scale / GATE_SCALE for scale in scales])


def require_fit(scales: StepScales, site: Site) -> None:
    """Raises UnsupportedError if a weighted sum may overflow int32, before or after scaling."""
    x, hidden, *_ = site.inputs
    w, r, b = map(site.constant, (3, 4, 5))
    for type, weights, bias, multipliers in (
        (x, w, b, scales.inputs),
        (hidden, r, np.zeros_like(b), scales.recurrents),
    ):
        require_fitting_sums(type, weights, bias, 0, multipliers.repeated(len(b) // GATES))


def step(
    scales: StepScales, products: Int64s, recurrents: Int64s, cell: Int64s
) -> tuple[Int64s, Int64s]:
    """Cell and hidden state after a step.

    products, recurrents: weighted sums of inputs (with bias) and of the hidden state, with shape
    (gates, batch, units); cell: the cell state before, with shape (batch, units)."""
    into, forget, candidate, out = (
        _gate(scales, gate, products[gate], recurrents[gate]) for gate in range(GATES)
    )
    kept = _saturated(multiply(forget * cell, *scales.forgotten))
    added = _saturated(multiply(into * candidate, *scales.added))
    after = np.clip(_saturated(kept + added), -scales.clip, scales.clip)
    shown = multiply(tanh(after, scales.integer_bits) * out, *scales.shown) + scales.hidden_zero
    return after, np.clip(shown, -128, 127)


def _gate(scales: StepScales, gate: int, products: Int64s, recurrents: Int64s) -> Int64s:
    a, b = (
        _saturated(multiply(sums, some.multipliers[gate], some.shifts[gate]))
        for sums, some in ((products, scales.inputs), (recurrents, scales.recurrents))
    )
    total = _saturated(a + b)
    return tanh(total, 3) if gate == CANDIDATE else logistic(total)


def _saturated(x: Int64s) -> Int64s:
    """Clamped to int16."""
    return np.clip(x, -(2**15), 2**15 - 1)
