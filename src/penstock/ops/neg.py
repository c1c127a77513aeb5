"""Neg: negation.

    x  any shape  int32 or float32
    y  as x       as x     y = -x

Source: TFLite NEG; `reference/neg.h`.
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
from penstock.opkit.samples import integers, reals, sample


@dataclass(frozen=True, slots=True)
class Neg(Plain):
    """Negation."""

    TFLITE: ClassVar[tuple[str, ...]] = ("NEG",)
    RELAY: ClassVar[tuple[RelayName, ...]] = relay("negative")
    INPUTS: ClassVar[int] = 1
    ARITHMETIC: ClassVar[Mapping[DType, Arithmetic]] = {
        DType.INT32: Arithmetic(np.negative, "neg_s32"),
        DType.FLOAT32: Arithmetic(np.negative, "neg_f32"),
    }


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite NEG."""
    yield from typed_nodes(node, Neg(), None)


SAMPLES = (
    sample(Neg(), integers(1, 4, 3, 5)),
    sample(Neg(), integers(7)),
    sample(Neg(), reals(1, 4, 3, 5)),
    sample(Neg(), reals(7)),
)
