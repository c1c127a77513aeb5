"""Form: a requantisation with few 32-bit instructions, evaluated exactly as on a core.

    t = (accumulator << fraction_bits) + offset[c]
    t = t - correction[c]          class C only, where t < 0
    y = saturate8((base[c] + (t * factor[c] >> 32)) >> shift), then clamped

The fraction bits below the accumulator provide precision for rounding. The zero point is part of
`offset` or, in class C, where the sign of t must be that of the accumulator, of `base`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

from penstock.fixedpoint import Int64s, wrap_int32
from penstock.requantisation.channels import Booleans, Channels


class Class(Enum):
    """Requantisation classes: A one high multiply; B high multiply and shift; C with a correction
    of negative values; D the 64-bit arithmetic of the reference."""

    A = "A"
    B = "B"
    C = "C"
    D = "D"


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """The constants of a form: arrays of shape (channels,), and values shared by the channels of a
    layer. Groups of neighbouring channels share a base."""

    factor: Int64s
    offset: Int64s
    correction: Int64s
    base: Int64s
    shift: int
    fraction_bits: int

    def outputs(self, accumulators: Int64s, least: int, most: int) -> Int64s:
        """Return the outputs for accumulators of shape (channels, n), with registers that wrap."""
        t = wrap_int32((accumulators << self.fraction_bits) + self.offset[:, None])
        t = wrap_int32(t - np.where(t < 0, self.correction[:, None], 0))
        scaled = wrap_int32((t * self.factor[:, None] >> 32) + self.base[:, None]) >> self.shift
        return np.clip(np.clip(scaled, -128, 127), least, most)

    def only(self, channel: int) -> Form:
        """Return the form of a single channel."""
        constants = (self.factor, self.offset, self.correction, self.base)
        factor, offset, correction, base = (array[channel : channel + 1] for array in constants)
        return Form(factor, offset, correction, base, self.shift, self.fraction_bits)

    @property
    def corrects(self) -> bool:
        """Whether the form corrects negative values."""
        return bool(self.correction.any())


def proved(form: Form, channels: Channels, thresholds: Int64s) -> Booleans:
    """Return the channels in which the form equals the reference for every possible accumulator.

    Both functions are non-decreasing if no register wraps, so they are equal if they agree at each
    threshold and just before it.
    """
    agree = channels.monotone & _monotone(form, channels)
    for points in (thresholds, thresholds - 1):
        inside = np.clip(points, channels.lower[:, None], channels.upper[:, None] - 1)
        mine = form.outputs(inside, channels.least, channels.most)
        agree &= (mine == channels.outputs(inside)).all(axis=1)
    return agree


def _monotone(form: Form, channels: Channels) -> Booleans:
    """The channels in which no register wraps and the correction preserves monotonicity."""
    fits = (form.factor >= 0) & (form.factor < 2**31)
    fits &= form.correction >= -(1 << form.fraction_bits)
    for accumulator in (channels.lower, channels.upper - 1):
        t = (accumulator << form.fraction_bits) + form.offset
        corrected = t - np.where(t < 0, form.correction, 0)
        high = np.clip(corrected, -(2**31), 2**31 - 1) * form.factor >> 32
        for register in (t, corrected, high + form.base):
            fits &= (register >= -(2**31)) & (register < 2**31)
    return fits


# Functions of two int8 values as one weighted sum and a shift.
#
#     y = saturate8((a * left + b * right + offset) >> shift), then clamped
#
# The proof enumerates all pairs: 65,536, or fewer if an input is constant. The pairs of each output
# span an interval of weighted sums, and the offset must place every interval inside the step of its
# output.


INPUTS = np.arange(-128, 128, dtype=np.int64)
Inputs = tuple[Int64s, Int64s]  # The values that each of the two inputs may have.
NEIGHBOURS = 4  # Maximum distance of the weights that are tried from the real ones.
MOST_SHIFT = 22


@dataclass(frozen=True, slots=True)
class WeightedSum:
    """The constants of the sum."""

    left: int
    right: int
    offset: int
    shift: int

    def outputs(self, inputs: Inputs, least: int, most: int) -> Int64s:
        """Return the outputs of all pairs (a, b)."""
        sums = inputs[0][:, None] * self.left + inputs[1] * self.right + self.offset
        return np.clip(np.clip(sums >> self.shift, -128, 127), least, most)

    @property
    def fits(self) -> bool:
        """Whether no partial sum overflows int32."""
        return 128 * (abs(self.left) + abs(self.right)) + abs(self.offset) < 2**31


def weighted_sum(
    inputs: Inputs, outputs: Int64s, left: float, right: float, least: int, most: int
) -> WeightedSum | None:
    """Return a sum that reproduces the outputs of all pairs, with weights close to the real ones;
    None if none was found.

    outputs: outputs[i, j] is the output of the pair (inputs[0][i], inputs[1][j]).
    least, most: the bounds of the outputs, both inclusive."""
    nearest_0 = tuple(int(abs(values).argmin()) for values in inputs)
    largest = 128 * (abs(left) + abs(right)) + 256 + abs(float(outputs[nearest_0]))
    shift = min(int(np.floor(31 - np.log2(largest))), MOST_SHIFT)
    if shift < 0:
        return None
    steps = _Steps.of(outputs, least, most)
    for a, b in _weights(left, right, shift):
        offset = steps.offset(inputs[0][:, None] * a + inputs[1] * b, shift)
        if offset is not None:
            found = WeightedSum(a, b, offset, shift)
            if found.fits and (found.outputs(inputs, least, most) == outputs).all():
                return found
    return None


def _weights(left: float, right: float, shift: int) -> Iterator[tuple[int, int]]:
    near = sorted(range(-NEIGHBOURS, NEIGHBOURS + 1), key=abs)
    every = sorted(((a, b) for a in near for b in near), key=lambda pair: max(map(abs, pair)))
    a, b = round(left * 2**shift), round(right * 2**shift)
    yield from ((a + i, b + j) for i, j in every)


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """The pairs sorted by output, the index at which each output begins, and the distinct
    outputs."""

    order: Int64s
    starts: Int64s
    found: Int64s
    least: int
    most: int

    @staticmethod
    def of(outputs: Int64s, least: int, most: int) -> _Steps:
        order = np.argsort(outputs, axis=None, kind="stable")
        found, starts = np.unique(outputs.ravel()[order], return_index=True)
        return _Steps(order, starts, found, least, most)

    def offset(self, sums: Int64s, shift: int) -> int | None:
        """An offset that places every sum inside the step of its output, or None."""
        sums = sums.ravel()[self.order]
        low = (self.found << shift) - np.minimum.reduceat(sums, self.starts)
        high = (self.found + 1 << shift) - 1 - np.maximum.reduceat(sums, self.starts)
        low, high = low[self.found > self.least], high[self.found < self.most]
        if not len(low) or not len(high):
            return None
        return int(low.max() + high.min()) >> 1 if low.max() <= high.min() else None
