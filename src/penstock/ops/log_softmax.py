"""LogSoftmax: logarithm of the softmax along the last axis, x - log(sum(exp(x))).

    x  (.., C)  int8
    y  (.., C)  int8     scale 1/16, zero point 127

    PlainLogSoftmax  float32, both

Source: TFLite LOG_SOFTMAX; `reference/log_softmax.h`.  The reference handles differences to the
maximum that exceed its input radius separately; all of them saturate the output.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from penstock.fixedpoint import Int64s, rounding_shift
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Kernel, Site, Table
from penstock.ir.operator_facts import AxisOrder, OnnxName, onnx, relay
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType
from penstock.opkit import row_vectors
from penstock.opkit.elementwise_nodes import elementwise_nodes
from penstock.opkit.float_functions import exp
from penstock.opkit.float_functions import log as real_log
from penstock.opkit.lookup import saturated
from penstock.opkit.nodes import real_elementwise
from penstock.opkit.row_vectors import RowVectors
from penstock.opkit.samples import int8, reals, sample
from penstock.opkit.transcendental import (
    DIFFERENCE_BITS,
    MOST_ELEMENTS,
    SUM_BITS,
    exp_table,
    log,
    scaled_differences,
)

OUTPUT_SHIFT = 31 - DIFFERENCE_BITS - 4
"""From Q5.26 to sixteenths."""


@dataclass(frozen=True, slots=True)
class LogSoftmax(RowVectors):
    """Logarithm of the softmax."""

    TFLITE = ("LOG_SOFTMAX",)
    ONNX = onnx(OnnxName(AxisOrder.VECTORS, floats=True), "LogSoftmax")
    RELAY = relay("nn.log_softmax")

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        vectors = inputs[0][row_vectors.whole_vectors(site, out).slices].astype(np.int64)
        differences = vectors.max(axis=-1, keepdims=True) - vectors
        exponentials = rounding_shift(exp_table(site.inputs[0].scale), SUM_BITS)
        total = exponentials[differences].sum(axis=-1, keepdims=True)
        scaled = _bounded_differences(site)[differences[..., out.slices[-1]]]
        return saturated(rounding_shift(scaled - log(total, SUM_BITS), OUTPUT_SHIFT) + 127)

    def kernel(self, site: Site) -> Kernel:
        exponentials = rounding_shift(exp_table(site.inputs[0].scale), SUM_BITS)
        return Kernel(
            "log_softmax_s8",
            row_vectors.params(site),
            tables=(
                ("exp", Table.of(exponentials.astype(np.int32))),
                ("scaled", Table.of(_bounded_differences(site).astype(np.int32))),
            ),
            by_rows=True,
        )


def _bounded_differences(site: Site) -> Int64s:
    """Scaled differences to the maximum in Q5.26, clamped to -16, where the output saturates."""
    return np.maximum(scaled_differences(site.inputs[0].scale), -(1 << 30))


@dataclass(frozen=True, slots=True)
class PlainLogSoftmax(RowVectors):
    """Logarithm of the softmax of real numbers."""

    ELEMENTS = DType.FLOAT32
    REFERENCE_ULPS = 4

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        x = inputs[0][row_vectors.whole_vectors(site, out).slices]
        differences = x - x.max(axis=-1, keepdims=True)
        total = row_vectors.total(exp(differences))
        return (differences - real_log(total))[..., out.slices[-1]]

    def kernel(self, site: Site) -> Kernel:
        return Kernel("log_softmax_f32", row_vectors.params(site), by_rows=True)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite LOG_SOFTMAX."""
    out, depth = node.output().type, node.input(0).type.shape[-1:]
    if out.dtype is DType.FLOAT32:
        yield Made(PlainLogSoftmax(), (node.input(0),), node.output())
        return
    if (out.scale, out.zero_point) != (1 / 16, 127):
        raise node.unsupported(
            f"output has scale {out.scale} and zero point {out.zero_point}, must be 1/16 and 127"
        )
    if depth > (MOST_ELEMENTS,):
        raise node.unsupported(f"vectors have {depth[0]} elements, at most {MOST_ELEMENTS} add up")
    yield from elementwise_nodes(LogSoftmax(), node, 1)


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX LogSoftmax, in real arithmetic, because scale and zero point of the output are free."""
    return real_elementwise(node, PlainLogSoftmax())


SAMPLES = (
    sample(LogSoftmax(), int8(2, 10, scale=0.1), scale=1 / 16, zero=127),
    sample(LogSoftmax(), int8(2, 3, 4, 7, scale=0.02), scale=1 / 16, zero=127),
    sample(PlainLogSoftmax(), reals(2, 3, 4, 7)),
    sample(PlainLogSoftmax(), reals(13)),
)
