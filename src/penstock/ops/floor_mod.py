"""FloorMod: element-wise remainder with the sign of the divisor; inputs may be broadcast.

    a, b, y  int32   y = a - b * floor(a / b)

The reference fails if a divisor is 0, for which penstock yields a.

Source: TFLite FLOOR_MOD; `kernels/floor_mod.cc`.
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
from penstock.opkit.samples import integers, sample


def _remainder(a: Array, b: Array) -> Array:
    wide = a.astype(np.int64) % np.where(b == 0, 1, b)
    return np.where(b == 0, a, wide).astype(np.int32)


@dataclass(frozen=True, slots=True)
class FloorMod(Plain):
    """Remainder of the division of two tensors."""

    TFLITE: ClassVar[tuple[str, ...]] = ("FLOOR_MOD",)
    RELAY: ClassVar[tuple[RelayName, ...]] = relay("floor_mod")
    INPUTS: ClassVar[int] = 2
    ARITHMETIC: ClassVar[Mapping[DType, Arithmetic]] = {
        DType.INT32: Arithmetic(_remainder, "floor_mod_s32")
    }


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite FLOOR_MOD."""
    yield from typed_nodes(node, FloorMod(), None)


SAMPLES = (
    sample(FloorMod(), integers(1, 4, 3, 5), integers(1, 4, 3, 5)),
    sample(FloorMod(), integers(2, 4, 3, 5), integers(4, 1, 5)),
)
