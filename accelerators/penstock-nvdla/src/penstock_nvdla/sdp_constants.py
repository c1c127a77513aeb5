"""sdp_constants: constants with which NVDLA's own post-processing reproduces TFLite's
requantisation, proved for every possible accumulator.

NVDLA's post-processor SDP has two units (X1 and X2, called BS and BN in registers), each of which
adds an operand, multiplies by another and shifts right, and a converter, which adds an offset.
Operands have 16 bits and are stored per channel; shifts belong to a layer.  A `Pass` computes

    x = round((accumulator + (addend1[c] << left1)) * factor1[c] / 2**right1)
    y = round((x + (addend2[c] << left2)) * factor2[c] / 2**right2)
    element = saturate8(origin + sign * (max(y, 0) if one_sided, else y))

or, with unit Y, which only the configuration large has, and y clamped in the same way:

    element = saturate8(origin + round(y * factor3[c] / 2**right3))

where `round` rounds ties away from zero and saturates to 32 bits.  Two 16-bit factors are about as
precise as a 28-bit one, and two addends as a bias with a fraction.

A level is a value of the output above -128; its threshold in a channel is the least accumulator
whose output is at least this value.  A pass is exact if it has the thresholds of the reference.

TFLite rounds twice.  This lowers the thresholds of levels above the zero point, and raises those
of levels below, by up to 1.  One pass can only lower all thresholds or raise all.  A layer with
outputs on both sides of the zero point therefore takes two passes, one for each side, and the
elements of both are added.  If all outputs are on one side, but one pass cannot reproduce all
levels, the layer also takes two passes: each reproduces some of the levels.

With unit Y, one pass suffices: X1 and X2 compute TFLite's first rounded product, and unit Y rounds
a second time, as TFLite does.

The search solves for the addends: each level restricts their sum to an interval that is one
accumulator wide.  `_proved` then checks the constants independently of the search: a pass and the
reference are both monotone, so they are equal if they agree on both sides of every threshold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from penstock.uma import Channels

Int64s = NDArray[np.int64]
Reals = NDArray[np.float64]
Booleans = NDArray[np.bool_]

MOST_FACTOR = 32_767  # The largest operand of a unit.
MOST_RIGHT = 48  # The largest shift to the right; the product that is shifted has 49 bits.
RANGE_BITS = 31  # The number of magnitude bits between the units.
# The number of pairs of factors that are tried for a channel, the most precise first.
CANDIDATES = 64
# The largest product of a pair of factors.
MOST_PRODUCT = 0.999 * MOST_FACTOR**2
# What is tried further: shifts of the first unit beyond that for a channel of median range, and
# largest products; near the square of the limit, there are only few pairs.
FURTHER = ((1, MOST_PRODUCT), (3, MOST_PRODUCT), (0, MOST_PRODUCT / 2))
FEW_CANDIDATES = 8
# If more than this share of the channels is unproved after the first `FEW_CANDIDATES` pairs, the
# search ends.
MOST_UNPROVED = 0.25
# The number of outputs between the thresholds of a channel with at most two outputs and its
# farthest accumulator.
STEEPNESS = 0.9
LEAST_SLOPE = 2.0**-10  # The slope up to which such channels are made steeper.
# By how many accumulators thresholds may contradict the slope of the reference so that a pair of
# factors, whose product differs from this slope, is tried.
SLACK = 0.25
MOST_DIFFERENCE = 14  # Of two shifts of TFLite: unit Y multiplies by a power of two.
LOWEST, HIGHEST = -128, 127


@dataclass(frozen=True, slots=True, eq=False)
class Averages(Channels):
    """TFLite's averages of `count` elements, which are rounded once, with ties away from zero."""

    count: int = 1

    def __eq__(self, other: object) -> bool:
        """Whether the other object has the same numbers, so that results can be cached."""
        same = isinstance(other, Averages) and self.count == other.count
        return same and Channels.__eq__(self, other)

    def __hash__(self) -> int:
        return hash((self.count, Channels.__hash__(self)))

    def outputs(self, accumulators: Int64s) -> Int64s:
        """Return the averages of elements whose sums are `accumulators`."""
        magnitudes = (2 * np.abs(accumulators) + self.count) // (2 * self.count)
        return np.clip(np.sign(accumulators) * magnitudes, self.least, self.most)


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """The requantisation that SDP must reproduce, and the bias that its accumulators lack.

    channels: TFLite's requantisation, of accumulators that include the bias.
    bias: the bias of each channel, including the correction for the zero point of the input."""

    channels: Channels
    bias: Int64s

    def __eq__(self, other: object) -> bool:
        """Whether the other object has the same numbers, so that results can be cached."""
        return isinstance(other, Sums) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[Channels, bytes]:
        return self.channels, self.bias.tobytes()


@dataclass(frozen=True, slots=True)
class PassSettings:
    """The constants of a pass that all channels share, by their names in the module's formulas.

    left1, right1: how far X1 shifts its addend left and its product right; for X2, left2, right2.
    origin, sign: the output element is origin + sign * y; y is the result of X2, `sign` 1 or -1.
    one_sided: whether negative values of y become 0, so that all elements are on one side of
        `origin`.
    clamps_first: whether negative values of x become 0, too.
    right3: how far unit Y shifts its product right."""

    left1: int
    right1: int
    left2: int
    right2: int
    origin: int
    sign: int
    one_sided: bool
    clamps_first: bool = False
    right3: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """The constants with which SDP processes the accumulators of a layer once.

    settings: the constants that all channels share.
    operands: those of each channel: addend1, factor1, addend2, factor2, of shape (channels, 4);
        with unit Y, furthermore 0 and factor3."""

    settings: PassSettings
    operands: Int64s

    def elements(self, accumulators: Int64s) -> Int64s:
        """Return the output elements for accumulators of shape (channels, n), which do not
        include the bias."""
        s = self.settings
        addend1, factor1, addend2, factor2, *third = self.operands.T[:, :, None]
        x = shifted((accumulators + (addend1 << s.left1)) * factor1, s.right1)
        x = np.maximum(x, 0) if s.clamps_first else x
        y = shifted((x + (addend2 << s.left2)) * factor2, s.right2)
        y = np.maximum(y, 0) if s.one_sided else y
        if third:
            y = shifted(y * third[1], s.right3)
        return np.clip(s.origin + s.sign * y, LOWEST, HIGHEST)


@dataclass(frozen=True, slots=True, eq=False)
class Passes:
    """The one or two passes that compute the elements of a layer.

    Two passes have the same `origin`, which each adds to its elements.  The elements of the layer
    are therefore first + second - origin."""

    passes: tuple[Pass, ...]


@dataclass(frozen=True, slots=True)
class Unproved:
    """Channels for which no proved constants were found.

    count, total: their number, and that of all channels.
    reason: why, as a phrase."""

    count: int
    total: int
    reason: str


@lru_cache(maxsize=1 << 11)  # more layers than most networks have
def find_passes(sums: Sums, *, in_y: bool = False) -> Passes | Unproved:
    """Return one or two passes of SDP that are proved to compute the same elements as TFLite.  A
    pass processes all accumulators of a layer once, with one set of constants (`Pass`).

    in_y: whether unit Y may be used.

    Returns `Unproved` if none are found.  Two are tried only if elements may be any int8 value."""
    channels = sums.channels
    forms = [(*form, False) for form in _single_passes(channels)]
    if in_y and _rounds_twice(channels):
        forms += [
            (channels.zero, 1, one_sided, True) for _, sign, one_sided, _ in forms if sign > 0
        ]
    inner = channels.thresholds()
    for origin, sign, one_sided, twice in forms:
        steps = _Steps.of(sums, inner, origin, sign, one_sided=one_sided, twice=twice)
        found, proved = _solved(steps, only_whole=True)
        if proved.all():
            return Passes((found,))
    if channels.least > LOWEST or channels.most < HIGHEST:
        bounds = f"elements are clamped to [{channels.least}, {channels.most}]"
        return Unproved(len(sums.bias), len(sums.bias), bounds)
    middle = channels.zero if channels.least < channels.zero else (channels.zero + HIGHEST) // 2
    (above, proved_above), (below, proved_below) = (
        _solved(_Steps.of(sums, inner, middle, sign, one_sided=True, twice=False))
        for sign in (1, -1)
    )
    proved = proved_above & proved_below
    if proved.all():
        return Passes((above, below))
    return Unproved(int((~proved).sum()), len(proved), "no proved constants were found")


def _single_passes(channels: Channels) -> Iterator[tuple[int, int, bool]]:
    """(origin, sign, one_sided) (`PassSettings`) of each pass that may compute a layer alone."""
    # A one-sided pass also clamps elements at `origin`: from below if the sign is 1, from above if
    # it is -1.  It is yielded only if the layer clamps there, too.
    yield channels.zero, 1, False
    if channels.least == channels.zero:
        yield channels.zero, 1, True
    if channels.least == LOWEST and channels.most < HIGHEST:
        yield channels.most, -1, True


def _rounds_twice(channels: Channels) -> bool:
    """Whether TFLite shifts all products of a layer right, and unit Y can do so, too."""
    least, most = int(channels.shift.min()), int(channels.shift.max())
    return most <= min(0, least + MOST_DIFFERENCE) and not isinstance(channels, Averages)


def _solved(steps: _Steps, *, only_whole: bool = False) -> tuple[Pass, Booleans]:
    """(the pass that is exact for most channels, for which channels it is proved exact).

    only_whole: whether a pass is of no use unless it is proved exact for all channels."""
    farthest = steps.farthest(steps.addends(steps.slopes()))
    usual = int(np.ceil(np.log2(np.median(farthest) * MOST_FACTOR))) - RANGE_BITS
    every = np.ones(len(farthest), np.bool_)
    best = _with_first_shift(steps, max(0, usual), MOST_PRODUCT, every)
    for more, most_product in FURTHER:
        if best[1].all():
            break
        first = ~best[1] if only_whole else every
        found = _with_first_shift(steps, max(0, usual) + more, most_product, first)
        best = found if found[1].sum() > best[1].sum() else best
    return best


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """The levels (output values) that a pass must reproduce, and where each begins.

    sums: the layer's accumulators, and the requantisation to reproduce.
    origin, sign, one_sided: the `PassSettings` of the pass.  A one-sided pass reproduces only the
        levels above `origin` (sign 1) or the levels up to it (sign -1).
    lower, upper: each channel's accumulators, without the bias, are in [lower, upper).
    thresholds: the least accumulator that reaches each level, of shape (channels, levels): `lower`
        if all accumulators reach it, `upper` if none does.
    heights: where X2 must begin to round to a value for each level, of shape (channels, levels):
        level - origin - 0.5 without unit Y.
    rights: how far TFLite shifts the products of each channel right, if unit Y does so; else 0.
    right3: the largest of these shifts; 0 without unit Y.
    points, expected: accumulators on both sides of each threshold and at both ends of the range,
        and the elements that the pass must compute for them."""

    sums: Sums
    origin: int
    sign: int
    one_sided: bool
    lower: Int64s
    upper: Int64s
    thresholds: Int64s
    heights: Reals
    rights: Int64s
    right3: int
    points: Int64s
    expected: Int64s

    @staticmethod
    def of(
        sums: Sums, inner: Int64s, origin: int, sign: int, *, one_sided: bool, twice: bool
    ) -> _Steps:
        # inner: the thresholds of the levels between the bounds to which elements are clamped
        channels = sums.channels
        levels = np.arange(LOWEST + 1, HIGHEST + 1)
        every = np.empty((len(sums.bias), len(levels)), np.int64)
        every[:, levels <= channels.least] = channels.lower[:, None]
        every[:, levels > channels.most] = channels.upper[:, None]
        every[:, (levels > channels.least) & (levels <= channels.most)] = inner
        if one_sided:
            own = levels > origin if sign > 0 else levels <= origin
            levels, every = levels[own], every[:, own]
        lower, upper = channels.lower - sums.bias, channels.upper - sums.bias
        thresholds = every - sums.bias[:, None]
        rights = -channels.shift if twice else np.zeros_like(channels.shift)
        # Unit Y rounds ties away from zero, so those of negative values belong to the level below.
        ties = (levels - origin - 0.5) * 2.0 ** rights[:, None]
        heights = np.where(levels > origin, np.ceil(ties), np.floor(ties) + 1) - 0.5
        ends = (lower[:, None], upper[:, None] - 1)
        points = np.concatenate([thresholds, thresholds - 1, *ends], axis=1)
        points = np.clip(points, *ends)
        expected = channels.outputs(points + sums.bias[:, None])
        if one_sided:
            least, most = (origin, HIGHEST) if sign > 0 else (LOWEST, origin)
            expected = np.clip(expected, least, most)
        arrays = (lower, upper, thresholds, heights, rights, int(rights.max()), points, expected)
        return _Steps(sums, origin, sign, one_sided, *arrays)

    def only(self, chosen: Booleans) -> _Steps:
        """The levels and thresholds of the channels in which `chosen` is True."""
        sums = Sums(self.sums.channels.only(np.flatnonzero(chosen)), self.sums.bias[chosen])
        return replace(
            self,
            sums=sums,
            lower=self.lower[chosen],
            upper=self.upper[chosen],
            thresholds=self.thresholds[chosen],
            heights=self.heights[chosen],
            rights=self.rights[chosen],
            points=self.points[chosen],
            expected=self.expected[chosen],
        )

    @property
    def reached(self) -> Booleans:
        """Whether some accumulator reaches a level, of shape (channels, levels)."""
        return self.thresholds < self.upper[:, None]

    @property
    def missed(self) -> Booleans:
        """Whether some accumulator does not reach a level, of shape (channels, levels)."""
        return self.thresholds > self.lower[:, None]

    def slopes(self) -> Reals:
        """How much the result of X2 should grow if the accumulator of a channel grows by 1."""
        # The search chooses factors with nearly this slope.  It is usually the slope of the
        # reference.  In a channel with at most two different outputs, it may be larger: at most one
        # threshold must be exact, and a larger slope permits smaller addends.
        channels = self.sums.channels
        inside = self.reached & self.missed
        edges = np.where(inside, self.thresholds, self.lower[:, None])
        edge = edges.max(axis=1, initial=-(1 << 40))
        farthest = np.maximum(edge - self.lower, self.upper - edge)
        count = inside.sum(axis=1)
        usual = channels.real.max(where=count > 1, initial=LEAST_SLOPE)
        steep = np.minimum(STEEPNESS / farthest, usual)
        found = np.where(count <= 1, np.maximum(channels.real, steep), channels.real)
        return np.ldexp(found, self.rights)

    def bounds(self, slopes: Reals) -> tuple[Reals, Reals]:
        """The least and the largest addend of each channel, real numbers, with which the thresholds
        are exact if accumulators are multiplied by `slopes` after the addition; or infinities.

        Each level restricts the addend to an interval; the bounds are those of the intersection."""
        lowest = self.heights / slopes[:, None] - self.thresholds
        least = np.where(self.reached, lowest, -np.inf).max(axis=1, initial=-np.inf)
        upper = np.where(self.missed, lowest + 1, np.inf).min(axis=1, initial=np.inf)
        return least, upper

    def addends(self, slopes: Reals) -> Reals:
        """The addend of each channel, a real number, with which the thresholds are exact."""
        # The result is the middle of the `bounds`.  If there is a single bound, the result is the
        # permitted number nearest to 0 that differs from the bound by at least 1.
        least, upper = self.bounds(slopes)
        nearest = np.where(np.isinf(least), np.minimum(upper - 1, 0), np.maximum(least + 1, 0))
        either = np.isinf(least) | np.isinf(upper)
        return np.where(either, nearest, (least + upper) / 2)

    def farthest(self, addends: Reals) -> Reals:
        """Return, for each channel, how large a magnitude unit X1 must scale without saturation."""
        # It is the maximum of |accumulator + addend| over the thresholds, plus 2.  It limits the
        # factor of unit X1.
        inside = self.reached & self.missed
        sums = np.where(inside, np.abs(self.thresholds + addends[:, None]), 0)
        return sums.max(axis=1, initial=0) + 2


def _with_first_shift(
    steps: _Steps, right1: int, most_product: float, first: Booleans
) -> tuple[Pass, Booleans]:
    """(constants of a pass of SDP, for each channel whether they are proved bit-exact).

    first: channels without whose proof that of the others is of no use."""
    slopes = steps.slopes()
    right = int(np.floor(np.log2(most_product / slopes.max())))
    right2 = min(max(0, right - right1), MOST_RIGHT)
    right = right1 + right2
    addends = steps.addends(slopes)
    most_factors = np.minimum(2.0 ** (RANGE_BITS + right1) / steps.farthest(addends), MOST_FACTOR)
    left1 = bits_above(float(np.abs(addends).max(initial=0)))
    left2 = bits_above(2.0 ** (left1 - 1 - right1) * MOST_FACTOR)
    form = (steps.origin, steps.sign, steps.one_sided)
    settings = PassSettings(left1, right1, left2, right2, *form, right3=steps.right3)
    operands = np.zeros((len(slopes), 6 if steps.right3 else 4), np.int64)
    pairs_tried = np.full(len(slopes), CANDIDATES)
    least, upper = steps.bounds(slopes)
    possible = least - upper < SLACK
    products = slopes * 2.0**right
    for group in (first, ~first):
        left = np.flatnonzero(possible & group)
        if not len(left):
            continue
        rest, pairs = steps.only(possible & group), factor_pairs(products[left], most_factors[left])
        for k in range(CANDIDATES):
            if not len(left) or (k == FEW_CANDIDATES and len(left) > MOST_UNPROVED * len(slopes)):
                break
            found = _operands(rest, settings, pairs[:, k])
            holds = _proved(Pass(settings, found), rest)
            operands[left[holds]], pairs_tried[left[holds]] = found[holds], k
            left, pairs, rest = left[~holds], pairs[~holds], rest.only(~holds)
        if len(left) or not possible[group].all():
            break
    if (possible & (pairs_tried >= FEW_CANDIDATES)).sum() > MOST_UNPROVED * len(slopes):
        return Pass(settings, operands), pairs_tried < FEW_CANDIDATES
    return Pass(settings, operands), pairs_tried < CANDIDATES


def bits_above(largest: float) -> int:
    """Return by how many bits a 16-bit operand must be shifted left to reach `largest`."""
    return max(0, int(np.ceil(np.log2(max(largest, 1.0) / MOST_FACTOR))))


def factor_pairs(products: Reals, most_factors: Reals) -> Int64s:
    """Return pairs of 16-bit factors, of shape (channels, `CANDIDATES`, 2): first the pair whose
    product is nearest to the channel's number in `products`, then the next nearest pair, and so on.

    most_factors: the largest first factor of each channel."""
    goals = zip(products.tolist(), most_factors.tolist(), strict=True)
    first = np.stack([_first_factors(max(goal, 1e-9), most) for goal, most in goals])
    second = np.clip(np.rint(products[:, None] / first), 1, MOST_FACTOR).astype(np.int64)
    return np.stack([first, second], axis=2)


@lru_cache(maxsize=1 << 12)
def _first_factors(goal: float, most_factor: float) -> Int64s:
    """The first factors of `factor_pairs` for a channel.  Both passes of a layer ask for them."""
    errors = np.full(MOST_FACTOR, np.inf)
    # With other first factors, the second one would exceed MOST_FACTOR or be 0.
    least, most = max(1, int(goal / (MOST_FACTOR + 1))), int(min(2 * goal + 1, most_factor))
    inside = np.arange(least, min(most, MOST_FACTOR) + 1)
    second = np.rint(goal / inside)
    near = np.abs(inside * second / goal - 1)
    near[(second > MOST_FACTOR) | (second < 1)] = np.inf
    errors[inside - 1] = near
    chosen = np.argpartition(errors, CANDIDATES)[:CANDIDATES]
    return chosen[np.argsort(errors[chosen], kind="stable")] + 1


def _operands(steps: _Steps, settings: PassSettings, factors: Int64s) -> Int64s:
    factor1, factor2 = factors.T
    slopes = factor1 * factor2 / 2.0 ** (settings.right1 + settings.right2)
    addends = steps.addends(slopes)
    addend1 = operand(addends / 2.0**settings.left1)
    rest = (addends - addend1 * 2.0**settings.left1) * factor1 / 2.0**settings.right1
    addend2 = operand(steps.sign * rest / 2.0**settings.left2)
    found = [addend1, steps.sign * factor1, addend2, factor2]
    if steps.right3:
        found += [np.zeros_like(addend1), 1 << steps.right3 - steps.rights]
    return np.stack(found, axis=1)


def operand(values: Reals) -> Int64s:
    """Return real numbers rounded to integers and saturated to 16 bits."""
    return np.clip(np.rint(values), -MOST_FACTOR - 1, MOST_FACTOR).astype(np.int64)


def _proved(found: Pass, steps: _Steps) -> Booleans:
    """Return, for each channel, whether a pass has the reference's element for all accumulators; if
    the pass is one-sided, the element clipped to that side of `origin`."""
    same = (found.elements(steps.points) == steps.expected).all(axis=1)
    return same & steps.sums.channels.monotone


def shifted(products: Int64s, right: int) -> Int64s:
    """Return products shifted right, rounded with ties away from zero, saturated to 32 bits."""
    half = (1 << right) >> 1
    magnitudes = (np.abs(products) + half) >> right
    return np.clip(np.sign(products) * magnitudes, -(1 << 31), (1 << 31) - 1)
