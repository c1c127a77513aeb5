"""Shape: the shape of a tensor, a constant at compile time.

    x  any shape, any type; its elements are not read
    y  (rank,)  int32 or int64

Source: TFLite SHAPE.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from penstock.ir.affine import Affine
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.op import Kernel, OperatorDefaults, Site, Table
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit.checks import require, require_dtype
from penstock.opkit.samples import int8, sample


@dataclass(frozen=True, slots=True)
class Shape(OperatorDefaults):
    """Extents as elements of type `dtype`."""

    dtype: DType = DType.INT32

    TFLITE = ("SHAPE",)

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        require(len(inputs) == 1, f"shape has {len(inputs)} inputs, must have 1")
        return TensorType((inputs[0].rank,), self.dtype)

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        return self._extents(site)[out.slices]

    def needs(self, site: Site, out: Region) -> tuple[Region, ...]:
        nothing = (0,) * site.inputs[0].rank
        return (Region(nothing, nothing),)

    def affine(self, site: Site) -> tuple[Affine, ...]:
        return (Affine.constant((0,) * site.inputs[0].rank, 1),)

    def kernel(self, site: Site) -> Kernel:
        raw = self._extents(site).view(np.int8)
        return Kernel("constant", (("bytes", raw.size),), (("data", Table.of(raw)),))

    def _extents(self, site: Site) -> Array:
        return np.array(site.inputs[0].shape, self.dtype.value)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite SHAPE."""
    out = node.output()
    require_dtype(out.type, (DType.INT32, DType.INT64), "output")
    yield Made(Shape(out.type.dtype), (node.input(0),), out)


SAMPLES = (sample(Shape(), int8(1, 3, 5, 2)), sample(Shape(DType.INT64), int8(4)))
