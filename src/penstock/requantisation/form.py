"""The reference's requantisation of a layer, and forms of it with few 32-bit instructions.

An accumulator of channel c is in [lower[c], upper[c]). The reference computes

    y = clamp(zero + multiply(accumulator, multiplier[c], shift[c], addend[c]), least, most)

which is non-decreasing in the accumulator unless the multiplier is negative, so `most - least`
thresholds per channel determine it.  A form is evaluated exactly as on a core:

    t = (accumulator << fraction_bits) + offset[c]
    t = t - correction[c]          class C only, where t < 0
    y = saturate8((base[c] + (t * factor[c] >> 32)) >> shift), then clamped

The fraction bits below the accumulator provide precision for rounding. The zero point is part of
`offset` or, in class C, where the sign of t must be that of the accumulator, of `base`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from penstock.choices import Rounding
from penstock.fixedpoint import INT32_MAX, Int64s, multiply, wrap_int32
from penstock.frozen import frozen

Booleans = NDArray[np.bool_]
NEAR = 2  # Distance in accumulators from that which the real multiplier scales to a level.


@frozen(eq=False)
class Channels:
    """Arrays of shape (channels,): real multipliers as (multiplier, shift), and the bounds of the
    accumulators; furthermore zero point and clamp of the output, and the rounding of products.

    addend: added to products; None if there are none to add."""

    multiplier: Int64s
    shift: Int64s
    lower: Int64s
    upper: Int64s
    zero: int
    least: int
    most: int
    rounding: Rounding = Rounding.DOUBLE
    addend: Int64s | None = None

    def __eq__(self, other: object) -> bool:
        """Whether the other object has the same numbers, so that certificates can be cached."""
        return isinstance(other, Channels) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[bytes | int | Rounding, ...]:
        arrays = (self.multiplier, self.shift, self.lower, self.upper, self.addends)
        bounds = (self.zero, self.least, self.most, self.rounding)
        return *(np.asarray(array, np.int64).tobytes() for array in arrays), *bounds

    @property
    def addends(self) -> Int64s:
        """The addend of each channel."""
        return np.zeros(len(self.shift), np.int64) if self.addend is None else self.addend

    def outputs(self, accumulators: Int64s) -> Int64s:
        """Return the reference's outputs for accumulators of shape (channels, n)."""
        constants = (self.multiplier, self.shift, self.addends)
        multiplier, shift, addend = (array[:, None] for array in constants)
        scaled = multiply(accumulators, multiplier, shift, self.rounding, addend)
        return np.clip(scaled + self.zero, self.least, self.most)

    def only(self, chosen: Int64s) -> Channels:
        """Return a subset of the channels."""
        arrays = (self.multiplier, self.shift, self.lower, self.upper)
        multiplier, shift, lower, upper = (array[chosen] for array in arrays)
        addend = None if self.addend is None else self.addend[chosen]
        found = replace(self, multiplier=multiplier, shift=shift, lower=lower, upper=upper)
        return replace(found, addend=addend)

    @property
    def real(self) -> NDArray[np.float64]:
        """The multipliers as real numbers."""
        return self.multiplier * 2.0 ** (self.shift - 31.0)

    @property
    def monotone(self) -> Booleans:
        """Channels whose accumulators do not overflow int32 in the reference's left shift; with
        addends, whose products are not shifted, those whose multipliers are not negative."""
        if self.addend is not None:
            return self.multiplier >= 0
        largest = np.maximum(np.abs(self.lower), np.abs(self.upper))
        return largest <= INT32_MAX >> np.maximum(self.shift, 0)

    @property
    def levels(self) -> Int64s:
        """The outputs above `least`; each has a threshold."""
        return np.arange(self.least + 1, self.most + 1, dtype=np.int64)

    def thresholds(self) -> Int64s:
        """Return the least accumulator whose output reaches each level, or `upper` if none does.

        The shape is (channels, levels). The thresholds are found by bisection, which first tries
        accumulators close to those that the real multipliers scale to the levels.
        """
        lower, upper = self.lower[:, None], self.upper[:, None]
        real = np.maximum(self.real, np.finfo(np.float64).tiny)[:, None]
        with np.errstate(over="ignore"):
            nearest = np.clip((self.levels - self.zero - 0.5) / real, lower, upper).astype(np.int64)
        guesses = [nearest - NEAR, nearest + NEAR]
        low, high = (np.broadcast_to(end, nearest.shape) for end in (lower, upper))
        while (low < high).any():
            middle = (low + high) >> 1
            if guesses:
                middle = np.clip(guesses.pop(), low, np.maximum(high - 1, low))
            reached = (self.outputs(middle) >= self.levels) | (low == high)
            high = np.where(reached, middle, high)
            low = np.where(reached, low, middle + 1)
        return low


def reachable(weights: Int64s, bias: Int64s, lower: int, upper: int) -> tuple[Int64s, Int64s]:
    """Return the exact bounds [lower, upper) of bias + sum of weights times inputs in [lower,
    upper).

    `weights` has shape (channels, taps). The bounds are attained, because inputs are independent.

    >>> reachable(np.array([[2, -1]]), np.array([10]), -3, 4)
    (array([1]), array([20]))
    """
    up, down = np.maximum(weights, 0).sum(axis=1), np.minimum(weights, 0).sum(axis=1)
    most = upper - 1
    return bias + up * lower + down * most, bias + up * most + down * lower + 1


class Class(Enum):
    """Requantisation classes: A one high multiply; B high multiply and shift; C with a correction
    of negative values; D the 64-bit arithmetic of the reference."""

    A = "A"
    B = "B"
    C = "C"
    D = "D"


@frozen(eq=False)
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

    Both functions are non-decreasing if no register wraps, so they are equal if the form reaches
    each level at its threshold, and not before.
    """
    lower, upper = channels.lower[:, None], channels.upper[:, None]
    reached, before = (
        form.outputs(np.clip(points, lower, upper - 1), channels.least, channels.most)
        >= channels.levels
        for points in (thresholds, thresholds - 1)
    )
    agree = (reached | (thresholds == upper)) & (~before | (thresholds == lower))
    return channels.monotone & _monotone(form, channels) & agree.all(axis=1)


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


@frozen
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


@frozen(eq=False)
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
