"""L2Normalization: divides vectors along the last axis by their Euclidean norm.

    x  (.., C)  int8
    y  (.., C)  int8     scale 1/128, zero point 0

Source: TFLite L2_NORMALIZATION; `reference/integer_ops/l2normalization.h`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from penstock.fixedpoint import multiply
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.op import Kernel, Site
from penstock.ir.region import Region
from penstock.ir.tensor import Array
from penstock.opkit import row_vectors
from penstock.opkit.activation import Activation, fused_activation
from penstock.opkit.elementwise_nodes import elementwise_nodes
from penstock.opkit.lookup import saturated
from penstock.opkit.row_vectors import RowVectors
from penstock.opkit.samples import int8, sample
from penstock.opkit.transcendental import inverse_sqrt

OUTPUT_BITS = 7
MOST_ELEMENTS = (2**31 - 1) // 255**2
"""Elements of a vector whose squares are sure to add up in 32 bits."""


@dataclass(frozen=True, slots=True)
class L2Normalization(RowVectors):
    """Division by the Euclidean norm."""

    TFLITE = ("L2_NORMALIZATION",)

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        vectors = inputs[0][row_vectors.whole_vectors(site, out).slices].astype(np.int64)
        centred = vectors - site.inputs[0].zero_point
        multiplier, shift = inverse_sqrt((centred**2).sum(axis=-1, keepdims=True))
        return saturated(multiply(centred[..., out.slices[-1]], multiplier, shift + OUTPUT_BITS))

    def kernel(self, site: Site) -> Kernel:
        params = (*row_vectors.params(site), ("zero", site.inputs[0].zero_point))
        return Kernel("l2_normalization_s8", params, by_rows=True)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite L2_NORMALIZATION."""
    out, depth = node.output().type, node.input(0).type.shape[-1:]
    if fused_activation(node) is not Activation.NONE:
        raise node.unsupported("a fused activation, must be none")
    if (out.scale, out.zero_point) != (1 / 128, 0):
        raise node.unsupported(
            f"output has scale {out.scale} and zero point {out.zero_point}, must be 1/128 and 0"
        )
    if depth > (MOST_ELEMENTS,):
        raise node.unsupported(f"vectors have {depth[0]} elements, at most {MOST_ELEMENTS} add up")
    yield from elementwise_nodes(L2Normalization(), node, 1)


SAMPLES = (
    sample(L2Normalization(), int8(3, 11), scale=1 / 128, zero=0),
    sample(L2Normalization(), int8(2, 3, 4, 7, zero=0), scale=1 / 128, zero=0),
)
