"""ReduceMax, ReduceMin: the maximum or minimum along axes.

    x  int8 or bool, up to rank 4
    y  as x   same scale and zero point

Source: TFLite REDUCE_MAX, REDUCE_MIN, REDUCE_ANY, REDUCE_ALL; `reference/reduce.h`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from penstock.ir.affine import Affine
from penstock.ir.exchange import exchanged_axis
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Kernel, OperatorDefaults, Site, Work
from penstock.ir.operator_facts import AxisOrder, OnnxName, onnx, relay
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit import reduction
from penstock.opkit.checks import require_dtype
from penstock.opkit.nodes import requantised
from penstock.opkit.samples import int8, sample


@dataclass(frozen=True, slots=True)
class _Extreme(OperatorDefaults):
    """Maximum (`SIGN` 1) or minimum (-1) along `axes`, which keep extent 1."""

    axes: tuple[int, ...]

    SIGN: ClassVar[int]

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        dtype = DType.BOOL if inputs and inputs[0].dtype is DType.BOOL else DType.INT8
        return reduction.result_type(inputs, self.axes, dtype, (DType.BOOL,))

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        (read,) = self.needs(site, out)
        x = inputs[0][read.slices]
        find = x.max if self.SIGN > 0 else x.min
        return find(axis=self.axes, keepdims=True)

    def needs(self, site: Site, out: Region) -> tuple[Region, ...]:
        return reduction.needs(site, self.axes, out)

    def affine(self, site: Site) -> tuple[Affine, ...]:
        return reduction.affine(site, self.axes)

    def exchanged(self, rank: int) -> Self:
        return replace(self, axes=tuple(sorted(exchanged_axis(axis, rank) for axis in self.axes)))

    def work(self, site: Site, out: Region) -> Work:
        return reduction.work(site, self.axes, out)

    def kernel(self, site: Site) -> Kernel:
        return Kernel(
            "reduce_extreme_s8",
            params=(*reduction.params(site, self.axes), ("sign", self.SIGN)),
            by_rows=True,
        )


@dataclass(frozen=True, slots=True)
class ReduceMax(_Extreme):
    """The maximum along `axes`."""

    TFLITE = ("REDUCE_MAX", "REDUCE_ANY")
    ONNX = onnx(OnnxName(AxisOrder.ALIKE, carries=True), "ReduceMax")
    RELAY = relay("max")
    SIGN = 1


@dataclass(frozen=True, slots=True)
class ReduceMin(_Extreme):
    """The minimum along `axes`."""

    TFLITE = ("REDUCE_MIN", "REDUCE_ALL")
    ONNX = onnx(OnnxName(AxisOrder.ALIKE, carries=True), "ReduceMin")
    RELAY = relay("min")
    SIGN = -1


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite REDUCE_MAX, REDUCE_MIN, REDUCE_ANY, REDUCE_ALL."""
    x, y = node.input(0).type, node.output().type
    is_logical = node.name in ("REDUCE_ANY", "REDUCE_ALL")
    require_dtype(y, (DType.BOOL if is_logical else DType.INT8,), "output")
    if (x.scale, x.zero_point) != (y.scale, y.zero_point):
        raise node.unsupported("input and output differ in scale or zero point, must be equal")
    return reduction.understood(node, ReduceMax if node.name in ReduceMax.TFLITE else ReduceMin)


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX ReduceMax, ReduceMin."""
    make = ReduceMax if node.name == "ReduceMax" else ReduceMin
    return reduction.onnx_nodes(node, lambda n, axes: requantised(n, make(axes), n.input(0)))


SAMPLES = (
    sample(ReduceMax((1, 2)), int8(1, 5, 3, 4), scale=0.05, zero=-3),
    sample(ReduceMin((3,)), int8(2, 3, 2, 7), scale=0.05, zero=-3),
    sample(ReduceMin((0,)), int8(3, 4), scale=0.05, zero=-3),
    sample(ReduceMax((2,)), TensorType((1, 4, 3, 5), DType.BOOL)),
)
