"""Operators on vectors along the last axis: Softmax, its logarithm, and division by the norm.

    x  (.., C)  int8 or float32
    y  (.., C)

An output element reads the whole vector that contains it.  An exponential depends only on the
difference to the vector's maximum and is a 256-entry table.

Sources: TFLite SOFTMAX; `reference/softmax.h`.  LOG_SOFTMAX; `reference/log_softmax.h`, which
handles differences to the maximum that exceed its input radius separately; all of them saturate the
output.  L2_NORMALIZATION; `reference/integer_ops/l2normalization.h`.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from penstock.fixedpoint import (
    Int64s,
    doubling_high_multiply,
    multiply,
    rounding_shift,
)
from penstock.frozen import frozen
from penstock.ir.foreign import ForeignNode, Made, Nodes
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Arrays, Kernel, Site, Table, Types, row_kernel
from penstock.ir.operator_facts import AxisOrder, OnnxName, onnx, relay
from penstock.ir.tensor import Array, DType, Quantisation, Region, TensorType
from penstock.opkit.activation import Activation, fused_activation
from penstock.opkit.axes import RowVectors, params
from penstock.opkit.checks import (
    require_dtype,
    require_output_steps,
)
from penstock.opkit.elementwise_nodes import elementwise_nodes
from penstock.opkit.float_functions import exp
from penstock.opkit.float_functions import log as real_log
from penstock.opkit.lookup import saturated
from penstock.opkit.nodes import is_plain_foreign, requantised
from penstock.opkit.real_nodes import real_elementwise
from penstock.opkit.transcendental import (
    DIFFERENCE_BITS,
    MOST_ELEMENTS,
    SUM_BITS,
    exp_table,
    inverse_sqrt,
    log,
    one_over_one_plus,
    scaled_differences,
)
from penstock.ops.conversions import QuantizeWide


def total(x: Array) -> Array:
    """Sums of float32 vectors, with extent 1 along the last axis, rounded after each addition."""
    return np.add.accumulate(x, axis=-1)[..., -1:]


LARGEST_DEVIATION = 0.001
"""Largest relative deviation of the scale of int16 outputs, which has no effect (`PrepareSoftmax`,
`micro/kernels/softmax_common.cc`)."""
PROBABILITIES = Quantisation((1 / 256,), (-128,))
FINE_PROBABILITIES = Quantisation((1 / 65536,), (-32768,))
"""Of int16; outputs of a finer scale than `PROBABILITIES` are rounded from these."""


@frozen
class Softmax(RowVectors):
    """Softmax over the last axis, in fixed point.

        x  (..., C)  int8
        y  (..., C)  int8    scale 1/256, zero point -128; or int16, scale 1/65536, zero point
                             -32768

        PlainSoftmax  float32, both

    The exponential depends only on the difference to the row's maximum and is a 256-entry
    table.

    Source: TFLite SOFTMAX; `reference/softmax.h`."""

    beta: float = 1.0
    dtype: DType = DType.INT8

    TFLITE = ("SOFTMAX",)
    ONNX = onnx(OnnxName(AxisOrder.VECTORS, fixed=PROBABILITIES, floats=True), "Softmax")
    RELAY = relay("nn.softmax", "qnn.softmax")

    def result_type(self, inputs: Types) -> TensorType:
        y = replace(RowVectors.result_type(self, inputs), dtype=self.dtype)
        require_dtype(y, "output", DType.INT8, DType.INT16)
        return y

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        rows = self.vectors(site, inputs, out).astype(np.int64)
        exponentials = exp_table(site.x.scale * self.beta)[rows.max(axis=-1, keepdims=True) - rows]
        total = rounding_shift(exponentials, SUM_BITS).sum(axis=-1, keepdims=True)
        reciprocal, exponent = reciprocals(total, 8 * self.dtype.size_bytes)
        scaled = rounding_shift(doubling_high_multiply(reciprocal, exponentials), exponent)
        lower, upper = self.dtype.lower, self.dtype.upper
        y = np.clip(scaled + lower, lower, upper - 1).astype(self.dtype.value)
        return y[..., out.slices[-1]]

    def kernel(self, site: Site) -> Kernel:
        table = exp_table(site.x.scale * self.beta).astype(np.int32)
        return row_kernel(
            "softmax_s8" if self.dtype is DType.INT8 else "softmax_s8_s16",
            params(site),
            exp=Table.of(table),
        )


@frozen
class PlainSoftmax(RowVectors):
    """exp(beta * x) over its sum along the last axis, of real numbers."""

    beta: float = 1.0

    ELEMENTS = DType.FLOAT32
    RELAY = relay("nn.softmax")
    REFERENCE_ULPS = 4

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        x = self.vectors(site, inputs, out)
        with np.errstate(all="ignore"):
            powers = exp((x - x.max(axis=-1, keepdims=True)) * np.float32(self.beta))
            return (powers / total(powers))[..., out.slices[-1]]

    def kernel(self, site: Site) -> Kernel:
        beta = Table.reals([self.beta])
        return row_kernel("softmax_f32", params(site), beta=beta)


def reciprocals(total: Int64s, bits: int) -> tuple[Int64s, Int64s]:
    """1 / total, total in Q12.19, as (reciprocal in Q0.31, right shift to units of 2**-bits)."""
    # Shifted so that the leading bit is bit 31: 1 / total is then 1 / (1 + a), a in [0, 1).
    headroom = 32 - np.array([int(t).bit_length() for t in total.ravel()], np.int64)
    headroom = headroom.reshape(total.shape)
    exponent = SUM_BITS - headroom + 31 - bits
    return one_over_one_plus((total << headroom) - (1 << 31)), exponent


def _require_addable(node: ForeignNode, most: int) -> None:
    """Raises UnsupportedError unless vectors of the input have at most so many elements."""
    depth = node.x.shape[-1:]
    if depth > (most,):
        raise node.unsupported(f"vectors have {depth[0]} elements, at most {most} add up")


def _foreign_softmax(node: ForeignNode) -> Nodes:
    out = node.y.type
    real = out.dtype is DType.FLOAT32
    require_dtype(out, "output", DType.INT8, DType.INT16, DType.FLOAT32)
    if not real:
        slack = 0.0 if out.dtype is DType.INT8 else LARGEST_DEVIATION
        require_output_steps(node, 1 << 8 * out.dtype.size_bytes, out.dtype.lower, slack)
        _require_addable(node, MOST_ELEMENTS)
    beta = node.real("beta")
    if not 0.0 < beta < math.inf:
        raise node.unsupported(f"beta is {beta}, must be a positive number")
    op = PlainSoftmax(beta) if real else Softmax(beta, out.dtype)
    yield Made(op, (node.x,), node.y)


def _onnx_softmax(node: OnnxNode) -> Nodes:
    x = node.x
    y = node.y.quantisation
    if y is None or x.dtype is DType.FLOAT32:
        yield from real_elementwise(node, PlainSoftmax())
        return
    if not x.shape:
        raise node.unsupported("input is a scalar, must have at least one axis")
    _require_addable(node, MOST_ELEMENTS)
    if y.scales[0] >= PROBABILITIES.scales[0]:
        yield from requantised(node, Softmax(), x, PROBABILITIES)
        return
    fine = node.between(Softmax(1.0, DType.INT16), x, label="in_16_bits", like=FINE_PROBABILITIES)
    yield fine
    yield node.made(QuantizeWide(), fine.output)


LOGARITHM_SHIFT = 31 - DIFFERENCE_BITS - 4
"""From Q5.26 to sixteenths."""


@frozen
class LogSoftmax(RowVectors):
    """Logarithm of the softmax along the last axis, x - log(sum(exp(x))).

        x  (.., C)  int8
        y  (.., C)  int8     scale 1/16, zero point 127

        PlainLogSoftmax  float32, both

    Source: TFLite LOG_SOFTMAX; `reference/log_softmax.h`.  The reference handles differences to
    the maximum that exceed its input radius separately; all of them saturate the output."""

    TFLITE = ("LOG_SOFTMAX",)
    ONNX = onnx(OnnxName(AxisOrder.VECTORS, floats=True), "LogSoftmax")
    RELAY = relay("nn.log_softmax")

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        vectors = self.vectors(site, inputs, out).astype(np.int64)
        differences = vectors.max(axis=-1, keepdims=True) - vectors
        exponentials = rounding_shift(exp_table(site.x.scale), SUM_BITS)
        total = exponentials[differences].sum(axis=-1, keepdims=True)
        scaled = _bounded_differences(site)[differences[..., out.slices[-1]]]
        return saturated(rounding_shift(scaled - log(total, SUM_BITS), LOGARITHM_SHIFT) + 127)

    def kernel(self, site: Site) -> Kernel:
        exponentials = rounding_shift(exp_table(site.x.scale), SUM_BITS)
        return row_kernel(
            "log_softmax_s8",
            params(site),
            exp=Table.integers(exponentials),
            scaled=Table.integers(_bounded_differences(site)),
        )


def _bounded_differences(site: Site) -> Int64s:
    """Scaled differences to the maximum in Q5.26, clamped to -16, where the output saturates."""
    return np.maximum(scaled_differences(site.x.scale), -(1 << 30))


@frozen
class PlainLogSoftmax(RowVectors):
    """Logarithm of the softmax of real numbers."""

    ELEMENTS = DType.FLOAT32
    RELAY = relay("nn.log_softmax")
    REFERENCE_ULPS = 4

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        x = self.vectors(site, inputs, out)
        # Without the largest element, exp of large inputs would overflow.
        differences = x - x.max(axis=-1, keepdims=True)
        logarithms = real_log(total(exp(differences)))
        return (differences - logarithms)[..., out.slices[-1]]

    def kernel(self, site: Site) -> Kernel:
        return row_kernel("log_softmax_f32", params(site))


def _foreign_logarithm(node: ForeignNode) -> Nodes:
    if node.y.dtype is DType.FLOAT32:
        yield Made(PlainLogSoftmax(), (node.x,), node.y)
        return
    require_output_steps(node, 16, 127)
    _require_addable(node, MOST_ELEMENTS)
    yield from elementwise_nodes(LogSoftmax(), node, 1)


NORMALISED_BITS = 7
LEAST_NORM = 1e-6  # of real numbers
MOST_SQUARES = (2**31 - 1) // 255**2
"""Elements of a vector whose squares are sure to add up in 32 bits."""


@frozen
class L2Normalization(RowVectors):
    """Divides vectors along the last axis by their Euclidean norm.

        x  (.., C)  int8
        y  (.., C)  int8     scale 1/128, zero point 0

    Source: TFLite L2_NORMALIZATION; `reference/integer_ops/l2normalization.h`."""

    TFLITE = ("L2_NORMALIZATION",)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        vectors = self.vectors(site, inputs, out).astype(np.int64)
        centred = vectors - site.x.zero_point
        multiplier, shift = inverse_sqrt((centred**2).sum(axis=-1, keepdims=True))
        kept = centred[..., out.slices[-1]]
        return saturated(multiply(kept, multiplier, shift + NORMALISED_BITS))

    def kernel(self, site: Site) -> Kernel:
        return row_kernel("l2_normalization_s8", params(site), zero=site.x.zero_point)


@frozen
class PlainL2Normalization(RowVectors):
    """Real numbers over their Euclidean norm along the last axis, which counts as `LEAST_NORM` at
    least.

    Source: TFLite L2_NORMALIZATION; `reference/l2normalization.h`."""

    ELEMENTS = DType.FLOAT32

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        x = self.vectors(site, inputs, out)
        with np.errstate(all="ignore"):
            norm = np.sqrt(total(x * x))
            divisor = np.where(norm < np.float32(LEAST_NORM), np.float32(LEAST_NORM), norm)
            return (x / divisor)[..., out.slices[-1]]

    def kernel(self, site: Site) -> Kernel:
        return row_kernel("l2_normalization_f32", params(site))


def _foreign_normalised(node: ForeignNode) -> Nodes:
    if fused_activation(node) is not Activation.NONE:
        raise node.unsupported("a fused activation, must be none")
    if is_plain_foreign(node):
        yield Made(PlainL2Normalization(), (node.x,), node.y)
        return
    require_output_steps(node, 128, 0)
    _require_addable(node, MOST_SQUARES)
    yield from elementwise_nodes(L2Normalization(), node, 1)


def from_foreign(node: ForeignNode) -> Nodes:
    match node.name:
        case "SOFTMAX":
            return _foreign_softmax(node)
        case "LOG_SOFTMAX":
            return _foreign_logarithm(node)
        case _:
            return _foreign_normalised(node)


def from_onnx(node: OnnxNode) -> Nodes:
    """ONNX Softmax, LogSoftmax.  The logarithm is real arithmetic, because scale and zero point of
    the output are free."""
    if node.name == "Softmax":
        return _onnx_softmax(node)
    return real_elementwise(node, PlainLogSoftmax())
