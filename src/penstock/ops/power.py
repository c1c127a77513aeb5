"""Power: element-wise power of real numbers; inputs may be broadcast.

    a, b, y  float32   y = exp(b * log(a)); negative a have powers for integers b, and else NaN

The relative error is below 2**-22 times the larger of 1 and |b * log(a)|.

Source: ONNX operator specification, Pow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.ir.foreign import Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.operator_facts import AxisOrder, OnnxName
from penstock.ir.tensor import DType
from penstock.opkit.float_functions import Floats, exp, log
from penstock.opkit.onnx_reals import real_elementwise
from penstock.opkit.plain import Arithmetic, Plain
from penstock.opkit.samples import reals, sample


def _power(a: Floats, b: Floats) -> Floats:
    negative = (a < 0) & (np.floor(b) == b)
    size = exp(b * log(np.where(negative, -a, a)))
    half = b * np.float32(0.5)
    signed = np.where(negative & (np.floor(half) != half), -size, size)
    return np.where(b == 0, np.float32(1), signed)


@dataclass(frozen=True, slots=True)
class Power(Plain):
    """a to the power of b."""

    ONNX: ClassVar[Mapping[str, OnnxName]] = {"Pow": OnnxName(AxisOrder.ALIKE, floats=True)}
    INPUTS: ClassVar[int] = 2
    ARITHMETIC: ClassVar[Mapping[DType, Arithmetic]] = {
        DType.FLOAT32: Arithmetic(_power, "power_f32"),
    }


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX Pow."""
    return real_elementwise(node, Power())


SAMPLES = (
    sample(Power(), reals(1, 4, 3, 5), reals(1, 4, 3, 5)),
    sample(Power(), reals(2, 4, 3, 5), reals()),
)
