"""Cumsum: sums of the elements up to each one, along an axis.

    x  any shape  int32 or float32
    y  as x       as x

`exclusive` leaves out the element itself; `reverse` adds from the end.  int32 wraps around; float32
is rounded after each addition.

Source: TFLite CUMSUM; `reference/cumsum.h`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.ir.affine import Affine
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.op import Kernel, Site, Work
from penstock.ir.operator_facts import OperatorDefaults, RelayName, relay
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit.axes import one_axis
from penstock.opkit.checks import require, require_dtype
from penstock.opkit.samples import integers, reals, sample

_KERNELS = {DType.INT32: "cumsum_s32", DType.FLOAT32: "cumsum_f32"}


@dataclass(frozen=True, slots=True)
class Cumsum(OperatorDefaults):
    """Cumulative sum along `axis`."""

    axis: int
    exclusive: bool = False
    reverse: bool = False

    TFLITE: ClassVar[tuple[str, ...]] = ("CUMSUM",)
    RELAY: ClassVar[tuple[RelayName, ...]] = relay("cumsum")

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        require(len(inputs) == 1, f"Cumsum has {len(inputs)} inputs, must have 1")
        x = inputs[0]
        require_dtype(x, tuple(_KERNELS), "input")
        require(0 <= self.axis < x.rank, f"axis is {self.axis}, rank is {x.rank}")
        return TensorType(x.shape, x.dtype)

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        (read,) = self.needs(site, out)
        x = inputs[0][read.slices]
        if self.reverse:
            x = np.flip(x, self.axis)
        if self.exclusive:
            x = np.insert(x, 0, 0, self.axis)
        lower, upper = out.intervals[self.axis]
        with np.errstate(all="ignore"):
            found = np.add.accumulate(x, self.axis, dtype=site.output.dtype.value)
        extent = site.output.shape[self.axis]
        first, last = (extent - upper, extent - lower) if self.reverse else (lower, upper)
        kept = np.take(found, np.arange(first, last), self.axis)
        return np.flip(kept, self.axis) if self.reverse else kept

    def needs(self, site: Site, out: Region) -> tuple[Region, ...]:
        if out.empty:
            return (out,)
        lower, upper = out.intervals[self.axis]
        extent = site.output.shape[self.axis]
        if self.reverse:
            return (out.replace(self.axis, (min(lower + self.exclusive, extent), extent)),)
        return (out.replace(self.axis, (0, max(upper - self.exclusive, 0))),)

    def affine(self, site: Site) -> tuple[Affine, ...]:
        shape = site.output.shape
        factors = tuple(int(axis != self.axis) for axis in range(len(shape)))
        extra = tuple(extent if axis == self.axis else 0 for axis, extent in enumerate(shape))
        return (Affine.diagonal(factors, extra),)

    def work(self, site: Site, out: Region) -> Work:
        return Work(0, out.elements)

    def in_place(self, site: Site) -> tuple[int, ...]:
        return ()

    def kernel(self, site: Site) -> Kernel:
        y = site.output
        return Kernel(
            _KERNELS[y.dtype],
            params=(
                ("outer", math.prod(y.shape[: self.axis])),
                ("depth", y.shape[self.axis]),
                ("inner", math.prod(y.shape[self.axis + 1 :])),
                ("exclusive", int(self.exclusive)),
                ("reverse", int(self.reverse)),
            ),
        )


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite CUMSUM."""
    x, y = node.input(0), node.output()
    require_dtype(y.type, tuple(_KERNELS), "output")
    axis = one_axis(node, 1, x.type.rank)
    op = Cumsum(axis, bool(node.integer("exclusive")), bool(node.integer("reverse")))
    yield Made(op, (x,), y)


SAMPLES = (
    sample(Cumsum(1), reals(2, 4, 3, 5)),
    sample(Cumsum(3, exclusive=True), reals(1, 4, 3, 5)),
    sample(Cumsum(0, reverse=True), integers(4, 5)),
    sample(Cumsum(2, exclusive=True, reverse=True), reals(1, 4, 3, 5)),
)
