"""Multiplication by a scale and rounding right shift, in the rounding modes of the hardware.

    tfl        like TFLite's MultiplyByQuantizedMultiplier; rounds twice if the shift exceeds 31
    truncate   towards zero
    natural    to nearest, ties upwards

Source: TOSA specification (apply_scale_32 with double_round, which equals TFLite's rounding) for
the first mode; the API of Arm's compiler Vela for the names of the other two.
"""

from __future__ import annotations

from typing import Any

import numpy as np

DOUBLED = 31
"""Number of bits by which TFLite's high multiplication shifts."""
SAFE = 1 << 62
"""Products below this bound can be computed and rounded in int64 without overflow."""


def scaled(values: Any, scale: Any, shift: Any, rounding: str) -> Any:
    """Return `values` * `scale` / 2 ** `shift` as int64. The shapes of the three arrays are
    broadcast.

    rounding: "tfl" (as in TFLite), "truncate" (towards zero) or "natural" (to nearest, ties
        upwards)."""
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
    """Return the greatest absolute value, or 0 if the array is empty."""
    return max(abs(int(values.min())), abs(int(values.max()))) if values.size else 0
