"""The arithmetic of a step of an LSTM: int8 inputs and hidden state, int16 cell state.

    gate     = activation(sat16(M_x * (w (x - zero_x) + b)) + M_h * r (h - zero_h)))    Q0.15
    cell'    = clip(sat16(forget * cell + input * candidate))
    hidden'  = zero_h + M * output * tanh(cell'), clamped to int8

The activation of the candidate is tanh, that of the other gates the logistic function; sums and
products are saturated to int16, those before the activation are Q3.12.

Both functions take Q3.12 numbers, or those of another power of two, are interpolated between the
entries of a table, and yield Q0.15.  As tanh(x) = 2 * logistic(2 * x) - 1, one table serves both.

Sources: TensorFlow Lite, `reference/integer_ops/logistic.h` and `tanh.h` (int16);
TensorFlow Lite Micro, `kernels/lstm_eval.h`, `lstm_eval.cc`, `lstm_eval_common.cc`.
"""

from __future__ import annotations

import math

import numpy as np

from penstock.fixedpoint import Int64s, multiply, quantise_multiplier
from penstock.frozen import frozen
from penstock.ir.op import Site, Table, Tables
from penstock.ir.tensor import Array, TensorType
from penstock.opkit.layers import require_fitting_sums
from penstock.opkit.requantise import Multipliers, fitting_multiplier

ENTRIES = 256
STEPS = 24
"""Entries of the table per unit of x."""
LARGEST = 2**15 - 1


def logistic_table() -> Array:
    """Entry i is logistic(i / 24) - 1/2 in Q0.16, int16.

    Since the logistic function is concave there, a chord lies below it.  Entries are larger by half
    of the largest distance between chord and function; the last one is 1/2.
    Source: `sigmoid_table_uint16` (`kernels/internal/common.h`), to whose entries 1/2 is added."""

    def entry(x: float) -> int:
        y = 1 / (1 + math.exp(-x))
        curvature = y * (1 - y) * (2 * y - 1)
        return math.floor((y - 0.5 + curvature / (16 * STEPS * STEPS)) * 2**16 + 0.5)

    found = [entry(i / STEPS) for i in range(ENTRIES - 1)]
    return np.array([*found, LARGEST], np.int16)


_TABLE = logistic_table().astype(np.int64)


def logistic(x: Int64s) -> Int64s:
    """1 / (1 + exp(-x)) of Q3.12 numbers."""
    # The index 24 |x| of a Q3.12 number is 3 |x| / 2**9.
    magnitude = np.abs(3 * x)
    half = 1 << 24
    y = np.where(magnitude >> 9 >= ENTRIES - 1, LARGEST << 10, _between(magnitude, 9) + half)
    return (np.where(x >= 0, y + (1 << 9), 2 * half - y + (1 << 9) - 1)) >> 10


def tanh(x: Int64s, integer_bits: int) -> Int64s:
    """tanh(x) of numbers with `integer_bits` bits before the binary point.

    `integer_bits` may be negative.  Source: `Tanh` (`micro/kernels/lstm_eval.cc`)."""
    left = integer_bits - 3
    scaled = (3 * x) << left if left >= 0 else (3 * x + (1 << (-left - 1))) >> -left
    magnitude = np.abs(scaled)
    y = np.where(magnitude >> 8 >= ENTRIES - 1, LARGEST << 8, _between(magnitude, 8))
    return (np.where(scaled >= 0, y + (1 << 7), -y + (1 << 7) - 1)) >> 8


def _between(magnitude: Int64s, bits: int) -> Int64s:
    """The table at an index with `bits` bits after the binary point, times 2**bits."""
    index = np.minimum(magnitude >> bits, ENTRIES - 2)
    step = _TABLE[index + 1] - _TABLE[index]
    return (_TABLE[index] << bits) + (magnitude & ((1 << bits) - 1)) * step


GATES = 4
"""Input gate, forget gate, candidate ("cell gate"), output gate: the order of TFLite's inputs."""
CANDIDATE = 2
GATE_SCALE = 2.0**-12
"""Scale of the arguments of activations."""
UNIT_SCALE = 2.0**-15
"""Scale of the results of activations."""
LARGEST_PRODUCT = 2**30


@frozen
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

    def tables(self) -> Tables:
        """Kernel tables of the multipliers: those of products with inputs, then those with the
        hidden state, then `forgotten`, `added` and `shown`."""
        pairs = [self.forgotten, self.added, self.shown]
        multipliers = [*self.inputs.multipliers, *self.recurrents.multipliers]
        shifts = [*self.inputs.shifts, *self.recurrents.shifts]
        return (
            ("multipliers", Table.integers([*multipliers, *(m for m, _ in pairs)])),
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
        # The reference, too, multiplies by the scale that it divides by; both operations round.
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
    return np.clip(x, -(2**15), 2**15 - 1)
