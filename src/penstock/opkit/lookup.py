"""Lookup: base of operators of one int8 variable, computed by a 256-entry table.

    x  any shape  int8
    y  as x       int8     y = table[x + 128]

The table is computed with the arithmetic of the reference.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from penstock.fixedpoint import Int64s, float32, round_half_away
from penstock.ir.op import Kernel, Site, Table, row_count
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit.checks import require, require_int8
from penstock.opkit.elementwise import Elementwise

ELEMENTS: Int64s = np.arange(-128, 128, dtype=np.int64)
"""Every int8 element, in the table's order."""
LARGEST_STEPS = 512.0
"""Largest magnitude of a quotient of a real number and a scale, before it is rounded; larger ones
are clamped to it.  It saturates every 8-bit element, whatever the zero point."""


@dataclass(frozen=True, slots=True)
class Lookup(Elementwise, ABC):
    """A function of one int8 variable."""

    @abstractmethod
    def table(self, x: TensorType, y: TensorType) -> Array:
        """Output elements for the input elements -128 .. 127: int8, shape (256,)."""

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        require(len(inputs) == 1, f"{type(self).__name__} has {len(inputs)} inputs, must have 1")
        require_int8(inputs[0], "input")
        return TensorType(inputs[0].shape, DType.INT8)

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        table = _table(self, site.inputs[0], site.output)
        return table[inputs[0][out.slices].astype(np.int64) + 128]

    def kernel(self, site: Site) -> Kernel:
        x, y = site.inputs[0], site.output
        return Kernel(
            "lookup_s8",
            params=(("width", y.elements // row_count(y.shape)),),
            tables=(("table", Table.of(self.table(x, y))),),
            by_rows=True,
        )


@lru_cache(maxsize=512)
def _table(op: Lookup, x: TensorType, y: TensorType) -> Array:
    """The table, memoised because a tensor is evaluated region by region."""
    return op.table(x, y)


def saturated(y: Int64s) -> Array:
    """Elements clamped to int8."""
    return np.clip(y, -128, 127).astype(np.int8)


def scale_ratio(x: TensorType, y: TensorType) -> float:
    """Scale of x over scale of y, in double precision.

    TensorFlow, and TensorFlow Lite Micro before 2026, divide in single precision, which changes
    elements whose exact value is close to a tie (tensorflow/tflite-micro, issue 3271)."""
    return x.scale / y.scale


def sampled(function: Callable[[float], float], x: TensorType, y: TensorType) -> Array:
    """Table of a function evaluated in single precision, as TFLite computes it.

    The input is dequantised, and the result multiplied by the reciprocal of the output's scale, in
    single precision.

    Source: TFLite, `LUTPopulate` (kernels/internal/common.h)."""
    inverse = float32(1.0 / y.scale)
    found: list[int] = []
    for element in ELEMENTS:
        scaled = float32(function(float32(x.scale * (int(element) - x.zero_point))) * inverse)
        bounded = min(max(scaled, -LARGEST_STEPS), LARGEST_STEPS)
        found.append(round_half_away(bounded) + y.zero_point)
    return saturated(np.array(found, np.int64))
