"""Scales at the ends of their range cause no NumPy warnings."""

from __future__ import annotations

import math

from penstock.fixedpoint import float32
from penstock.ir.tensor import DType, Quantisation, TensorType
from penstock.opkit.activation import Activation


def test_a_number_beyond_single_precision_is_infinite() -> None:
    assert float32(1e39) == math.inf


def test_bounds_of_the_smallest_scale_are_those_of_the_element_type() -> None:
    out = TensorType((1,), DType.INT8, Quantisation((2.0**-40,), (-7,)))
    assert Activation.RELU6.bounds(out) == (-7, 127)
