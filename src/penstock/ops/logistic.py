"""Logistic: 1 / (1 + exp(-x)).

    x  any shape  int8
    y  as x       int8     scale 1/256, zero point -128

Source: TFLite LOGISTIC; `reference/integer_ops/logistic.h`.  TensorFlow's own kernel makes a table
in single precision instead; TFLite Micro's fixed point, which we follow, differs from it where the
input's scale is so large (above 4) that it saturates early.
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

OUTPUT_BITS = 8


@dataclass(frozen=True, slots=True)
class Logistic(Lookup):
    """The logistic function."""

    FOREIGN: ClassVar[tuple[str, ...]] = ("LOGISTIC",)

    def table(self, x: TensorType, y: TensorType) -> Array:
        return sigmoid.table(transcendental.logistic, x, OUTPUT_BITS, y.zero_point)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite LOGISTIC."""
    out = node.output().type
    if (out.scale, out.zero_point) != (1 / 256, -128):
        raise node.unsupported(
            f"output has scale {out.scale} and zero point {out.zero_point}, must be 1/256 and -128"
        )
    yield from made(Logistic(), node, 1)


SAMPLES = (
    sample(Logistic(), int8(1, 4, 3, 5), scale=1 / 256, zero=-128),
    sample(Logistic(), int8(9, scale=0.4), scale=1 / 256, zero=-128),
)
