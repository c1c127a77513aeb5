"""Products with a scale, shifted right, with the rounding modes of the hardware.

    tfl        as TFLite's MultiplyByQuantizedMultiplier: twice if the shift exceeds 31 bits
    truncate   towards zero
    natural    to nearest, ties upwards

Source: TOSA specification, apply_scale_32 with double_round, which equals TFLite's rounding; the
other two are named by Vela's API.
"""

from __future__ import annotations

from typing import Any

import numpy as np

DOUBLED = 31
"""Bits by which TFLite's high multiplication shifts."""
SAFE = 1 << 62
"""Products below this bound are exact in 64 bits, including rounding."""


def scaled(values: Any, scale: Any, shift: Any, rounding: str) -> Any:
    """Return `values` * `scale` / 2 ** `shift`, rounded to int64. The shapes are broadcast."""
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
