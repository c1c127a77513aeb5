"""Softmax over the last axis, in fixed point.

    x  (..., C)  int8
    y  (..., C)  int8    scale 1/256, zero point -128; or int16, scale 1/65536, zero point -32768

    PlainSoftmax  float32, both

The exponential depends only on the difference to the row's maximum and is a 256-entry table.

Source: TFLite SOFTMAX; `reference/softmax.h`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from penstock.fixedpoint import (
    Int64s,
    doubling_high_multiply,
    rounding_shift,
)
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Kernel, Site, Table
from penstock.ir.operator_facts import AxisOrder, OnnxName, onnx, relay
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, Quantisation, TensorType
from penstock.opkit import row_vectors
from penstock.opkit.checks import require_dtype
from penstock.opkit.float_functions import exp
from penstock.opkit.nodes import real_elementwise, requantised
from penstock.opkit.row_vectors import RowVectors
from penstock.opkit.samples import int8, reals, sample
from penstock.opkit.transcendental import MOST_ELEMENTS, SUM_BITS, exp_table, one_over_one_plus
from penstock.ops.quantize import QuantizeWide

LARGEST_DEVIATION = 0.001
"""Largest relative deviation of the scale of int16 outputs, which has no effect (`PrepareSoftmax`,
`micro/kernels/softmax_common.cc`)."""
PROBABILITIES = Quantisation((1 / 256,), (-128,))
FINE_PROBABILITIES = Quantisation((1 / 65536,), (-32768,))
"""Of int16; outputs of a finer scale than `PROBABILITIES` are rounded from these."""


@dataclass(frozen=True, slots=True)
class Softmax(RowVectors):
    """exp(beta * x) over its sum along the last axis; elements of type `dtype`."""

    beta: float = 1.0
    dtype: DType = DType.INT8

    TFLITE = ("SOFTMAX",)
    ONNX = onnx(OnnxName(AxisOrder.VECTORS, fixed=PROBABILITIES, floats=True), "Softmax")
    RELAY = relay("nn.softmax", "qnn.softmax")

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        y = replace(RowVectors.result_type(self, inputs), dtype=self.dtype)
        require_dtype(y, (DType.INT8, DType.INT16), "output")
        return y

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        rows = inputs[0][row_vectors.whole_vectors(site, out).slices].astype(np.int64)
        exponentials = exp_table(site.inputs[0].scale * self.beta)[
            rows.max(axis=-1, keepdims=True) - rows
        ]
        total = rounding_shift(exponentials, SUM_BITS).sum(axis=-1, keepdims=True)
        reciprocal, exponent = reciprocals(total, 8 * self.dtype.size_bytes)
        scaled = rounding_shift(doubling_high_multiply(reciprocal, exponentials), exponent)
        lower, upper = self.dtype.lower, self.dtype.upper
        y = np.clip(scaled + lower, lower, upper - 1).astype(self.dtype.value)
        return y[..., out.slices[-1]]

    def kernel(self, site: Site) -> Kernel:
        table = exp_table(site.inputs[0].scale * self.beta).astype(np.int32)
        return Kernel(
            "softmax_s8" if self.dtype is DType.INT8 else "softmax_s8_s16",
            row_vectors.params(site),
            tables=(("exp", Table.of(table)),),
            by_rows=True,
        )


@dataclass(frozen=True, slots=True)
class PlainSoftmax(RowVectors):
    """exp(beta * x) over its sum along the last axis, of real numbers."""

    beta: float = 1.0

    ELEMENTS = DType.FLOAT32
    REFERENCE_ULPS = 4

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        x = inputs[0][row_vectors.whole_vectors(site, out).slices]
        powers = exp((x - x.max(axis=-1, keepdims=True)) * np.float32(self.beta))
        return (powers / row_vectors.total(powers))[..., out.slices[-1]]

    def kernel(self, site: Site) -> Kernel:
        beta = Table.of(np.array([self.beta], np.float32))
        return Kernel("softmax_f32", row_vectors.params(site), (("beta", beta),), by_rows=True)


def reciprocals(total: Int64s, bits: int) -> tuple[Int64s, Int64s]:
    """1 / total, total in Q12.19, as (reciprocal in Q0.31, right shift to units of 2**-bits)."""
    headroom = 32 - np.array([int(t).bit_length() for t in total.ravel()], np.int64)
    headroom = headroom.reshape(total.shape)
    exponent = SUM_BITS - headroom + 31 - bits
    return one_over_one_plus((total << headroom) - (1 << 31)), exponent


def _require_probabilities(node: ForeignNode, out: TensorType) -> None:
    """Raises UnsupportedError unless the output covers [0, 1)."""
    steps, zero = 1 << 8 * out.dtype.size_bytes, out.dtype.lower
    slack = 0.0 if out.dtype is DType.INT8 else LARGEST_DEVIATION
    if abs(out.scale * steps - 1) > slack or out.zero_point != zero:
        raise node.unsupported(
            f"output has scale {out.scale} and zero point {out.zero_point}, must be 1/{steps} and "
            f"{zero}"
        )


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite SOFTMAX."""
    out = node.output().type
    real = out.dtype is DType.FLOAT32
    require_dtype(out, (DType.INT8, DType.INT16, DType.FLOAT32), "output")
    if not real:
        _require_probabilities(node, out)
    depth = node.input(0).type.shape[-1:]
    if not real and depth > (MOST_ELEMENTS,):
        raise node.unsupported(f"vectors have {depth[0]} elements, at most {MOST_ELEMENTS} add up")
    beta = node.real("beta")
    if not 0.0 < beta < math.inf:
        raise node.unsupported(f"beta is {beta}, must be a positive number")
    op = PlainSoftmax(beta) if real else Softmax(beta, out.dtype)
    yield Made(op, (node.input(0),), node.output())


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX Softmax."""
    x = node.input(0)
    y = node.output().type.quantisation
    if y is None or x.type.dtype is DType.FLOAT32:
        yield from real_elementwise(node, PlainSoftmax())
        return
    if not x.type.shape:
        raise node.unsupported("input is a scalar, must have at least one axis")
    if x.type.shape[-1] > MOST_ELEMENTS:
        raise node.unsupported(
            f"vectors have {x.type.shape[-1]} elements, at most {MOST_ELEMENTS} add up"
        )
    if y.scales[0] >= PROBABILITIES.scales[0]:
        yield from requantised(node, Softmax(), x, PROBABILITIES)
        return
    fine = node.between(Softmax(1.0, DType.INT16), x, label="in_16_bits", like=FINE_PROBABILITIES)
    yield fine
    yield node.made(QuantizeWide(), fine.output)


SAMPLES = (
    sample(Softmax(), int8(1, 10, scale=0.1), scale=1 / 256, zero=-128),
    sample(Softmax(2.0), int8(2, 3, 4, 7, scale=0.02), scale=1 / 256, zero=-128),
    sample(PlainSoftmax(), reals(2, 3, 4, 7)),
    sample(PlainSoftmax(0.5), reals(13)),
    sample(Softmax(1.0, DType.INT16), int8(3, 2, 5, scale=0.1), scale=1 / 65536, zero=-32768),
)
