"""Maximum: element-wise maximum; inputs may be broadcast.

    a, b, y  int8     one scale and zero point; PlainMaximum: int32 or float32

Source: TFLite MAXIMUM; `reference/maximum_minimum.h`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.operator_facts import AxisOrder, OnnxName, RelayName, relay
from penstock.ir.tensor import Array, DType
from penstock.opkit.extreme import Extreme, from_foreign_extreme, from_onnx_extreme
from penstock.opkit.plain import Arithmetic, Plain
from penstock.opkit.samples import int8, integers, reals, sample


@dataclass(frozen=True, slots=True)
class Maximum(Extreme):
    """Element-wise maximum of two tensors."""

    TFLITE: ClassVar[tuple[str, ...]] = ("MAXIMUM",)
    ONNX: ClassVar[Mapping[str, OnnxName]] = {
        "Max": OnnxName(AxisOrder.ALIKE, carries=True, floats=True)
    }
    RELAY: ClassVar[tuple[RelayName, ...]] = relay("maximum")
    COMMUTATIVE: ClassVar[bool] = True
    LARGER: ClassVar[bool] = True


def _chosen(a: Array, b: Array) -> Array:
    return np.where(a > b, a, b)


@dataclass(frozen=True, slots=True)
class PlainMaximum(Plain):
    """Element-wise maximum of two tensors of plain numbers; b where one is NaN."""

    INPUTS: ClassVar[int] = 2
    ARITHMETIC: ClassVar[Mapping[DType, Arithmetic]] = {
        DType.INT32: Arithmetic(_chosen, "maximum_s32"),
        DType.FLOAT32: Arithmetic(_chosen, "maximum_f32"),
    }


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite MAXIMUM."""
    yield from from_foreign_extreme(Maximum(), PlainMaximum(), node)


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX Max of two tensors."""
    yield from from_onnx_extreme(Maximum(), PlainMaximum(), node)


SAMPLES = (
    sample(Maximum(), int8(1, 4, 3, 5), int8(1, 4, 3, 5), scale=0.05, zero=-3),
    sample(Maximum(), int8(5), int8(2, 4, 1, 5), scale=0.05, zero=-3),
    sample(PlainMaximum(), reals(2, 4, 3, 5), reals(4, 1, 5)),
    sample(PlainMaximum(), integers(1, 4, 3, 5), integers(1)),
)
