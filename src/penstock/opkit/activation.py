"""Activation: the clamp that TFLite fuses into an operator.

Source: TFLite, `CalculateActivationRangeQuantized` (kernel_util.cc), which divides in single
precision.
"""

from __future__ import annotations

from enum import Enum

import numpy as np

from penstock.fixedpoint import round_half_away
from penstock.ir.foreign import ForeignNode
from penstock.ir.op import Params
from penstock.ir.tensor import TensorType


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
        return (("least", least), ("most", most))


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
