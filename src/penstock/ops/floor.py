"""Floor: largest integer that is not above x.

    x  any shape  float32
    y  as x       as x     y = floor(x)

Source: TFLite FLOOR; `reference/floor.h`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.operator_facts import RelayName, relay
from penstock.ir.tensor import DType
from penstock.opkit.plain import Arithmetic, Plain, typed_nodes
from penstock.opkit.samples import reals, sample


@dataclass(frozen=True, slots=True)
class Floor(Plain):
    """Largest integer that is not above x."""

    TFLITE: ClassVar[tuple[str, ...]] = ("FLOOR",)
    RELAY: ClassVar[tuple[RelayName, ...]] = relay("floor")
    INPUTS: ClassVar[int] = 1
    ARITHMETIC: ClassVar[Mapping[DType, Arithmetic]] = {
        DType.FLOAT32: Arithmetic(np.floor, "floor_f32"),
    }


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite FLOOR."""
    yield from typed_nodes(node, Floor(), None)


SAMPLES = (
    sample(Floor(), reals(1, 4, 3, 5)),
    sample(Floor(), reals(7)),
)
