"""FloorDiv: element-wise quotient, rounded towards minus infinity; inputs may be broadcast.

    a, b, y  int32 or float32   y = floor(a / b)

float32 quotients are rounded once, after the floor.  The reference fails if an int32 divisor is 0,
for which penstock yields 0.

Source: TFLite FLOOR_DIV; `kernels/floor_div.cc`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.operator_facts import RelayName, relay
from penstock.ir.tensor import Array, DType
from penstock.opkit.plain import Arithmetic, Plain, typed_nodes
from penstock.opkit.samples import integers, reals, sample


def _floor_divided(a: Array, b: Array) -> Array:
    wide = a.astype(np.int64) // np.where(b == 0, 1, b)
    return np.where(b == 0, 0, wide).astype(np.int32)


def _quotient_floor(a: Array, b: Array) -> Array:
    return np.floor(a.astype(np.float64) / b.astype(np.float64)).astype(np.float32)


@dataclass(frozen=True, slots=True)
class FloorDiv(Plain):
    """Quotient of two tensors, rounded towards minus infinity."""

    TFLITE: ClassVar[tuple[str, ...]] = ("FLOOR_DIV",)
    RELAY: ClassVar[tuple[RelayName, ...]] = relay("floor_divide")
    INPUTS: ClassVar[int] = 2
    ARITHMETIC: ClassVar[Mapping[DType, Arithmetic]] = {
        DType.INT32: Arithmetic(_floor_divided, "floor_div_s32"),
        DType.FLOAT32: Arithmetic(_quotient_floor, "floor_div_f32"),
    }


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite FLOOR_DIV."""
    yield from typed_nodes(node, FloorDiv(), None)


SAMPLES = (
    sample(FloorDiv(), integers(1, 4, 3, 5), integers(1, 4, 3, 5)),
    sample(FloorDiv(), integers(1, 4, 3, 5), integers()),
    sample(FloorDiv(), reals(2, 4, 3, 5), reals(5)),
)
