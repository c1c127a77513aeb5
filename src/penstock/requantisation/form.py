"""Form: a requantisation with few 32-bit instructions, evaluated exactly as on a core.

    t = (accumulator << fraction_bits) + offset[c]
    t = t - correction[c]          class C only, where t < 0
    y = saturate8((base[c] + (t * factor[c] >> 32)) >> shift), then clamped

The fraction bits below the accumulator provide precision for rounding. The zero point is part of
`offset` or, in class C, where the sign of t must be that of the accumulator, of `base`.
"""

from __future__ import annotations

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
    """Return the channels in which no register wraps and the correction preserves monotonicity."""
    fits = (form.factor >= 0) & (form.factor < 2**31)
    fits &= form.correction >= -(1 << form.fraction_bits)
    for accumulator in (channels.lower, channels.upper - 1):
        t = (accumulator << form.fraction_bits) + form.offset
        corrected = t - np.where(t < 0, form.correction, 0)
        high = np.clip(corrected, -(2**31), 2**31 - 1) * form.factor >> 32
        for register in (t, corrected, high + form.base):
            fits &= (register >= -(2**31)) & (register < 2**31)
    return fits
