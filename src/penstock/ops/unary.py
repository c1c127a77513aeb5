"""Functions of one int8 variable that TFLite defines, computed by a 256-entry table.

    x  any shape  int8
    y  as x       int8

Most are defined by ONNX as well; `numerics` selects the arithmetic: that of TFLite's kernel, which
each class describes, or real arithmetic (`Numerics.REAL`).  Functions that only ONNX defines are
`RealFunction`; on float32, those of `ops/plain.py` take their place.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

import numpy as np

from penstock.fixedpoint import (
    Int64s,
    float32,
    multiply,
    quantise_multiplier,
    rounding_shift,
)
from penstock.frozen import frozen
from penstock.ir.foreign import ForeignNode, Made, Nodes
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Op
from penstock.ir.operator_facts import CARRIED, REALS, AxisOrder, OnnxName, RelayName, onnx, relay
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit import transcendental
from penstock.opkit.activation import Activation, Limits
from penstock.opkit.broadcast import Plain
from penstock.opkit.checks import require_int8, require_output_steps
from penstock.opkit.elementwise_nodes import elementwise_nodes, typed_nodes
from penstock.opkit.lookup import (
    ELEMENTS,
    LARGEST_STEPS,
    SIGNED_UNIT_INTERVAL,
    UNIT_INTERVAL,
    Lookup,
    Numerics,
    finite_parameter,
    real_sigmoid,
    real_table,
    sampled,
    saturated,
    scale_ratio,
    sigmoid_table,
)
from penstock.opkit.nodes import (
    in_scale_of_output,
    in_shape_of_output,
    is_plain_foreign,
    is_real,
    onnx_form,
)
from penstock.opkit.real_nodes import RealNodes
from penstock.opkit.transcendental import inverse_sqrt
from penstock.ops.binary import Maximum, Minimum
from penstock.ops.plain import (
    PlainAbs,
    PlainElu,
    PlainErfc,
    PlainExp,
    PlainHardSwish,
    PlainLog,
    PlainLogistic,
    PlainMaximum,
    PlainMinimum,
    PlainMul,
    PlainRelu,
    PlainRsqrt,
    PlainSqrt,
    PlainTanh,
)
from penstock.ops.real_function import UNBOUNDED, RealFunction, clip_bounds, real_form
from penstock.ops.tabulated import table_of


class _Function(Lookup, ABC):
    """A function with two definitions."""

    __slots__ = ()
    numerics: Numerics

    def table(self, x: TensorType, y: TensorType) -> Array:
        if self.numerics is Numerics.REAL:
            return real_table(self.real, x, y)
        return self.reference(x, y)

    @abstractmethod
    def reference(self, x: TensorType, y: TensorType) -> Array:
        """The table by the arithmetic of TFLite's kernel."""

    @abstractmethod
    def real(self, r: float) -> float:
        """The function of a real number, in double precision."""


@frozen
class Abs(_Function):
    """The absolute value, with requantisation.

    y = clamp(zero_y + M * |x - zero_x|).  Source: TFLite ABS; `micro/kernels/elementwise.cc`."""

    numerics: Numerics = Numerics.TFLITE

    TFLITE = ("ABS",)
    ONNX = onnx(REALS, "Abs")
    RELAY = relay("abs", "qnn.abs")

    def reference(self, x: TensorType, y: TensorType) -> Array:
        scaled = multiply(np.abs(ELEMENTS - x.zero_point), *quantise_multiplier(scale_ratio(x, y)))
        return saturated(scaled + y.zero_point)

    def real(self, r: float) -> float:
        return abs(r)


@frozen
class Exp(_Function):
    """The exponential function.

    Source: TFLite EXP, `kernels/exp.cc`: a table in single precision.  (TFLite Micro has only a
    floating-point kernel.)"""

    numerics: Numerics = Numerics.TFLITE

    TFLITE = ("EXP",)
    ONNX = onnx(REALS, "Exp")
    RELAY = relay("exp", "qnn.exp")

    def reference(self, x: TensorType, y: TensorType) -> Array:
        # Above 88, exp leaves single precision; every output has saturated long before.
        return sampled(lambda r: float32(math.exp(min(r, 88.0))), x, y)

    def real(self, r: float) -> float:
        return math.exp(r)


@frozen
class Log(Lookup):
    """Natural logarithm.

    The smallest element for x <= 0.  Source: TFLite LOG, `kernels/elementwise.cc`,
    `LogLUTPrepare`: a table in single precision.  (TFLite Micro has only a floating-point kernel.)
    """

    TFLITE = ("LOG",)
    RELAY = relay("log", "qnn.log")

    def table(self, x: TensorType, y: TensorType) -> Array:
        least = float32((y.dtype.lower - y.zero_point) * y.scale)
        return sampled(lambda real: float32(math.log(real)) if real > 0 else least, x, y)


@frozen
class Sqrt(Lookup):
    """Square root.

    In steps of y, rounded towards 0; 0 for x < 0.  Source: TFLite SQRT, `kernels/elementwise.cc`,
    `SqrtEvalQuantized`, which fails for x < 0.  (TFLite Micro has only a floating-point kernel.)
    """

    TFLITE = ("SQRT",)
    RELAY = relay("sqrt", "qnn.sqrt")

    def table(self, x: TensorType, y: TensorType) -> Array:
        reals = np.float32(x.scale) * np.maximum(ELEMENTS - x.zero_point, 0).astype(np.float32)
        steps = np.minimum(np.sqrt(reals) / np.float32(y.scale), np.float32(LARGEST_STEPS))
        return saturated(steps.astype(np.int64) + y.zero_point)


RSQRT_BITS = 20
"""Extra bits of reciprocal roots."""


@frozen
class Rsqrt(Lookup):
    """Reciprocal square root.

    y = clamp(zero_y + M / sqrt(x - zero_x)).  The reference yields the largest element for zero and
    refuses negative values, for which penstock yields the largest element, too.

    Source: TFLite RSQRT; `micro/kernels/elementwise.cc`."""

    TFLITE = ("RSQRT",)
    RELAY = relay("rsqrt", "qnn.rsqrt")

    def table(self, x: TensorType, y: TensorType) -> Array:
        centred = ELEMENTS - x.zero_point
        multiplier, shift = inverse_sqrt(np.maximum(centred, 1))
        fine = multiply(np.ones_like(centred), multiplier, shift + RSQRT_BITS)
        # The reference computes the product of scales in single precision.
        product = np.sqrt(np.float32(x.scale)) * np.float32(y.scale)
        out_multiplier, out_shift = quantise_multiplier(1.0 / float(product))
        scaled = multiply(fine, out_multiplier, out_shift - RSQRT_BITS) + y.zero_point
        return saturated(np.where(centred > 0, scaled, 127))


@frozen
class Logistic(_Function):
    """1 / (1 + exp(-x)).

    With TFLite's numerics, the output has scale 1/256 and zero point -128.

    Source: TFLite LOGISTIC; `reference/integer_ops/logistic.h`, TFLite Micro's fixed-point
    arithmetic.  TensorFlow computes a table in single precision instead; the results differ for
    input scales above 4, where the fixed-point arithmetic saturates early."""

    numerics: Numerics = Numerics.TFLITE

    TFLITE = ("LOGISTIC",)
    ONNX = onnx(OnnxName(AxisOrder.ALIKE, fixed=UNIT_INTERVAL, floats=True), "Sigmoid")
    RELAY = relay("sigmoid", "qnn.sigmoid")

    def reference(self, x: TensorType, y: TensorType) -> Array:
        return sigmoid_table(transcendental.logistic, x, 8, y.zero_point)

    def real(self, r: float) -> float:
        return real_sigmoid(r)


@frozen
class Tanh(_Function):
    """The hyperbolic tangent.

    With TFLite's numerics, the output has scale 1/128 and zero point 0.

    Source: TFLite TANH; `reference/integer_ops/tanh.h`."""

    numerics: Numerics = Numerics.TFLITE

    TFLITE = ("TANH",)
    ONNX = onnx(OnnxName(AxisOrder.ALIKE, fixed=SIGNED_UNIT_INTERVAL, floats=True), "Tanh")
    RELAY = relay("tanh", "qnn.tanh")

    def reference(self, x: TensorType, y: TensorType) -> Array:
        return sigmoid_table(transcendental.tanh, x, 7, y.zero_point)

    def real(self, r: float) -> float:
        return math.tanh(r)


@frozen
class Elu(_Function):
    """The exponential linear unit.

    x where x >= 0, alpha * (exp(x) - 1) elsewhere.

    Source: TFLite ELU, where alpha is 1; `micro/kernels/elu.cc`: a table in single precision."""

    alpha: float = 1.0
    numerics: Numerics = Numerics.TFLITE

    TFLITE = ("ELU",)
    ONNX = onnx(REALS, "Elu")

    def reference(self, x: TensorType, y: TensorType) -> Array:
        # exp(r) - 1 is rounded twice, as in the reference.
        return sampled(lambda r: r if r >= 0 else float32(float32(math.exp(r)) - 1.0), x, y)

    def real(self, r: float) -> float:
        return r if r >= 0 else self.alpha * math.expm1(r)


_SQRT_HALF = float32(math.sqrt(0.5))
_SQRT_TWO_OVER_PI = float32(math.sqrt(2.0 / math.pi))
_CUBIC = float32(0.044715)


@frozen
class Gelu(_Function):
    """x times the standard normal distribution function of x, or its approximation by tanh.

    Source: TFLite GELU, `kernels/gelu.cc` and `reference/gelu.h`: a table in single precision.
    (TFLite Micro has no GELU.)"""

    approximate: bool = False
    numerics: Numerics = Numerics.TFLITE

    TFLITE = ("GELU",)
    ONNX = onnx(REALS, "Gelu")

    def reference(self, x: TensorType, y: TensorType) -> Array:
        return sampled(_gelu_by_tanh if self.approximate else _gelu_by_erfc, x, y)

    def real(self, r: float) -> float:
        if self.approximate:
            return 0.5 * r * (1 + math.tanh(math.sqrt(2 / math.pi) * (r + 0.044715 * r**3)))
        return 0.5 * r * (1 + math.erf(r * math.sqrt(0.5)))


def _gelu_by_erfc(x: float) -> float:
    """x / 2 * erfc(-x / sqrt 2), every step in single precision."""
    tail = float32(math.erfc(float32(x * -_SQRT_HALF)))
    return float32(float32(0.5 * x) * tail)


def _gelu_by_tanh(x: float) -> float:
    """x / 2 * (1 + tanh(sqrt(2 / pi) * x * (1 + 0.044715 x^2))), every step in single precision."""
    cubic = float32(1.0 + float32(float32(_CUBIC * x) * x))
    argument = float32(float32(_SQRT_TWO_OVER_PI * x) * cubic)
    return float32(float32(0.5 * x) * float32(1.0 + float32(math.tanh(argument))))


@frozen
class LeakyRelu(_Function):
    """Multiplies negative values by a constant, with requantisation.

    Source: TFLite LEAKY_RELU; `reference/leaky_relu.h`, parameters in
    `micro/kernels/leaky_relu_common.cc`, in double precision."""

    alpha: float
    numerics: Numerics = Numerics.TFLITE

    TFLITE = ("LEAKY_RELU",)
    ONNX = onnx(REALS, "LeakyRelu")
    RELAY = relay("nn.leaky_relu", "qnn.leaky_relu")

    def reference(self, x: TensorType, y: TensorType) -> Array:
        slope = x.scale * self.alpha / y.scale
        centred = ELEMENTS - x.zero_point
        above = multiply(centred, *quantise_multiplier(scale_ratio(x, y)))
        below = multiply(centred, *quantise_multiplier(abs(slope)))
        signed = -below if slope < 0 else below
        return saturated(np.where(centred >= 0, above, signed) + y.zero_point)

    def real(self, r: float) -> float:
        return r if r >= 0 else self.alpha * r


INT16_MIN, INT16_MAX = -(2**15), 2**15 - 1
FINER = 128
"""HardSwish scales the input by this factor before it multiplies."""


@frozen
class HardSwish(_Function):
    """x * clamp(x + 3, 0, 6) / 6.

    TFLite computes in 16 bits: x in steps of the output's scale, times (x + 3) / 6 clamped to
    [0, 1].

    Source: TFLite HARD_SWISH; `reference/hard_swish.h`, parameters in
    `micro/kernels/hard_swish_common.cc`, in single precision."""

    numerics: Numerics = Numerics.TFLITE

    TFLITE = ("HARD_SWISH",)
    ONNX = onnx(REALS, "HardSwish")

    def reference(self, x: TensorType, y: TensorType) -> Array:
        fine = (ELEMENTS - x.zero_point) * FINER
        multiplier, shift = _swish_scaling(x, y)
        product = _high_multiply(fine, multiplier) * _gate(fine, x)
        halved = np.where(product >= 0, product >> 15, -((-product) >> 15))
        return saturated(_rounding_shift16(halved, -shift) + y.zero_point)

    def real(self, r: float) -> float:
        return r * min(max(r / 6 + 0.5, 0.0), 1.0)


def _swish_scaling(x: TensorType, y: TensorType) -> tuple[int, int]:
    """(multiplier, shift) from steps of x / `FINER` to the scale of y."""
    return _multiplier16(np.float32(x.scale / FINER) / np.float32(y.scale))


def _gate(fine: Int64s, x: TensorType) -> Int64s:
    """(x + 3) / 6 clamped to [0, 1], in Q0.15."""
    third = np.float32(3.0) / np.float32(32768.0)
    multiplier, shift = _multiplier16(np.float32(x.scale / FINER) / third)
    # Saturation before the last doubling does not show in the result.
    value = _saturated16(fine << max(0, shift - 1))
    value = _high_multiply(value, multiplier)
    value = _saturated16(value << 1) if shift > 0 else _rounding_shift16(value, -shift)
    return (value + (1 << 15)) >> 1


def _multiplier16(real: np.float32) -> tuple[int, int]:
    """(multiplier, shift) of a real multiplier, the multiplier in Q0.15."""
    multiplier, shift = quantise_multiplier(float(real))
    return min((multiplier + (1 << 15)) >> 16, INT16_MAX), shift


def _high_multiply(a: Int64s, b: int) -> Int64s:
    """round(a * b / 2**15), rounded half away from zero."""
    product = a * b
    nudged = product + np.where(product >= 0, 1 << 14, 1 - (1 << 14))
    return np.where(nudged >= 0, nudged >> 15, -((-nudged) >> 15))


def _rounding_shift16(x: Int64s, exponent: int) -> Int64s:
    """round(x / 2**exponent) as the reference computes it in 16 bits.

    For exponents above 15 its remainder mask is -1, and the result is 1 or -1 instead of 0
    (gemmlowp, `RoundingDivideByPOT`)."""
    return rounding_shift(x, exponent) if exponent < 16 else np.where(x >= 0, 1, -1)


def _saturated16(x: Int64s) -> Int64s:
    return np.clip(x, INT16_MIN, INT16_MAX)


_CLAMPS = {
    "RELU": Activation.RELU,
    "RELU6": Activation.RELU6,
    "RELU_N1_TO_1": Activation.RELU_N1_TO_1,
    "RELU_0_TO_1": Activation.RELU_0_TO_1,
}


@frozen
class Relu(Lookup):
    """Clamp to a real interval, with requantisation.

    y = clamp(zero_y + M * (x - zero_x)).

    Source: TFLite RELU, RELU6, RELU_N1_TO_1, RELU_0_TO_1; `micro/kernels/activations.cc`
    (`ReluQuantized`).  TFLite Micro's RELU6 ignores differing scales of input and output, and it
    has no RELU_N1_TO_1; TensorFlow and penstock use the formula above for all
    (`kernels/activations.cc`, `ReluX`)."""

    activation: Activation = Activation.RELU

    TFLITE = tuple(_CLAMPS)
    ONNX = onnx(CARRIED, "Relu", "Clip")
    RELAY = (*relay("clip"), RelayName("nn.relu", (("activation", "RELU"),)))

    def table(self, x: TensorType, y: TensorType) -> Array:
        scaled = multiply(ELEMENTS - x.zero_point, *quantise_multiplier(scale_ratio(x, y)))
        return np.clip(scaled + y.zero_point, *self.activation.bounds(y)).astype(np.int8)


def _open_limits(clamp: Activation) -> Limits:
    """Those of a clamp that is an operator: a bound that it lacks is infinite."""
    lower, upper = clamp.value
    assert lower is not None
    return Limits(lower, math.inf if upper is None else upper)


_TYPED: Mapping[str, tuple[Plain, Lookup]] = {
    "ABS": (PlainAbs(), Abs()),
    "ELU": (PlainElu(), Elu()),
    "EXP": (PlainExp(), Exp()),
    "LOG": (PlainLog(), Log()),
    "LOGISTIC": (PlainLogistic(), Logistic()),
    "RSQRT": (PlainRsqrt(), Rsqrt()),
    "SQRT": (PlainSqrt(), Sqrt()),
    "TANH": (PlainTanh(), Tanh()),
    **{name: (PlainRelu(_open_limits(clamp)), Relu(clamp)) for name, clamp in _CLAMPS.items()},
}
"""By TFLite name, the operators of real numbers and of int8."""


def from_foreign(node: ForeignNode) -> Nodes:
    """TFLite's functions of one variable."""
    if node.unsigned and node.name in _OF_UNSIGNED:
        x, y = node.x, node.y
        return (Made(table_of(_OF_UNSIGNED[node.name](node, x.type, y.type)), (x,), y),)
    _check(node)
    if node.name in _TYPED:
        return typed_nodes(node, *_TYPED[node.name])
    if is_plain_foreign(node):
        return in_shape_of_output(node, _real_foreign(node))
    match node.name:
        case "GELU":
            op = Gelu(bool(node.integer("approximate")))
        case "LEAKY_RELU":
            op = LeakyRelu(node.real("alpha"))
        case _:
            op = HardSwish()
    return elementwise_nodes(op, node, 1)


def _real_foreign(node: ForeignNode) -> Nodes:
    match node.name:
        case "GELU" if node.integer("approximate"):
            return from_onnx(onnx_form(node, "Gelu", approximate="tanh"))
        case "GELU":
            return _real_gelu(onnx_form(node, "Gelu"))
        case "LEAKY_RELU":
            return from_onnx(onnx_form(node, "LeakyRelu", alpha=node.real("alpha")))
        case _:
            real = RealNodes(onnx_form(node, "HardSwish"))
            return real.result(real.apply(PlainHardSwish(), real.input(0)))


def _real_gelu(node: OnnxNode) -> Nodes:
    """As TFLite computes it, by the complementary error function, which loses no digits where x is
    negative.  Source: `reference/gelu.h`."""
    real = RealNodes(node)
    x = real.input(0)
    half = real.apply(PlainMul(), x, real.constant(0.5, "half"))
    scaled = real.apply(PlainMul(), x, real.constant(-math.sqrt(0.5), "scale"))
    return real.result(real.apply(PlainMul(), half, real.apply(PlainErfc(), scaled)))


def _check(node: ForeignNode) -> None:
    x, y = node.x.type, node.y.type
    match node.name:
        case "HARD_SWISH" if not is_plain_foreign(node):
            require_int8(x, "input")
            require_int8(y, "output")
            if _swish_scaling(x, y)[1] > 0:
                raise node.unsupported(
                    f"input has scale {x.scale}, output {y.scale}; the output's must be above "
                    "1/128 of it"
                )
        case "LEAKY_RELU" if not math.isfinite(node.real("alpha")):
            raise node.unsupported(f"alpha is {node.real('alpha')}, must be finite")
        case "LOGISTIC" | "TANH" if y.dtype is DType.INT8:
            require_output_steps(node, *((256, -128) if node.name == "LOGISTIC" else (128, 0)))
        case "RSQRT" if y.dtype is DType.INT8:
            largest = 2.0**RSQRT_BITS
            if 1.0 / (math.sqrt(x.scale) * y.scale) >= largest:
                raise node.unsupported(
                    f"input has scale {x.scale}, output {y.scale}; "
                    f"1 / (sqrt(input) * output) must be below {largest:.0f}"
                )
        case _:
            pass


def _clipped(node: OnnxNode) -> Nodes:
    """ONNX Clip with computed bounds, or with a lower one above the upper one, which counts."""
    new = RealNodes(node)
    if is_real(node):
        values = [new.input(k) if node.optional(k) else None for k in range(3)]
        ops: tuple[Op, Op] = (PlainMaximum(), PlainMinimum())
    else:
        found = [in_scale_of_output(node, k) if node.optional(k) else None for k in range(3)]
        for value in filter(None, found):
            new.take(value[1])
        values = [value[0] if value else None for value in found]
        ops = (Maximum(), Minimum())
    x, *bounds = values
    for op, bound in zip(ops, bounds, strict=True):
        x = x if x is None or bound is None else new.apply(op, x, bound)
    assert x is not None
    return new.result(x)


def from_onnx(node: OnnxNode) -> Nodes:
    """ONNX functions of one variable that TFLite defines, too."""
    if node.name == "Clip" and _has_special_bounds(node):
        return _clipped(node)
    op, parameters = _of_onnx(node)
    if is_real(node):
        return real_form(node, node.name, parameters)
    return (node.made(op, node.x),)


def _has_special_bounds(node: OnnxNode) -> bool:
    bounds = [node.optional(k) for k in (1, 2)]
    if any(value is not None and value.data is None for value in bounds):
        return True
    if None in bounds or not is_real(node):
        return False
    return bool(np.any(node.constant(1) > node.constant(2)))


def _of_onnx(node: OnnxNode) -> tuple[Lookup, tuple[float, ...]]:
    """The operator on int8, and the parameters of the function.  A clamp to bounds that no TFLite
    activation has becomes a `RealFunction`."""
    match node.name:
        case "Relu" | "Clip":
            bounds = (0.0, UNBOUNDED) if node.name == "Relu" else clip_bounds(node)
            wanted = (bounds[0], None if bounds[1] == UNBOUNDED else bounds[1])
            clamp = next((a for a in _CLAMPS.values() if a.value == wanted), None)
            return Relu(clamp) if clamp else RealFunction("Clip", bounds), bounds
        case "Elu":
            alpha = finite_parameter(node, "alpha", 1.0)
            return Elu(alpha, Numerics.REAL), (alpha,)
        case "LeakyRelu":
            alpha = finite_parameter(node, "alpha", 0.01)
            return LeakyRelu(alpha, Numerics.REAL), (alpha,)
        case "Gelu":
            approximate = node.text("approximate", "none", ("none", "tanh")) == "tanh"
            return Gelu(approximate, Numerics.REAL), (float(approximate),)
        case _:
            return _WITHOUT_PARAMETERS[node.name](Numerics.REAL), ()


_WITHOUT_PARAMETERS = {name: op for op in (Abs, Exp, HardSwish, Logistic, Tanh) for name in op.ONNX}


# Tables of functions that TensorFlow computes otherwise on uint8 than TFLite Micro on int8.
#
# Source: TFLite, `kernels/activations.cc`; `reference/leaky_relu.h`.  Quotients of scales are
# divided in single precision, Logistic and Tanh are computed so.


def _single_ratio(x: TensorType, y: TensorType) -> float:
    return float(np.float32(x.scale) / np.float32(y.scale))


def _unsigned_relu(node: ForeignNode, x: TensorType, y: TensorType) -> Array:
    scaled = multiply(ELEMENTS - x.zero_point, *quantise_multiplier(_single_ratio(x, y)))
    return np.clip(scaled + y.zero_point, *_CLAMPS[node.name].bounds(y)).astype(np.int8)


def _unsigned_leaky_relu(node: ForeignNode, x: TensorType, y: TensorType) -> Array:
    _check(node)
    slope = float(np.float32(x.scale) * np.float32(node.real("alpha")) / np.float32(y.scale))
    centred = ELEMENTS - x.zero_point
    above = multiply(centred, *quantise_multiplier(_single_ratio(x, y)))
    multiplier, shift = quantise_multiplier(abs(slope))
    below = multiply(centred, multiplier if slope >= 0 else -multiplier, shift)
    return saturated(np.where(centred >= 0, above, below) + y.zero_point)


def _unsigned_logistic(node: ForeignNode, x: TensorType, y: TensorType) -> Array:
    def logistic(r: float) -> float:
        falling = float32(math.exp(min(-r, 88.0)))
        return float32(1.0 / float32(1.0 + falling))

    return sampled(logistic, x, y)


def _unsigned_tanh(node: ForeignNode, x: TensorType, y: TensorType) -> Array:
    return sampled(lambda r: float32(math.tanh(r)), x, y)


_OF_UNSIGNED: Mapping[str, Callable[[ForeignNode, TensorType, TensorType], Array]] = {
    **dict.fromkeys(_CLAMPS, _unsigned_relu),
    "LEAKY_RELU": _unsigned_leaky_relu,
    "LOGISTIC": _unsigned_logistic,
    "TANH": _unsigned_tanh,
}
"""By TFLite name, the table of a function of uint8 elements, which are less by 128 here."""
