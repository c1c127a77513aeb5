"""Search for the cheapest requantisation form of a layer that is proved equal to the reference.

Each output level has a threshold, which restricts the offset of a form to an interval as wide as
one accumulator unit. A factor is feasible if the intervals of all thresholds intersect. The
rounding constants are thus solved for, not guessed. Afterwards, `proved` checks the result
independently of the search.

With t = (accumulator << fraction_bits) + offset, minus a correction if t is negative, t * factor >=
goal[level] - (base << 32) must hold from the threshold of the level on, and not before. A bound on
the offset is ceil((goal - (base << 32)) / factor) minus an integer. It is non-decreasing in goal /
factor minus this integer, for every base. Therefore the level with the strictest bound is the same
for every base, and is determined once per factor.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product

import numpy as np

from penstock.compiled import compiled
from penstock.fixedpoint import Int64s
from penstock.frozen import frozen
from penstock.requantisation.form import Booleans, Channels, Class, Form, proved

MOST_SHIFT = 22  # Largest shift; with larger ones, the bounds on offsets overflow int64.
# Number of factors tried on either side of the nearest one. Each step moves the farthest threshold
# by `TILT` units of the fraction.
NEIGHBOURS = 32
# Distances of the factors that are tried from the nearest one, in steps.
DISTANCES = np.array([0, *(sign * n for n in range(1, NEIGHBOURS + 1) for sign in (1, -1))])
TILT = 4
# Numbers of fraction bits tried for a channel with a form of its own, in order.
FRACTIONS = (8, 7, 9, 6, 10, 5)
# Number of bases that are tried. Each moves the thresholds of a channel by another fraction of a
# unit.
BASES = 256


@frozen(eq=False)
class Certificate:
    """The class of each channel, and the form of all channels except those `outside` it."""

    classes: tuple[Class, ...]
    form: Form
    outside: Booleans


@lru_cache(maxsize=1024)
def certify(channels: Channels, fraction_bits: int, neighbours: int = 1) -> Certificate:
    """Return the classes and the form of a layer's channels, of which `neighbours` adjacent ones
    share a base.

    A layer runs in one class: B if all channels have such a form (A is B with shift 0), or else B
    or C, whichever serves more channels. The remaining channels are outside.
    """
    shifts = _shifts(channels, fraction_bits)
    thresholds = channels.thresholds()
    layer = _Layer.of(channels, thresholds, int(shifts.min()), fraction_bits)
    plain, plain_holds = _for_all(layer, neighbours, signed=False)
    signed, signed_holds = plain, plain_holds
    if not plain_holds.all():
        signed, signed_holds = _for_all(layer, neighbours, signed=True)
    unshifted = _Layer.of(channels, thresholds, 0, fraction_bits)
    _, one_multiply = _with_bases(unshifted, np.zeros(len(thresholds), np.int64), signed=False)
    kinds = [one_multiply, plain_holds, signed_holds]
    letters = np.select(kinds, ["A", "B", "C"], "D")
    corrects = signed_holds.sum() > plain_holds.sum()
    form, holds = (signed, signed_holds) if corrects else (plain, plain_holds)
    return Certificate(tuple(Class(str(letter)) for letter in letters), form, ~holds)


@frozen(eq=False)
class ChannelCertificate:
    """The class of a channel and a form of that channel alone, or None for class D."""

    kind: Class
    form: Form | None


@lru_cache(maxsize=1024)
def certify_each(channels: Channels) -> tuple[ChannelCertificate, ...]:
    """Return the cheapest form of each channel separately; shift and fraction bits may differ."""
    thresholds = channels.thresholds()
    found = [ChannelCertificate(Class.D, None)] * len(thresholds)
    for kind, bits in product((Class.A, Class.B, Class.C), FRACTIONS):
        left = np.array([c for c, lone in enumerate(found) if lone.form is None], np.int64)
        shifts = _shifts(channels, bits)[left] * (kind is not Class.A)
        for shift in np.unique(shifts):
            some = left[shifts == shift]
            layer = _Layer.of(channels.only(some), thresholds[some], int(shift), bits)
            form, holds = _for_all(layer, 1, signed=kind is Class.C)
            for k in np.flatnonzero(holds).tolist():
                found[some[k]] = ChannelCertificate(kind, form.only(k))
    return tuple(found)


@frozen(eq=False)
class _Layer:
    """Channels, their thresholds, the parameters shared by all their forms, and factors to try."""

    channels: Channels
    thresholds: Int64s
    shift: int
    fraction_bits: int
    factors: Int64s

    @staticmethod
    def of(channels: Channels, thresholds: Int64s, shift: int, fraction_bits: int) -> _Layer:
        factors = _factors(channels, thresholds, shift, fraction_bits)
        return _Layer(channels, thresholds, shift, fraction_bits, factors)

    @property
    def ends(self) -> Int64s:
        """The bounds [lower, upper) of the accumulators, with shape (channels, 2)."""
        return np.stack([self.channels.lower, self.channels.upper], axis=1)

    def goals(self, *, signed: bool) -> Int64s:
        """The least t * factor of each output level, for base 0."""
        return (self.channels.levels << (32 + self.shift)) - (_origin(self, signed=signed) << 32)

    @property
    def two_sided(self) -> Booleans:
        """Channels with outputs on both sides of the zero point, which round in opposite
        directions. Few of them have a form without correction; nearly all of these use base 0."""
        lower, upper = self.channels.lower[:, None], self.channels.upper[:, None]
        t = np.where((self.thresholds > lower) & (self.thresholds < upper), self.thresholds, 0)
        return (t.min(axis=1, initial=0) < 0) & (t.max(axis=1, initial=0) > 0)

    def fits(self, *, signed: bool) -> Booleans:
        """The channels whose accumulators leave room for the fraction bits. If `signed`,
        their sign matters; otherwise, only the width of their range."""
        lower, upper = self.channels.lower, self.channels.upper
        far = np.maximum(np.abs(lower), np.abs(upper)) if signed else upper - lower
        return np.less(far, 1 << (32 - signed - self.fraction_bits))


def _shifts(channels: Channels, fraction_bits: int) -> Int64s:
    """Return, for each channel, the largest shift at which the factor is below 2**31."""
    bits = np.floor(np.log2(np.maximum(channels.real, 2.0**-32))).astype(np.int64) + 1
    return np.clip(31 - 32 + fraction_bits - bits, 0, MOST_SHIFT)


def _for_all(layer: _Layer, neighbours: int, *, signed: bool) -> tuple[Form, Booleans]:
    bases = np.zeros(len(layer.thresholds), np.int64)
    form, holds = _with_bases(layer, bases, signed=signed)
    if holds.all() or not layer.shift:
        return form, holds
    hopeful = layer.fits(signed=signed) & (signed | ~layer.two_sided)
    group = np.arange(len(bases)) // neighbours
    missing = np.bincount(group, hopeful & ~holds) > 0
    chosen = np.flatnonzero(hopeful & missing[group])
    if not len(chosen):
        return form, holds
    served = np.zeros((len(missing), BASES), np.int64)
    np.add.at(served, group[chosen], _served(layer, chosen, holds, signed=signed))
    return _with_bases(layer, np.argmax(served, axis=1)[group], signed=signed)


def _served(layer: _Layer, chosen: Int64s, holds: Booleans, *, signed: bool) -> Booleans:
    """Whether a base serves a channel, with shape (chosen channels, bases). `holds` marks
    the channels that base 0 serves."""
    served = served_bases(
        layer.ends[chosen],
        layer.thresholds[chosen],
        layer.goals(signed=signed),
        layer.factors[chosen],
        BASES,
        layer.fraction_bits,
        signed,
    )
    served[:, 0] = holds[chosen]
    return served


def _with_bases(layer: _Layer, bases: Int64s, *, signed: bool) -> tuple[Form, Booleans]:
    """The form with these bases, and the channels for which it is proved."""
    found = _solve(layer, bases, signed=signed)
    constants = (found.factor, found.offset, found.correction)
    bases = bases + _origin(layer, signed=signed)
    form = Form(*constants, bases, layer.shift, layer.fraction_bits)
    return form, proved(form, layer.channels, layer.thresholds)


def _origin(layer: _Layer, *, signed: bool) -> int:
    return (layer.channels.zero << layer.shift) + (1 << layer.shift >> 1) * signed


@frozen(eq=False)
class _Solution:
    """Constants per channel, and the channels that have a solution."""

    factor: Int64s
    offset: Int64s
    correction: Int64s
    found: Booleans


def _solve(layer: _Layer, bases: Int64s, *, signed: bool) -> _Solution:
    first, offset, correction = first_factors(
        layer.ends,
        layer.thresholds,
        layer.goals(signed=signed),
        layer.factors,
        bases,
        layer.fraction_bits,
        signed,
    )
    chosen = np.take_along_axis(layer.factors, np.maximum(first, 0)[:, None], axis=1)[:, 0]
    found = first >= 0
    return _Solution(np.where(found, chosen, 0), offset, correction, found)


def _factors(channels: Channels, thresholds: Int64s, shift: int, fraction_bits: int) -> Int64s:
    """The factors to try, the nearest to the real multipliers first, with shape (channels,
    tries). They are large enough for t to reach every output within 32 bits."""
    exact = channels.real * 2.0 ** (32 - fraction_bits + shift)
    ends = channels.outputs(np.stack([channels.lower, channels.upper - 1], axis=1))
    least = (np.abs(ends - channels.zero).max(axis=1) + 2) << (shift + 1)
    nearest = np.clip(np.rint(exact), least, 2.0**31 - 1).astype(np.int64)
    inside = (thresholds > channels.lower[:, None]) & (thresholds < channels.upper[:, None])
    farthest = np.where(inside, np.abs(thresholds), 1).max(axis=1, initial=1)
    step = np.maximum(TILT * nearest // (np.maximum(farthest, 1) << fraction_bits), 1)
    return np.clip(nearest[:, None] + DISTANCES * step[:, None], 1, 2**31 - 1)


WIDE = 2**40  # Greater than every offset.
_NONE = 2**62  # The bound of levels that demand nothing.
# A bound before it is rounded up: (n, m) is n - m / factor, with 0 <= m < factor.
_Bound = tuple[int, int]
_Bounds = tuple[_Bound, _Bound]  # The lower and the upper bound on an offset.


@compiled
def first_factors(
    ends: Int64s,
    thresholds: Int64s,
    goals: Int64s,
    factors: Int64s,
    bases: Int64s,
    fraction_bits: int,
    signed: bool,
) -> tuple[Int64s, Int64s, Int64s]:
    """Return, per channel, the index of the first feasible factor (-1 if there is none), its offset
    and its correction.

    `ends` has shape (channels, 2): the accumulators of a channel are in [lower, upper). `factors`
    has shape (channels, tries), `thresholds` (channels, levels), `goals` (levels,) and `bases`
    (channels,).
    """
    first = np.full(len(ends), -1, np.int64)
    offset, correction = np.zeros(len(ends), np.int64), np.zeros(len(ends), np.int64)
    one = 1 << fraction_bits
    for c in range(len(ends)):
        facts, (lower, upper) = (thresholds[c], goals), ends[c]
        turn = _turn(lower, signed)
        for k in range(factors.shape[1]):
            factor = factors[c, k]
            bounds = _strictest(*facts, factor, fraction_bits, turn, upper)
            low, high = _offsets(bounds, factor, bases[c], one)
            if signed:
                low, high = max(low, 0), min(high, one - 1)
            if low > high:
                continue
            middle = (low + high) >> 1
            if signed:
                bounds = _strictest(*facts, factor, fraction_bits, lower, min(upper, 0))
                low, high = _offsets(bounds, factor, bases[c], one)
                if low > high:
                    continue
                if lower < 0:
                    correction[c] = middle - ((low + high) >> 1)
            first[c], offset[c] = k, middle
            break
    return first, offset, correction


@compiled
def served_bases(
    ends: Int64s,
    thresholds: Int64s,
    goals: Int64s,
    factors: Int64s,
    count: int,
    fraction_bits: int,
    signed: bool,
) -> Booleans:
    """Return whether a factor is feasible, per channel and base less than `count`.

    The arguments are those of `first_factors`. The result has shape (channels, count).
    """
    served = np.zeros((len(ends), count), np.bool_)
    for c in range(len(ends)):
        lower, upper = ends[c]
        turn = _turn(lower, signed)
        for k in range(factors.shape[1]):
            factor = factors[c, k]
            above = _strictest(thresholds[c], goals, factor, fraction_bits, turn, upper)
            below = above
            if signed and not _hopeless(above):
                end = min(upper, 0)
                below = _strictest(thresholds[c], goals, factor, fraction_bits, lower, end)
            if _hopeless(above) or _hopeless(below):
                continue
            if _mark_bases(served[c], above, below, factor, 1 << fraction_bits, signed):
                break
    return served


@compiled
def _mark_bases(
    served: Booleans, above: _Bounds, below: _Bounds, factor: int, one: int, signed: bool
) -> bool:
    """Mark the bases for which a factor is feasible, and return whether all are marked."""
    # `above` and `below` are the bounds on the offset of accumulators without and with a
    # correction; they are equal unless `signed`.
    for base in range(len(served)):
        if not served[base]:
            low, high = _offsets(above, factor, base, one)
            if signed and max(low, 0) <= min(high, one - 1):
                low, high = _offsets(below, factor, base, one)
            elif signed:
                continue
            served[base] = low <= high
    return bool(served.all())


@compiled
def _turn(lower: int, signed: bool) -> int:
    return max(lower, 0) if signed else lower


@compiled
def _strictest(
    thresholds: Int64s, goals: Int64s, factor: int, fraction_bits: int, lower: int, upper: int
) -> _Bounds:
    """The strictest lower bound and the strictest upper bound on the offset, for base 0 and
    accumulators in [lower, upper). If no base satisfies both, they need not be the strictest."""
    low, low_part, high, high_part = -_NONE, 0, _NONE, 0
    for level in range(len(thresholds)):
        reached = -(-goals[level] // factor)
        part = reached * factor - goals[level]
        at = max(thresholds[level], lower)
        if at < upper:
            bound = reached - (at << fraction_bits)
            if bound > low or (bound == low and part < low_part):
                low, low_part = bound, part
        before = min(thresholds[level], upper) - 1
        if before >= lower:
            bound = reached - 1 - (before << fraction_bits)
            if bound < high or (bound == high and part > high_part):
                high, high_part = bound, part
        if _hopeless(((low, low_part), (high, high_part))):
            break
    return (low, low_part), (high, high_part)


@compiled
def _hopeless(bounds: _Bounds) -> bool:
    # A base moves both by the same real number, so that their difference after rounding changes by
    # less than one.
    (low, low_part), (high, high_part) = bounds
    return low > high + 1 or (low == high + 1 and low_part <= high_part)


@compiled
def _offsets(bounds: _Bounds, factor: int, base: int, one: int) -> tuple[int, int]:
    # The interval may be empty.  If only one end is bounded, or none, the other end is set close to
    # it: at a distance of `one` accumulator unit.
    (low, low_part), (high, high_part) = bounds
    low = max(low - (low_part + (base << 32)) // factor, -WIDE)
    high = min(high - (high_part + (base << 32)) // factor, WIDE)
    if low > high:
        return low, high
    if low == -WIDE:
        low = 0 if high == WIDE else high - one
    return low, low + one if high == WIDE else high
