"""Log: natural logarithm.

    x  any shape  float32
    y  as x       as x     y = log(x); -infinity for 0, NaN for x < 0

Source: TFLite LOG; `micro/kernels/elementwise.cc`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.operator_facts import RelayName, relay
from penstock.ir.tensor import DType
from penstock.opkit.float_functions import log
from penstock.opkit.plain import Arithmetic, Plain, typed_nodes
from penstock.opkit.samples import reals, sample


@dataclass(frozen=True, slots=True)
class Log(Plain):
    """Natural logarithm."""

    TFLITE: ClassVar[tuple[str, ...]] = ("LOG",)
    RELAY: ClassVar[tuple[RelayName, ...]] = relay("log")
    INPUTS: ClassVar[int] = 1
    REFERENCE_ULPS: ClassVar[int] = 1
    ARITHMETIC: ClassVar[Mapping[DType, Arithmetic]] = {
        DType.FLOAT32: Arithmetic(log, "log_f32"),
    }


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite LOG."""
    yield from typed_nodes(node, Log(), None)


SAMPLES = (
    sample(Log(), reals(1, 4, 3, 5)),
    sample(Log(), reals(7)),
)
