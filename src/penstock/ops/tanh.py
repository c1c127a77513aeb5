"""Tanh: the hyperbolic tangent.

    x  any shape  int8
    y  as x       int8     scale 1/128, zero point 0

Source: TFLite TANH; `reference/integer_ops/tanh.h`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.tensor import Array, TensorType
from penstock.ops import sigmoid, transcendental
from penstock.ops.elementwise import made
from penstock.ops.lookup import Lookup
from penstock.ops.samples import int8, sample

OUTPUT_BITS = 7


@dataclass(frozen=True, slots=True)
class Tanh(Lookup):
    """The hyperbolic tangent."""

    FOREIGN: ClassVar[tuple[str, ...]] = ("TANH",)

    def table(self, x: TensorType, y: TensorType) -> Array:
        return sigmoid.table(transcendental.tanh, x, OUTPUT_BITS, y.zero_point)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite TANH."""
    out = node.output().type
    if (out.scale, out.zero_point) != (1 / 128, 0):
        raise node.unsupported(
            f"output has scale {out.scale} and zero point {out.zero_point}, must be 1/128 and 0"
        )
    yield from made(Tanh(), node, 1)


SAMPLES = (
    sample(Tanh(), int8(1, 4, 3, 5), scale=1 / 128, zero=0),
    sample(Tanh(), int8(2, 7, scale=0.3), scale=1 / 128, zero=0),
)
