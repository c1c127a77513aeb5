"""sdp_functions: constants with which SDP computes functions of one int8 element, such as clamps,
and sums and products with constants.

A function is a table of its 256 results, one for each channel or one for all.  The constants are
those of a pass (`sdp_constants`) whose accumulators are the elements.  They are proved by computing
all 256 results of every channel.

TFLite rounds a product twice, which moves its results by up to 2**-7.  No straight line may then
round to all of them.  The rounding of unit X1 moves results in a similar way, so pairs of factors
are tried whose products are nearly equal.  A function without such a pair takes two passes, one for
the results above the zero point and one for those below.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from penstock_nvdla.sdp_constants import (
    HIGHEST,
    LOWEST,
    MOST_FACTOR,
    Booleans,
    Int64s,
    Pass,
    Passes,
    PassSettings,
    Reals,
    bits_above,
    operand,
    shifted,
)

ELEMENTS = np.arange(LOWEST, HIGHEST + 1, dtype=np.int64)
FIRST_SHIFTS = (0, 9, 8, 10, 7, 11, 6)  # The right shifts of unit X1 that are tried.
LEAST_FACTOR = 1 << 14  # The least factor of unit X2.
SECOND_FACTORS = np.arange(LEAST_FACTOR, MOST_FACTOR, 16, dtype=np.int64)
MOST_GAP = 2.0**-5  # By how much two roundings contradict a slope at most.
MOST_PAIRS = 256  # The pairs of factors that are tried for a channel.
# After this number of pairs, the search continues only if most channels are proved.
FEW_PAIRS = 12
MOST_UNPROVED = 0.05


@dataclass(frozen=True, slots=True)
class _Form:
    """What a pass does besides scaling: `PassSettings.origin`, `sign`, `one_sided` and
    `clamps_first`."""

    origin: int
    sign: int = 1
    one_sided: bool = False
    clamps_first: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _Lines:
    """The straight lines whose rounded values are nearest to the results of each channel.

    tables: the results, of shape (channels, 256).
    least, most: between which values a line must round to a result; infinite where SDP saturates.
    slopes: the growth of the result per element.
    gaps: by how much two results contradict a slope at most; negative if none do.
    addends: what unit X1 adds to elements.
    rests: the result where unit X1 computes 0."""

    tables: Int64s
    form: _Form
    least: Reals
    most: Reals
    slopes: Reals
    gaps: Reals
    addends: Int64s
    rests: Reals

    @staticmethod
    def of(tables: Int64s, zero: int, form: _Form) -> _Lines:
        """The lines for some tables; `zero` is the zero point of the elements."""
        results = tables - form.origin
        clamps = (results == 0) & form.one_sided
        least = np.where((tables == LOWEST) | (clamps & (form.sign > 0)), -np.inf, results - 0.5)
        most = np.where((tables == HIGHEST) | (clamps & (form.sign < 0)), np.inf, results + 0.5)
        lowest = (results == results.min()) & form.clamps_first
        lower, upper = np.where(lowest, -np.inf, least), most
        slopes, gaps = _slopes(lower, upper)
        steepness = slopes[:, None] * ELEMENTS
        heights = _middle((lower - steepness).max(axis=1), (upper - steepness).min(axis=1))
        start = results.min() if form.clamps_first else 0
        rests = heights + slopes * zero - start
        crossing = np.divide(heights - start, slopes, out=np.zeros_like(slopes), where=slopes != 0)
        addends = np.where(np.abs(rests) <= 1, -zero, operand(crossing))
        rests = heights - slopes * addends
        return _Lines(tables, form, least, most, slopes, gaps, addends, rests)

    @property
    def are_straight(self) -> bool:
        """Whether the results of all channels deviate from lines by no more than roundings."""
        return bool((self.gaps < MOST_GAP).all())


def find_function(tables: Int64s, zero: int, out_zero: int) -> Passes | None:
    """Return one or two passes that compute functions of int8 elements; None if none are found.

    tables: the results for -128 to 127, of shape (channels, 256).
    zero, out_zero: the zero points of the elements and of the results."""
    return _found(tables.tobytes(), zero, out_zero)


@lru_cache(maxsize=512)
def _found(content: bytes, zero: int, out_zero: int) -> Passes | None:
    every = np.frombuffer(content, np.int64).reshape(-1, len(ELEMENTS))
    tables, channels = np.unique(every, axis=0, return_inverse=True)
    every = (_Lines.of(tables, zero, form) for form in _single_forms(tables, out_zero))
    lines = next((one for one in every if one.are_straight), None)
    found = None if lines is None else _pass(lines, channels)
    if found is not None:
        return Passes((found,))
    above = _Lines.of(np.maximum(tables, out_zero), zero, _Form(out_zero, 1, True))
    below = _Lines.of(np.minimum(tables, out_zero), zero, _Form(out_zero, -1, True))
    first, second = _pass(above, channels), _pass(below, channels)
    return None if first is None or second is None else Passes((first, second))


def _single_forms(tables: Int64s, out_zero: int) -> Iterator[_Form]:
    least, most = int(tables.min()), int(tables.max())
    yield _Form(out_zero)
    if least > LOWEST:
        yield _Form(least, 1, True)
    if most < HIGHEST:
        yield _Form(most, -1, True)
    if least > LOWEST and most < HIGHEST:
        yield _Form(most, -1, True, True)


def _pass(lines: _Lines, channels: Int64s) -> Pass | None:
    """A pass that is proved for all tables; None if there is none.  channels: the table of each
    channel."""
    form = lines.form
    if not lines.are_straight:
        return None
    pairs, right = _pairs(lines.slopes)
    for right1 in FIRST_SHIFTS:
        if right1 > right:
            continue
        rest = float(np.abs(lines.rests).max() + 1) * 2.0 ** (right - right1) / LEAST_FACTOR
        forms = form.origin, form.sign, form.one_sided, form.clamps_first
        settings = PassSettings(0, right1, bits_above(rest), right - right1, *forms)
        operands, proved = _operands(lines, settings, pairs)
        if proved.all():
            return Pass(settings, operands[channels.ravel()])
    return None


def _pairs(slopes: Reals) -> tuple[Int64s, int]:
    """(pairs of factors for each channel, of shape (channels, pairs, 2), the sum of the right
    shifts)."""
    steepest = max(float(np.abs(slopes).max()), 1 / MOST_FACTOR)
    right = int(np.floor(np.log2(MOST_FACTOR * LEAST_FACTOR / steepest)))
    goals = slopes[:, None] * 2.0**right
    first = np.rint(goals / SECOND_FACTORS)
    order = np.argsort(np.abs(first * SECOND_FACTORS - goals), axis=1, kind="stable")
    order = order[:, :MOST_PAIRS]
    plain = np.rint(goals / LEAST_FACTOR) + np.array([0, 1, -1])
    found = np.concatenate([plain, np.take_along_axis(first, order, axis=1)], axis=1)
    second = np.concatenate([np.full(plain.shape, LEAST_FACTOR), SECOND_FACTORS[order]], axis=1)
    return np.stack([operand(found), second], axis=2), right


def _operands(lines: _Lines, settings: PassSettings, pairs: Int64s) -> tuple[Int64s, Booleans]:
    """(the operands of each channel, for which channels they are proved)."""
    tables = lines.tables
    operands = np.zeros((len(tables), 4), np.int64)
    left = np.arange(len(tables))
    for k in range(pairs.shape[1]):
        if not len(left) or (k == FEW_PAIRS and len(left) > MOST_UNPROVED * len(tables)):
            break
        factor1, factor2 = pairs[left, k].T
        addend1 = lines.addends[left]
        x = shifted((ELEMENTS + addend1[:, None]) * factor1[:, None], settings.right1)
        x = np.maximum(x, 0) if settings.clamps_first else x
        unit = (2.0**settings.right2 / factor2)[:, None]
        least, most = (bound[left] * unit - x for bound in (lines.least, lines.most))
        addend2 = operand(_middle(least.max(axis=1), most.min(axis=1)) / 2.0**settings.left2)
        found = np.stack([addend1, factor1, addend2, settings.sign * factor2], axis=1)
        holds = (Pass(settings, found).elements(ELEMENTS[None, :]) == tables[left]).all(axis=1)
        operands[left[holds]] = found[holds]
        left = left[~holds]
    return operands, ~np.isin(np.arange(len(tables)), left)


def _slopes(lower: Reals, upper: Reals) -> tuple[Reals, Reals]:
    """(the slope of a line between two bounds, of shape (channels, 256), or the nearest to it; by
    how much two bounds contradict it)."""
    least, most = np.full(len(lower), -np.inf), np.full(len(lower), np.inf)
    for d in range(1, len(ELEMENTS)):
        least = np.maximum(least, (lower[:, d:] - upper[:, :-d]).max(axis=1) / d)
        most = np.minimum(most, (upper[:, d:] - lower[:, :-d]).min(axis=1) / d)
    # Functions with a single step have any slope in one direction.  They get that of the others.
    steps = np.where(np.isfinite(least), least, np.where(np.isfinite(most), most, 0))
    finite = np.isfinite(least) & np.isfinite(most)
    middle = np.add(least, most, out=np.zeros_like(least), where=finite) / 2
    usual = float(np.abs(middle).max()) or 1.0
    direction = np.isfinite(least).astype(int) - np.isfinite(most)
    return np.where(finite, middle, steps + usual * direction), least - most


def _middle(least: Reals, most: Reals) -> Reals:
    """The middle of two bounds; if one is infinite, the permitted number nearest to 0."""
    with np.errstate(invalid="ignore"):
        middle = (least + most) / 2
    return np.where(np.isfinite(middle), middle, np.clip(0, least, most))
