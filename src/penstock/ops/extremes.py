"""Extremes: the larger or the smaller of two elements; inputs may be broadcast.

    a, b, y  int8     one scale and zero point; PlainMaximum, PlainMinimum: int32 or float32

Source: TFLite MAXIMUM, MINIMUM; `reference/maximum_minimum.h`, which compares elements without
requantisation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Kernel, Site
from penstock.ir.operator_facts import AxisOrder, OnnxName, onnx, relay
from penstock.ir.region import Region
from penstock.ir.tensor import Array, TensorType
from penstock.opkit import broadcast
from penstock.opkit.broadcast import Elementwise, Plain, arithmetic
from penstock.opkit.checks import require_one_quantisation
from penstock.opkit.elementwise_nodes import typed_nodes
from penstock.opkit.nodes import RealNodes, in_scale_of_output, is_real
from penstock.opkit.samples import int8, integers, reals, sample


@dataclass(frozen=True, slots=True)
class _Extreme(Elementwise):
    """The larger or the smaller of two elements."""

    COMMUTATIVE = True
    LARGER: ClassVar[bool]

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        return broadcast.int8_result(inputs, 2, type(self).__name__)

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        a, b = (broadcast.take(x, t, out) for x, t in zip(inputs, site.inputs, strict=True))
        chosen = np.maximum(a, b) if self.LARGER else np.minimum(a, b)
        return chosen.astype(np.int8)

    def kernel(self, site: Site) -> Kernel:
        params = (*broadcast.params(site), ("larger", int(self.LARGER)))
        return Kernel("extreme_s8", params, by_rows=True)


@dataclass(frozen=True, slots=True)
class Maximum(_Extreme):
    """Element-wise maximum; inputs may be broadcast."""

    TFLITE = ("MAXIMUM",)
    ONNX = onnx(OnnxName(AxisOrder.ALIKE, carries=True, floats=True), "Max")
    RELAY = relay("maximum")
    LARGER = True


@dataclass(frozen=True, slots=True)
class Minimum(_Extreme):
    """Element-wise minimum; inputs may be broadcast."""

    TFLITE = ("MINIMUM",)
    ONNX = onnx(OnnxName(AxisOrder.ALIKE, carries=True, floats=True), "Min")
    RELAY = relay("minimum")
    LARGER = False


def _larger(a: Array, b: Array) -> Array:
    return np.where(a > b, a, b)


def _smaller(a: Array, b: Array) -> Array:
    return np.where(a < b, a, b)


@dataclass(frozen=True, slots=True)
class PlainMaximum(Plain):
    """Element-wise maximum of two tensors of plain numbers; b where one is NaN."""

    INPUTS = 2
    ARITHMETIC = arithmetic("maximum", int32=_larger, float32=_larger)


@dataclass(frozen=True, slots=True)
class PlainMinimum(Plain):
    """Element-wise minimum of two tensors of plain numbers; b where one is NaN."""

    INPUTS = 2
    ARITHMETIC = arithmetic("minimum", int32=_smaller, float32=_smaller)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite MAXIMUM, MINIMUM.  Raises UnsupportedError unless all tensors share one scale."""
    larger = node.name == "MAXIMUM"
    op, plain = (Maximum(), PlainMaximum()) if larger else (Minimum(), PlainMinimum())
    if node.output().type.dtype not in plain.ARITHMETIC:
        types = (node.input(0).type, node.input(1).type, node.output().type)
        require_one_quantisation(types, "inputs and output")
    yield from typed_nodes(node, plain, op)


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX Max, Min; inputs are first requantised to the output's scale.  That is exact, because
    rounding is monotonic."""
    larger = node.name == "Max"
    op, plain = (Maximum(), PlainMaximum()) if larger else (Minimum(), PlainMinimum())
    if is_real(node):
        real = RealNodes(node)
        found, *rest = (real.input(k) for k, _ in enumerate(node.inputs))
        for other in rest or [found]:
            found = real.apply(plain, found, other)
        yield from real.result(found)
        return
    values: list[Value] = []
    for k, _ in enumerate(node.inputs):
        value, made = in_scale_of_output(node, k)
        yield from made
        values.append(value)
    x, *others = values if len(values) > 1 else values * 2
    for k, other in enumerate(others[:-1]):
        step = node.between(op, x, other, label=f"of{k + 2}", like=x.type.quantisation)
        yield step
        x = step.output
    yield node.made(op, x, others[-1])


SAMPLES = (
    *(
        sample(op, *inputs, scale=0.05, zero=-3)
        for op in (Maximum(), Minimum())
        for inputs in ((int8(1, 4, 3, 5), int8(1, 4, 3, 5)), (int8(5), int8(2, 4, 1, 5)))
    ),
    *(
        sample(op, *inputs)
        for op in (PlainMaximum(), PlainMinimum())
        for inputs in ((reals(2, 4, 3, 5), reals(4, 1, 5)), (integers(1, 4, 3, 5), integers(1)))
    ),
)
