"""Round: nearest integer; the even one of two.

    x  any shape  float32
    y  as x       as x     y = round(x)

Source: TFLite ROUND; `reference/round.h`.
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
from penstock.opkit.samples import reals, sample


def _rounded(x: Array) -> Array:
    """As the reference, numbers in (-0.5, 0) yield +0."""
    floor = np.floor(x)
    remainder = x - floor
    up = (remainder > 0.5) | ((remainder == 0.5) & (np.fmod(floor, 2) != 0))
    return np.where(up, floor + np.float32(1), floor)


@dataclass(frozen=True, slots=True)
class Round(Plain):
    """Nearest integer; the even one of two."""

    TFLITE: ClassVar[tuple[str, ...]] = ("ROUND",)
    RELAY: ClassVar[tuple[RelayName, ...]] = relay("round")
    INPUTS: ClassVar[int] = 1
    ARITHMETIC: ClassVar[Mapping[DType, Arithmetic]] = {
        DType.FLOAT32: Arithmetic(_rounded, "round_f32"),
    }


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite ROUND."""
    yield from typed_nodes(node, Round(), None)


SAMPLES = (
    sample(Round(), reals(1, 4, 3, 5)),
    sample(Round(), reals(7)),
)
