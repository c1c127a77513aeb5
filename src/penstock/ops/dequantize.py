"""Dequantize: the real numbers that int8 elements represent.

    x  any shape  int8
    y  as x       float32     y = scale_x * (x - zero_x), in single precision

Source: TFLite DEQUANTIZE; `reference/dequantize.h`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.op import Kernel, Site, Table, row_count
from penstock.ir.operator_facts import relay
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit.broadcast import Elementwise, unary_node
from penstock.opkit.checks import require, require_int8
from penstock.opkit.samples import int8, sample


@dataclass(frozen=True, slots=True)
class Dequantize(Elementwise):
    """Conversion of int8 elements to real numbers."""

    TFLITE = ("DEQUANTIZE",)
    RELAY = relay("qnn.dequantize")

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        require(len(inputs) == 1, f"Dequantize has {len(inputs)} inputs, must have 1")
        require_int8(inputs[0], "input")
        return TensorType(inputs[0].shape, DType.FLOAT32)

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        x = site.inputs[0]
        return dequantised(inputs[0][out.slices], x)

    def kernel(self, site: Site) -> Kernel:
        x, y = site.inputs[0], site.output
        return Kernel(
            "dequantize_s8_f32",
            params=(("width", y.elements // row_count(y.shape)), ("zero_point", x.zero_point)),
            tables=(("scale", Table.of(np.array([x.scale], np.float32))),),
            by_rows=True,
        )


def dequantised(elements: Array, type: TensorType) -> Array:
    """Real numbers of the elements of a quantised tensor, as float32."""
    steps = elements.astype(np.int32) - type.zero_point
    return np.float32(type.scale) * steps.astype(np.float32)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite DEQUANTIZE."""
    yield unary_node(Dequantize(), node, DType.FLOAT32)


SAMPLES = (
    sample(Dequantize(), int8(1, 4, 3, 5)),
    sample(Dequantize(), int8(9, scale=0.0039, zero=-128)),
)
