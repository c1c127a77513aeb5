"""PlainErf: the error function of real numbers.

    x  any shape  float32
    y  as x       float32   with an error below 4e-7

Created from ONNX's Erf and Gelu on real numbers.

Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.28, in integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.ir.tensor import DType
from penstock.opkit.float_functions import Floats
from penstock.opkit.plain import Arithmetic, Plain
from penstock.opkit.samples import reals, sample

COEFFICIENTS = (46239, 296962, 163224, 9954153, 45399965, 75723579)
"""Of x^6 to x, in Q30."""
ONE = 1 << 30


def erf(x: Floats) -> Floats:
    """erf(x), as the C kernel `erf_f32` computes it."""
    size = np.where(np.abs(x) < 4, np.abs(x), np.float32(4))
    position = (size * np.float32(2**28)).astype(np.int64)
    total = np.zeros_like(position)
    for coefficient in COEFFICIENTS:
        total = ((total + coefficient) * position) >> 28
    power = (1 << 60) // (ONE + total)
    for _ in range(4):
        power = (power * power) >> 30
    found = (ONE - power).astype(np.float32) * np.float32(2**-30)
    return np.where(np.isnan(x), x, np.where(x < 0, -found, found))


@dataclass(frozen=True, slots=True)
class PlainErf(Plain):
    """The error function."""

    INPUTS: ClassVar[int] = 1
    ARITHMETIC: ClassVar[Mapping[DType, Arithmetic]] = {DType.FLOAT32: Arithmetic(erf, "erf_f32")}


SAMPLES = (
    sample(PlainErf(), reals(1, 4, 3, 5)),
    sample(PlainErf(), reals(7)),
)
