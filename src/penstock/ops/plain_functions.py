"""PlainFunctions: functions of one or two plain numbers, element by element; inputs are broadcast.

    Ceil, Floor, Round, Square  float32            Neg                 int32 or float32
    PlainErf                    float32            Power               float32
    FloorDiv                    int32 or float32   FloorMod            int32

Sources: TFLite, `reference/ceil.h`, `floor.h`, `round.h`, `neg.h`, `kernels/floor_div.cc`,
`kernels/floor_mod.cc`, `micro/kernels/elementwise.cc`; ONNX operator specification, Pow; for the
error function, Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.28, in integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.operator_facts import AxisOrder, OnnxName, onnx, relay
from penstock.ir.tensor import Array
from penstock.opkit.broadcast import Plain, arithmetic
from penstock.opkit.elementwise_nodes import typed_nodes
from penstock.opkit.float_functions import Floats, exp, log
from penstock.opkit.nodes import real_elementwise
from penstock.opkit.samples import integers, reals, sample


@dataclass(frozen=True, slots=True)
class Ceil(Plain):
    """Smallest integer that is not below x."""

    TFLITE = ("CEIL",)
    RELAY = relay("ceil")
    ARITHMETIC = arithmetic("ceil", float32=np.ceil)


@dataclass(frozen=True, slots=True)
class Floor(Plain):
    """Largest integer that is not above x."""

    TFLITE = ("FLOOR",)
    RELAY = relay("floor")
    ARITHMETIC = arithmetic("floor", float32=np.floor)


def _rounded(x: Array) -> Array:
    """As the reference, numbers in (-0.5, 0) yield +0."""
    floor = np.floor(x)
    remainder = x - floor
    up = (remainder > 0.5) | ((remainder == 0.5) & (np.fmod(floor, 2) != 0))
    return np.where(up, floor + np.float32(1), floor)


@dataclass(frozen=True, slots=True)
class Round(Plain):
    """Nearest integer; the even one of two."""

    TFLITE = ("ROUND",)
    RELAY = relay("round")
    ARITHMETIC = arithmetic("round", float32=_rounded)


@dataclass(frozen=True, slots=True)
class Neg(Plain):
    """Negation."""

    TFLITE = ("NEG",)
    RELAY = relay("negative")
    ARITHMETIC = arithmetic("neg", int32=np.negative, float32=np.negative)


@dataclass(frozen=True, slots=True)
class Square(Plain):
    """Square."""

    TFLITE = ("SQUARE",)
    ARITHMETIC = arithmetic("square", float32=np.square)


ERF_COEFFICIENTS = (46239, 296962, 163224, 9954153, 45399965, 75723579)
"""Of x^6 to x, in Q30."""
ONE = 1 << 30


def erf(x: Floats) -> Floats:
    """erf(x) with an error below 4e-7, as the C kernel `erf_f32` computes it."""
    size = np.where(np.abs(x) < 4, np.abs(x), np.float32(4))
    position = (size * np.float32(2**28)).astype(np.int64)
    total = np.zeros_like(position)
    for coefficient in ERF_COEFFICIENTS:
        total = ((total + coefficient) * position) >> 28
    power = (1 << 60) // (ONE + total)
    for _ in range(4):
        power = (power * power) >> 30
    found = (ONE - power).astype(np.float32) * np.float32(2**-30)
    return np.where(np.isnan(x), x, np.where(x < 0, -found, found))


@dataclass(frozen=True, slots=True)
class PlainErf(Plain):
    """The error function; created from ONNX's Erf and Gelu on real numbers."""

    ARITHMETIC = arithmetic("erf", float32=erf)


def _power(a: Floats, b: Floats) -> Floats:
    """exp(b * log(a)), with a relative error below 2**-22 times the larger of 1 and |b * log(a)|.
    Negative a have powers for integers b, and else NaN."""
    negative = (a < 0) & (np.floor(b) == b)
    size = exp(b * log(np.where(negative, -a, a)))
    half = b * np.float32(0.5)
    signed = np.where(negative & (np.floor(half) != half), -size, size)
    return np.where(b == 0, np.float32(1), signed)


@dataclass(frozen=True, slots=True)
class Power(Plain):
    """Element-wise power of real numbers; inputs may be broadcast."""

    ONNX = onnx(OnnxName(AxisOrder.ALIKE, floats=True), "Pow")
    INPUTS = 2
    ARITHMETIC = arithmetic("power", float32=_power)


def _floor_divided(a: Array, b: Array) -> Array:
    """The reference fails if a divisor is 0, for which this yields 0."""
    wide = a.astype(np.int64) // np.where(b == 0, 1, b)
    return np.where(b == 0, 0, wide).astype(np.int32)


def _quotient_floor(a: Array, b: Array) -> Array:
    """Rounded once, after the floor."""
    return np.floor(a.astype(np.float64) / b.astype(np.float64)).astype(np.float32)


@dataclass(frozen=True, slots=True)
class FloorDiv(Plain):
    """Element-wise quotient, rounded towards minus infinity; inputs may be broadcast."""

    TFLITE = ("FLOOR_DIV",)
    RELAY = relay("floor_divide")
    INPUTS = 2
    ARITHMETIC = arithmetic("floor_div", int32=_floor_divided, float32=_quotient_floor)


def _remainder(a: Array, b: Array) -> Array:
    """a - b * floor(a / b).  The reference fails if a divisor is 0, for which this yields a."""
    wide = a.astype(np.int64) % np.where(b == 0, 1, b)
    return np.where(b == 0, a, wide).astype(np.int32)


@dataclass(frozen=True, slots=True)
class FloorMod(Plain):
    """Element-wise remainder with the sign of the divisor; inputs may be broadcast."""

    TFLITE = ("FLOOR_MOD",)
    RELAY = relay("floor_mod")
    INPUTS = 2
    ARITHMETIC = arithmetic("floor_mod", int32=_remainder)


_BY_TFLITE_NAME: Mapping[str, Plain] = {
    name: op
    for op in (Ceil(), Floor(), Round(), Neg(), Square(), FloorDiv(), FloorMod())
    for name in op.TFLITE
}


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite's functions of plain numbers."""
    yield from typed_nodes(node, _BY_TFLITE_NAME[node.name], None)


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX Pow."""
    return real_elementwise(node, Power())


SAMPLES = (
    *(
        sample(op, x)
        for op in (Ceil(), Floor(), Round(), Neg(), Square(), PlainErf())
        for x in (reals(1, 4, 3, 5), reals(7))
    ),
    sample(Neg(), integers(1, 4, 3, 5)),
    sample(Neg(), integers(7)),
    sample(Power(), reals(1, 4, 3, 5), reals(1, 4, 3, 5)),
    sample(Power(), reals(2, 4, 3, 5), reals()),
    sample(FloorDiv(), integers(1, 4, 3, 5), integers(1, 4, 3, 5)),
    sample(FloorDiv(), integers(1, 4, 3, 5), integers()),
    sample(FloorDiv(), reals(2, 4, 3, 5), reals(5)),
    sample(FloorMod(), integers(1, 4, 3, 5), integers(1, 4, 3, 5)),
    sample(FloorMod(), integers(2, 4, 3, 5), integers(4, 1, 5)),
)
