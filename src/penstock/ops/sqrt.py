"""Sqrt: square root.

    x  any shape  float32
    y  as x       as x     y = sqrt(x), correctly rounded; NaN for x < 0

Source: TFLite SQRT; `micro/kernels/elementwise.cc`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.operator_facts import RelayName, relay
from penstock.ir.tensor import DType
from penstock.opkit.float_functions import square_root
from penstock.opkit.plain import Arithmetic, Plain, typed_nodes
from penstock.opkit.samples import reals, sample


@dataclass(frozen=True, slots=True)
class Sqrt(Plain):
    """Square root."""

    TFLITE: ClassVar[tuple[str, ...]] = ("SQRT",)
    RELAY: ClassVar[tuple[RelayName, ...]] = relay("sqrt")
    INPUTS: ClassVar[int] = 1
    ARITHMETIC: ClassVar[Mapping[DType, Arithmetic]] = {
        DType.FLOAT32: Arithmetic(square_root, "sqrt_f32"),
    }


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite SQRT."""
    yield from typed_nodes(node, Sqrt(), None)


SAMPLES = (
    sample(Sqrt(), reals(1, 4, 3, 5)),
    sample(Sqrt(), reals(7)),
)
