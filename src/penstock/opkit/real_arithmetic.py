"""Tables of functions of one variable in real arithmetic, as ONNX defines quantised networks."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from penstock.ir.onnx_node import OnnxNode
from penstock.ir.tensor import Array, Quantisation, TensorType
from penstock.opkit.checks import require
from penstock.opkit.lookup import ELEMENTS, LARGEST_STEPS, saturated

UNIT_INTERVAL = Quantisation((1 / 256,), (-128,))
"""int8 quantisation of real numbers in [0, 1)."""
SIGNED_UNIT_INTERVAL = Quantisation((1 / 128,), (0,))
"""int8 quantisation of real numbers in [-1, 1)."""


def real_table(function: Callable[[float], float], x: TensorType, y: TensorType) -> Array:
    """Table of y = zero_y + f(scale_x * (x - zero_x)) / scale_y, rounded half to even.

    Product, result of f and quotient are rounded to single precision, as ONNX computes them.
    Returns int8 elements of shape (256,) for the inputs -128 .. 127.  Inputs at which the function
    is undefined yield -128, as in onnxruntime on x86-64; a result that overflows, or a pole,
    saturates to 127.

    Source: ONNX operator specification, DequantizeLinear and QuantizeLinear, which do not define
    the element of NaN.
    """
    inputs = (ELEMENTS - x.zero_point).astype(np.float32) * np.float32(x.scale)
    with np.errstate(over="ignore"):
        reals = np.array([_evaluated(function, float(r)) for r in inputs]).astype(np.float32)
        quotients = reals / np.float32(y.scale)
    steps = np.clip(np.rint(quotients), -LARGEST_STEPS, LARGEST_STEPS)
    return saturated(steps.astype(np.int64) + y.zero_point)


def _evaluated(function: Callable[[float], float], x: float) -> float:
    """f(x); minus infinity if it is undefined, infinity if it overflows."""
    try:
        found = function(x)
    except ValueError:
        return -math.inf
    except (OverflowError, ZeroDivisionError):
        return math.inf
    return -math.inf if math.isnan(found) else found


def real_sigmoid(x: float) -> float:
    """1 / (1 + exp(-x)), without overflow."""
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def finite_parameter(node: OnnxNode, name: str, default: float) -> float:
    """A real attribute of an ONNX node.  Raises ModelError unless it is finite."""
    found = node.real(name, default)
    require(math.isfinite(found), f"{name} is {found}, must be a finite number")
    return found
