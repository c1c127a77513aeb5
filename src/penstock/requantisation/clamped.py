"""Requantisation with two 32-bit products, for cores without a long multiplication.

    a = max(accumulator - origin[c], -1);  a = min(a, highest[c])
    t = a * low[c] + offset[c];  t = t + correction[c], where a < turn[c]
    y = (base + a * high[c] + (t >> bits[c])) >> 24, of which 8 bits are stored

The accumulator is clamped before scaling, to the range in which outputs differ. So few bits remain
that two products yield an exact one, a * (high * 2^bits + low). `origin` is near the least
accumulator whose output exceeds the lower end of the clamp, and `base` contains that output in its
upper byte. All smaller accumulators become -1.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from penstock.compiled import compiled
from penstock.fixedpoint import Int64s
from penstock.frozen import frozen
from penstock.requantisation.certify import DISTANCES
from penstock.requantisation.form import Booleans, Channels, Class

_NONE = 2**60  # The bound of levels that demand nothing.


@compiled
def first_offsets(
    ends: Int64s,
    thresholds: Int64s,
    origin: Int64s,
    goal_bit: Int64s,
    factors: Int64s,
    start: Int64s,
    signed: bool,
) -> tuple[Int64s, Int64s, Int64s]:
    """Return, per channel, the index of the first factor from `start` on that may be feasible (-1
    if there is none), its offset and its correction.

    With a = accumulator - origin and t = a * factor + offset, plus a correction if the accumulator
    is negative, t >= goal[level] must hold from the threshold of the level on, and not before.
    Offsets are in the middle of the feasible interval. `ends` has shape (channels, 2): the
    accumulators of a channel are in [lower, upper). `thresholds` has shape (channels, levels), and
    `factors` (channels, tries); the others have shape (channels,). The goal of a level is its
    index shifted left by `goal_bit`.

    A factor is infeasible if the bounds contradict each other. In channels whose bounds may be too
    strict, every factor may be feasible.
    """
    first = np.full(len(ends), -1, np.int64)
    offset, correction = np.zeros(len(ends), np.int64), np.zeros(len(ends), np.int64)
    for c in range(len(ends)):
        lower, upper = ends[c]
        facts = thresholds[c], origin[c], goal_bit[c]
        turn = max(lower, 0) if signed else lower
        is_strict = _may_be_too_strict(thresholds[c], origin[c], lower, upper)
        for k in range(start[c], factors.shape[1]):
            factor = factors[c, k]
            low, high = _offsets(*facts, factor, turn, upper)
            is_feasible, middle = low <= high, (low + high) >> 1
            if signed:
                low, high = _offsets(*facts, factor, lower, min(upper, 0))
                is_feasible = is_feasible and low <= high
            if is_feasible or is_strict:
                first[c], offset[c] = k, middle
                if signed and lower < 0 < upper:
                    correction[c] = ((low + high) >> 1) - middle
                break
    return first, offset, correction


@compiled
def _offsets(
    thresholds: Int64s, origin: int, goal_bit: int, factor: int, lower: int, upper: int
) -> tuple[int, int]:
    """The least and greatest feasible offset for accumulators in [lower, upper)."""
    # The interval may be empty.  If only one end is bounded, or none, the other end is set close to
    # it.
    low, high = -_NONE, _NONE
    for level in range(len(thresholds)):
        goal, threshold = level << goal_bit, thresholds[level]
        if lower <= threshold < upper:
            low = max(low, goal - (threshold - origin) * factor)
        before = min(threshold, upper) - 1
        if before >= lower:
            high = min(high, goal - 1 - (before - origin) * factor)
    if low == -_NONE:
        low = 0 if high == _NONE else high - factor
    return low, low if high == _NONE else high


@compiled
def _may_be_too_strict(thresholds: Int64s, origin: int, lower: int, upper: int) -> bool:
    for threshold in thresholds:
        if lower < threshold < upper:
            return thresholds[0] < origin - 1
    return True


OUTPUT_BIT = 24
FACTOR_BITS = 29  # Maximum bits of a factor; a larger one leaves no room for offset and correction.
_FIELDS = ("origin", "highest", "high", "low", "bits", "offset", "correction", "turn", "base")


@frozen(eq=False)
class ClampedForm:
    """Constants of a form, as arrays of shape (channels,)."""

    origin: Int64s
    highest: Int64s
    high: Int64s
    low: Int64s
    bits: Int64s
    offset: Int64s
    correction: Int64s
    turn: Int64s
    base: Int64s

    @property
    def corrects(self) -> bool:
        """Whether any channel has a correction."""
        return bool(self.correction.any())

    @property
    def factor(self) -> Int64s:
        return (self.high << self.bits) + self.low

    def only(self, chosen: Int64s) -> ClampedForm:
        """Return a subset of the channels."""
        return ClampedForm(*(getattr(self, name)[chosen] for name in _FIELDS))

    def outputs(self, accumulators: Int64s) -> Int64s:
        """Return the outputs for accumulators of shape (channels, n), before truncation to 8
        bits."""
        a = self._clamped(accumulators)
        value = self.base[:, None] + a * self.high[:, None]
        return (value + (self._fraction(a) >> self.bits[:, None])) >> OUTPUT_BIT

    def _clamped(self, accumulators: Int64s) -> Int64s:
        a = accumulators - self.origin[:, None]
        return np.minimum(np.maximum(a, -1), self.highest[:, None])

    def _fraction(self, a: Int64s) -> Int64s:
        t = a * self.low[:, None] + self.offset[:, None]
        return t + np.where(a < self.turn[:, None], self.correction[:, None], 0)

    def monotone(self, channels: Channels) -> Booleans:
        """Return the channels whose value is non-decreasing in the accumulator, also where the
        correction ends, and in which no compared or shifted register wraps."""
        holds = (self.factor >= 0) & (self.correction <= self.factor) & (self.bits >= 0)
        for constant in (
            self.low,
            self.high,
            self.highest,
            self.turn,
            self.offset,
            self.correction,
        ):
            holds &= _fits(constant)
        for accumulator in (channels.lower, channels.upper - 1):
            holds &= _fits(accumulator - self.origin)
        for a in (np.full_like(self.highest, -1), self.highest):
            product = a * self.low
            holds &= _fits(product) & _fits(product + self.offset)
            holds &= _fits(product + self.correction) & _fits(a - self.turn)
            holds &= _fits(product + self.correction + self.offset)
        return holds


def _fits(register: Int64s) -> Booleans:
    return (register >= -(2**31)) & (register < 2**31)


def proved(form: ClampedForm, channels: Channels, thresholds: Int64s) -> Booleans:
    """Return the channels in which the form equals the reference for every possible accumulator.

    Both functions are non-decreasing, so they are equal if they agree at each threshold, just
    before it, and at both ends of the range.
    """
    agree = channels.monotone & form.monotone(channels)
    ends = np.stack([channels.lower, channels.upper - 1], axis=1)
    for points in (thresholds, thresholds - 1, ends):
        inside = np.clip(points, channels.lower[:, None], channels.upper[:, None] - 1)
        agree &= (form.outputs(inside) == channels.outputs(inside)).all(axis=1)
    return agree


@frozen(eq=False)
class ClampedCertificate:
    """The class of each channel (B, C or D), and a form for all channels, or None if one needs
    class D."""

    classes: tuple[Class, ...]
    form: ClampedForm | None


def certify_clamped(channels: Channels) -> ClampedCertificate:
    """Return the form of a layer's channels, with a correction only in channels that need it."""
    thresholds = channels.thresholds()
    form = _beginning(channels, thresholds)
    plain = _solve(form, channels, thresholds, np.zeros(len(form.origin), np.bool_), signed=False)
    holds = _solve(form, channels, thresholds, plain, signed=True)
    letters = np.select([plain, holds], ["B", "C"], "D")
    classes = tuple(Class(str(letter)) for letter in letters)
    return ClampedCertificate(classes, form if holds.all() else None)


def _solve(
    form: ClampedForm, channels: Channels, thresholds: Int64s, solved: Booleans, *, signed: bool
) -> Booleans:
    holds = solved.copy()
    factors, start = _factors(form), np.zeros(len(solved), np.int64)
    ends = np.stack([channels.lower, channels.upper], axis=1)
    left = np.flatnonzero(~holds)
    while len(left):
        first, offset, correction = first_offsets(
            ends[left],
            thresholds[left],
            form.origin[left],
            OUTPUT_BIT + form.bits[left],
            factors[left],
            start[left],
            signed,
        )
        found = first >= 0
        left, first = left[found], first[found]
        some, levels = channels.only(left), thresholds[left]
        constants = factors[left, first], offset[found], correction[found]
        tried = _with_constants(form.only(left), *constants)
        proof = proved(tried, some, levels)
        for name in _FIELDS:
            getattr(form, name)[left[proof]] = getattr(tried, name)[proof]
        holds[left[proof]] = True
        start[left] = first + 1
        left = left[~proof]
    return holds


def _beginning(channels: Channels, thresholds: Int64s) -> ClampedForm:
    """Return origins, clamps and the nearest factors, without offsets."""
    # If the least output is not reached, the origin is where it would be.  If there is a single
    # output, one accumulator unit is one level.
    lower, upper, first = channels.lower, channels.upper, channels.least + 1
    levels = np.hstack([thresholds, upper[:, None]])
    # The first level that the least accumulator does not reach.
    level = np.argmax(levels > lower[:, None], axis=1)
    at = np.take_along_axis(levels, level[:, None], axis=1)[:, 0]
    constant = at == upper
    real = np.where(constant, 1.0, channels.real)
    output = channels.outputs(lower[:, None])[:, 0]
    origin = np.where(constant, lower - output + first, at - np.rint(level / real).astype(np.int64))
    last = np.minimum(levels[:, len(channels.levels) - 1], upper - 1)
    highest = np.where(constant, lower, last) - origin
    span_bits = np.ceil(np.log2(np.maximum(highest, 1) + 1)).astype(np.int64)
    whole_bits = OUTPUT_BIT + np.floor(np.log2(real)).astype(np.int64) + 1
    bits = np.clip(np.minimum(31 - span_bits, FACTOR_BITS - whole_bits), 0, 30)
    factor = np.rint(np.minimum(real * 2.0 ** (OUTPUT_BIT + bits), 2.0**40)).astype(np.int64)
    none = np.zeros_like(origin)
    base = np.full_like(origin, first << OUTPUT_BIT)
    return ClampedForm(
        origin, highest, factor, none.copy(), bits, none.copy(), none.copy(), -origin, base
    )


def _factors(form: ClampedForm) -> Int64s:
    """The factors to try, the nearest first, with shape (channels, tries)."""
    factors = form.high[:, None] + DISTANCES
    factors[:, 1:] = np.maximum(factors[:, 1:], 1)
    return factors


def _with_constants(
    form: ClampedForm, factor: Int64s, offset: Int64s, correction: Int64s
) -> ClampedForm:
    high = (factor + (1 << form.bits >> 1)) >> form.bits
    low = factor - (high << form.bits)
    return replace(form, high=high, low=low, offset=offset, correction=correction)
