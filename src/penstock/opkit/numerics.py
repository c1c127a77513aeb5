"""Numerics: the arithmetic by which an operator computes its elements."""

from __future__ import annotations

from enum import Enum


class Numerics(Enum):
    """Definition of an operator's results, where TFLite and ONNX round differently.

    An accelerator that implements only one of them restricts its pattern:
    `is_op("sigmoid").has_attr({"numerics": "TFLITE"})`.
    """

    TFLITE = "tflite"
    """The arithmetic of TFLite's kernel: fixed point or single precision, as the operator's file
    states."""
    REAL = "real"
    """ONNX: real arithmetic, here in double precision, between DequantizeLinear and QuantizeLinear;
    rounded once, half to even (`real_arithmetic.real_table`)."""
