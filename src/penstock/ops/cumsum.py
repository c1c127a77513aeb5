"""Cumsum, PlainCumsum: sums of the elements up to each one, along an axis.

    x  any shape  int8 (Cumsum), int32 or float32 (PlainCumsum)
    y  as x       as x

    Cumsum  y = clamp(zero_y + M * ((sum of (x - zero_x) - zero_x) << 19))

`exclusive` leaves out the element itself; `reverse` adds from the end.  Sums of integers wrap
around at 32 bits; int8 sums begin with -zero_x, as in the reference.  float32 is rounded after
each addition.

Source: TFLite CUMSUM; `reference/cumsum.h`, parameters in `micro/kernels/cumsum.cc`.
"""

from __future__ import annotations

import math

import numpy as np

from penstock.fixedpoint import multiply, quantise_multiplier
from penstock.frozen import frozen
from penstock.ir.affine import Affine
from penstock.ir.exchange import ExchangedAxis
from penstock.ir.foreign import ForeignNode, Made, Nodes
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import (
    Affines,
    Arrays,
    Kernel,
    OperatorDefaults,
    Params,
    Regions,
    Site,
    Types,
    members,
)
from penstock.ir.operator_facts import PLAIN, onnx, relay
from penstock.ir.tensor import Array, DType, Region, TensorType
from penstock.opkit.checks import (
    one_axis,
    require,
    require_count,
    require_dtype,
    require_int8,
    require_quantised,
)
from penstock.opkit.lookup import saturated
from penstock.opkit.real_nodes import RealNodes

EXTRA_BITS = 19
_KERNELS = {DType.INT32: "cumsum_s32", DType.FLOAT32: "cumsum_f32"}


@frozen
class _Sums(ExchangedAxis, OperatorDefaults):
    """Cumulative sum along `axis`."""

    axis: int
    exclusive: bool = False
    reverse: bool = False

    def summed(self, site: Site, x: Array, out: Region, first: int = 0) -> Array:
        """Sums of region `out` that begin with `first`; x has the elements that it needs."""
        (read,) = self.needs(site, out)
        x = x[read.slices]
        if self.reverse:
            x = np.flip(x, self.axis)
        # With a term before the first element, exclusive sums are inclusive ones one place earlier.
        x = np.insert(x, 0, first, self.axis)
        with np.errstate(all="ignore"):
            found = np.add.accumulate(x, self.axis, dtype=x.dtype)
        lower, upper = out.intervals[self.axis]
        if self.reverse:
            extent = site.output.shape[self.axis]
            lower, upper = extent - upper, extent - lower
        places = np.arange(lower, upper) + (not self.exclusive)
        kept = np.take(found, places, self.axis)
        return np.flip(kept, self.axis) if self.reverse else kept

    def needs(self, site: Site, out: Region) -> Regions:
        if out.empty:
            return (out,)
        lower, upper = out.intervals[self.axis]
        extent = site.output.shape[self.axis]
        if self.reverse:
            return (out.replace(self.axis, (min(lower + self.exclusive, extent), extent)),)
        return (out.replace(self.axis, (0, max(upper - self.exclusive, 0))),)

    def affine(self, site: Site) -> Affines:
        shape = site.output.shape
        factors = tuple(int(axis != self.axis) for axis in range(len(shape)))
        extra = tuple(extent if axis == self.axis else 0 for axis, extent in enumerate(shape))
        return (Affine.diagonal(factors, extra),)

    def params(self, site: Site) -> Params:
        """Leading parameters of the kernels."""
        shape = site.output.shape
        return members(
            outer=math.prod(shape[: self.axis]),
            depth=shape[self.axis],
            inner=math.prod(shape[self.axis + 1 :]),
            exclusive=self.exclusive,
            reverse=self.reverse,
        )

    def checked(self, inputs: Types) -> TensorType:
        """The type of the output, that of the only input.  Raises ModelError."""
        (x,) = require_count(inputs, 1, "cumulative sum")
        require(0 <= self.axis < x.rank, f"axis is {self.axis}, rank is {x.rank}")
        return TensorType(x.shape, x.dtype)


@frozen
class Cumsum(_Sums):
    """Cumulative sum of int8 elements along `axis`, with requantisation."""

    TFLITE = ("CUMSUM",)
    RELAY = relay("cumsum")

    def result_type(self, inputs: Types) -> TensorType:
        found = self.checked(inputs)
        require_int8(inputs[0], "input")
        return found

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        zero = site.x.zero_point
        centred = inputs[0].astype(np.int32) - np.int32(zero)
        sums = self.summed(site, centred << EXTRA_BITS, out, -zero * (1 << EXTRA_BITS))
        scaled = multiply(sums.astype(np.int64), *_multiplier(site.x, site.output))
        return saturated(scaled + site.output.zero_point)

    def kernel(self, site: Site) -> Kernel:
        multiplier, shift = _multiplier(site.x, site.output)
        zeros = (("zero", site.x.zero_point), ("out_zero", site.output.zero_point))
        scaling = (("out_multiplier", multiplier), ("out_shift", shift))
        return Kernel("cumsum_s8", (*self.params(site), *zeros, *scaling))


def _multiplier(x: TensorType, y: TensorType) -> tuple[int, int]:
    return quantise_multiplier(x.scale / (y.scale * (1 << EXTRA_BITS)))


@frozen
class PlainCumsum(_Sums):
    """Cumulative sum of plain numbers along `axis`."""

    ONNX = onnx(PLAIN, "CumSum")

    def result_type(self, inputs: Types) -> TensorType:
        found = self.checked(inputs)
        require_dtype(inputs[0], "input", *_KERNELS)
        return found

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        return self.summed(site, inputs[0], out)

    def kernel(self, site: Site) -> Kernel:
        return Kernel(_KERNELS[site.output.dtype], self.params(site))


def from_foreign(node: ForeignNode) -> Nodes:
    x, y = node.x, node.y
    require_dtype(y.type, "output", DType.INT8, *_KERNELS)
    attributes = (
        one_axis(node, 1, x.rank),
        bool(node.integer("exclusive")),
        bool(node.integer("reverse")),
    )
    if y.dtype is not DType.INT8:
        yield Made(PlainCumsum(*attributes), (x,), y)
        return
    require_quantised(y.type, "output")
    if x.scale >= y.scale * (1 << EXTRA_BITS):
        raise node.unsupported(
            f"input has scale {x.scale}, must be below 2**{EXTRA_BITS} times {y.scale}, "
            "that of the output"
        )
    yield Made(Cumsum(*attributes), (x,), y)


def from_onnx(node: OnnxNode) -> Nodes:
    """ONNX CumSum, of real numbers or int32."""
    axes = node.constant_ints(1)
    require(len(axes) == 1, f"axes are {list(axes)}, must be one")
    exclusive, reverse = bool(node.integer("exclusive")), bool(node.integer("reverse"))
    real = RealNodes(node)
    sums = PlainCumsum(node.axis(axes[0]), exclusive, reverse)
    is_plain = node.x.dtype in _KERNELS
    return real.result(real.apply(sums, real.plain(0) if is_plain else real.input(0)))
