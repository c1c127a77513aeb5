"""Quantize: requantisation to another scale and zero point.

    x  any shape  int8
    y  as x       int8     y = clamp(zero_y + M * (x - zero_x))

Source: TFLite QUANTIZE; `reference/requantize.h`.  Only from int8 to int8.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from penstock.fixedpoint import multiply, quantise_multiplier
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.operator_facts import RelayName, relay
from penstock.ir.tensor import Array, TensorType
from penstock.opkit.elementwise import elementwise_nodes
from penstock.opkit.lookup import ELEMENTS, Lookup, saturated
from penstock.opkit.samples import int8, sample


@dataclass(frozen=True, slots=True)
class Quantize(Lookup):
    """Requantisation."""

    TFLITE: ClassVar[tuple[str, ...]] = ("QUANTIZE",)
    RELAY: ClassVar[tuple[RelayName, ...]] = relay("qnn.requantize")

    def table(self, x: TensorType, y: TensorType) -> Array:
        multiplier = quantise_multiplier(x.scale / y.scale)
        return saturated(multiply(ELEMENTS - x.zero_point, *multiplier) + y.zero_point)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite QUANTIZE."""
    yield from elementwise_nodes(Quantize(), node, 1)


SAMPLES = (
    sample(Quantize(), int8(1, 4, 3, 5)),
    sample(Quantize(), int8(2, 3, 1, 4, 5), scale=0.011, zero=-128),
)
