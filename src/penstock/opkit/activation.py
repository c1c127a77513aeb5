"""Activation: the clamp that TFLite fuses into an operator.

Source: TFLite, `CalculateActivationRangeQuantized` (kernel_util.cc), which divides in single
precision.
"""

from __future__ import annotations

import math
from enum import Enum

import numpy as np

from penstock.fixedpoint import round_half_away
from penstock.frozen import frozen
from penstock.ir.foreign import ForeignNode
from penstock.ir.op import Params, members
from penstock.ir.tensor import Array, DType, TensorType


class Activation(Enum):
    """Fused activation; the value is its real interval (lower, upper), None if unbounded."""

    NONE = (None, None)
    RELU = (0.0, None)
    RELU_N1_TO_1 = (-1.0, 1.0)
    RELU6 = (0.0, 6.0)
    RELU_0_TO_1 = (0.0, 1.0)

    def bounds(self, out: TensorType) -> tuple[int, int]:
        """Smallest and largest element (both inclusive) of an output of type `out`."""
        lower, upper = self.value
        least, most = out.dtype.lower, out.dtype.upper - 1
        if lower is not None:
            least = max(least, _quantised(lower, out))
        if upper is not None:
            most = min(most, _quantised(upper, out))
        return least, most

    def params(self, out: TensorType) -> Params:
        """Kernel parameters `least` and `most`: these bounds."""
        least, most = self.bounds(out)
        return members(least=least, most=most)


LARGEST_REAL = float(np.finfo(np.float32).max)


@frozen
class Limits:
    """The interval to which plain numbers are clamped, both ends inclusive; NaN stays.

    By default, that of finite float32, as in TFLite."""

    least: float = -LARGEST_REAL
    most: float = LARGEST_REAL

    @staticmethod
    def of(activation: Activation) -> Limits:
        """Those of a fused activation.

        Source: TFLite, `CalculateActivationRange` (kernel_util.h)."""
        lower, upper = activation.value
        return Limits(
            -LARGEST_REAL if lower is None else lower, LARGEST_REAL if upper is None else upper
        )

    def array(self, dtype: DType) -> Array:
        """Both ends as elements of a type; those of integers that it does not hold are its own."""
        if dtype is DType.FLOAT32:
            with np.errstate(over="ignore"):
                return np.array([self.least, self.most], np.float32)
        least, most = dtype.lower, dtype.upper - 1
        ends = (min(max(end, least), most) for end in (self.least, self.most))
        return np.array([int(end) for end in ends], dtype.value)

    def applied(self, numbers: Array) -> Array:
        """The clamped numbers."""
        least, most = self.array(DType(numbers.dtype.name))
        # Comparisons as in the C kernels: NaN fails both.
        return np.where(numbers < least, least, np.where(numbers > most, most, numbers))

    @property
    def is_clamp(self) -> bool:
        """Whether finite numbers are clamped."""
        return self.least > -LARGEST_REAL or self.most < LARGEST_REAL

    def then(self, other: Limits) -> Limits:
        """The clamp to these limits followed by that to others."""
        return Limits(*(min(max(end, other.least), other.most) for end in (self.least, self.most)))


def is_positive(limits: Limits) -> bool:
    """Return whether the limits are those of ReLU: only negative numbers are clamped."""
    return limits.least == 0 and limits.most >= LARGEST_REAL


FINITE = Limits()
POSITIVE = Limits(0.0, math.inf)
UNLIMITED = Limits(-math.inf, math.inf)
"""No clamp: results may be infinite, as in ONNX."""


def _quantised(real: float, out: TensorType) -> int:
    steps = np.float32(real) / np.float32(out.scale)
    return out.zero_point + round_half_away(float(steps))


_TFLITE = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT")


def fused_activation(node: ForeignNode) -> Activation:
    """The node's fused activation.  Raises UnsupportedError if it is not a clamp."""
    name = node.choice("fused_activation_function", _TFLITE)
    if name not in Activation.__members__:
        raise node.unsupported(f"fused activation {name}")
    return Activation[name]
