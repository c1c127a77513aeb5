"""Square: square.

    x  any shape  float32
    y  as x       as x     y = x * x

Source: TFLite SQUARE; `micro/kernels/elementwise.cc`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.tensor import DType
from penstock.opkit.plain import Arithmetic, Plain, typed_nodes
from penstock.opkit.samples import reals, sample


@dataclass(frozen=True, slots=True)
class Square(Plain):
    """Square."""

    TFLITE: ClassVar[tuple[str, ...]] = ("SQUARE",)
    INPUTS: ClassVar[int] = 1
    ARITHMETIC: ClassVar[Mapping[DType, Arithmetic]] = {
        DType.FLOAT32: Arithmetic(np.square, "square_f32"),
    }


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite SQUARE."""
    yield from typed_nodes(node, Square(), None)


SAMPLES = (
    sample(Square(), reals(1, 4, 3, 5)),
    sample(Square(), reals(7)),
)
