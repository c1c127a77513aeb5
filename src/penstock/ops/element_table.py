"""ElementTable: a function of one int8 variable, given by its 256 results.

    x  any shape  int8
    y  as x       int8     y = results[x + 128]

The ONNX front end creates it from element-wise operators on real numbers, none of which has a
quantisation of its own, between a DequantizeLinear and a QuantizeLinear.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.ir.tensor import Array, TensorType
from penstock.opkit.checks import require
from penstock.opkit.lookup import Lookup
from penstock.opkit.samples import int8, sample


@dataclass(frozen=True, slots=True)
class ElementTable(Lookup):
    """`results`: output elements for the input elements -128 .. 127."""

    results: tuple[int, ...]

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        require(
            len(self.results) == 256 and all(-128 <= y < 128 for y in self.results),
            f"the table has {len(self.results)} results, must be 256 of type int8",
        )
        return Lookup.result_type(self, inputs)

    def table(self, x: TensorType, y: TensorType) -> Array:
        return np.array(self.results, np.int8)


_CURVE = ElementTable(tuple(k * k // 128 - 64 for k in range(-128, 128)))
_STEPS = ElementTable(tuple(-k & ~7 for k in range(-127, 129)))

SAMPLES = (
    sample(_CURVE, int8(1, 4, 3, 5)),
    sample(_STEPS, int8(7), scale=0.2, zero=-9),
)
