"""Ceil: smallest integer that is not below x.

    x  any shape  float32
    y  as x       as x     y = ceil(x)

Source: TFLite CEIL; `reference/ceil.h`.
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
class Ceil(Plain):
    """Smallest integer that is not below x."""

    TFLITE: ClassVar[tuple[str, ...]] = ("CEIL",)
    RELAY: ClassVar[tuple[RelayName, ...]] = relay("ceil")
    INPUTS: ClassVar[int] = 1
    ARITHMETIC: ClassVar[Mapping[DType, Arithmetic]] = {
        DType.FLOAT32: Arithmetic(np.ceil, "ceil_f32"),
    }


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite CEIL."""
    yield from typed_nodes(node, Ceil(), None)


SAMPLES = (
    sample(Ceil(), reals(1, 4, 3, 5)),
    sample(Ceil(), reals(7)),
)
