"""scaling: products with a scale, shifted right, rounded as the hardware rounds.

    tfl        as TFLite's MultiplyByQuantizedMultiplier: twice, where more than 31 bits are shifted
    truncate   towards zero
    natural    to the nearest, halves up

Source: TOSA specification, apply_scale_32 with double_round, which is TFLite's; the vela API names
the other two.
"""

from __future__ import annotations

from typing import Any

import numpy as np

DOUBLED = 31
"""Bits that TFLite's high multiplication shifts by itself."""
SAFE = 1 << 62
"""Products below are exact, rounded and all, in 64 bits."""


def scaled(values: Any, scale: Any, shift: Any, rounding: str) -> Any:
    """`values` * `scale` / 2 ** `shift`, of any shapes that broadcast: int64, rounded."""
    values, scale, shift = (np.asarray(x, np.int64) for x in (values, scale, shift))
    if _greatest(values) * _greatest(scale) >= SAFE:
        values, scale, shift = (x.astype(object) for x in (values, scale, shift))
    product = values * scale
    one = shift - shift + 1
    half = (one << shift) >> 1
    if rounding == "truncate":
        found = np.sign(product) * (abs(product) >> shift)
    elif rounding == "natural":
        found = (product + half) >> shift
    else:
        twice = np.where(values >= 0, 1, -1) * (one << DOUBLED - 1) * (shift > DOUBLED)
        found = (product + half + twice) >> shift
    return np.asarray(found).astype(np.int64)


def _greatest(values: Any) -> int:
    return max(abs(int(values.min())), abs(int(values.max()))) if values.size else 0
