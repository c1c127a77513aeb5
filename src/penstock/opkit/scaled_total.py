"""ScaledTotal: base of Mean and Sum: a sum along axes, requantised.

    x  int8
    y  int8   clamp(zero_y + M * sum (x - zero_x))

M is scale_x / scale_y, divided by the number of elements for a mean.  The reference divides the
integer multiplier, which may then be below 2**30 and loses bits.

Source: TFLite `QuantizedMeanOrSum` (`reference/reduce.h`), as TFLite Micro calls it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from penstock.fixedpoint import multiply
from penstock.ir.affine import Affine
from penstock.ir.exchange import exchanged_axis
from penstock.ir.op import Kernel, OperatorDefaults, Site, Work
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit import reduction
from penstock.opkit.requantise import Multipliers, fitting_multiplier
from penstock.opkit.running import Halves
from penstock.opkit.sliding import Window
from penstock.ops.requantise_last import RequantiseLast
from penstock.ops.running_sum import RunningSum


@dataclass(frozen=True, slots=True)
class ScaledTotal(OperatorDefaults):
    """Sum or mean of elements along `axes`."""

    axes: tuple[int, ...]

    MEAN: ClassVar[bool]

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        return reduction.result_type(inputs, self.axes, DType.INT8)

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        (read,) = self.needs(site, out)
        x = site.inputs[0]
        elements = inputs[0][read.slices].astype(np.int64) - x.zero_point
        total = elements.sum(axis=self.axes, keepdims=True)
        scaled = multiply(total, *self._multiplier(site)) + site.output.zero_point
        return np.clip(scaled, -128, 127).astype(np.int8)

    def needs(self, site: Site, out: Region) -> tuple[Region, ...]:
        return reduction.needs(site, self.axes, out)

    def affine(self, site: Site) -> tuple[Affine, ...]:
        return reduction.affine(site, self.axes)

    def exchanged(self, rank: int) -> Self:
        return replace(self, axes=tuple(sorted(exchanged_axis(axis, rank) for axis in self.axes)))

    def work(self, site: Site, out: Region) -> Work:
        return reduction.work(site, self.axes, out)

    def kernel(self, site: Site) -> Kernel:
        multiplier, shift = self._multiplier(site)
        return Kernel(
            "total_s8",
            params=(
                *reduction.params(site, self.axes),
                ("in_zero", site.inputs[0].zero_point),
                ("multiplier", multiplier),
                ("shift", shift),
                ("out_zero", site.output.zero_point),
            ),
            by_rows=True,
        )

    def halves(self, site: Site) -> Halves | None:
        """Sums accumulated over the rows of an image, then requantised."""
        x = site.inputs[0]
        if x.rank != 4 or x.shape[0] != 1 or 1 not in self.axes or 3 in self.axes:
            return None
        columns = Window(x.shape[2]) if 2 in self.axes else Window(1)
        totals = RunningSum(x.shape[1], columns, x.zero_point)
        multiplier, shift = self._multiplier(site)
        channels = x.shape[3]
        every = Multipliers((multiplier,) * channels, (shift,) * channels)
        count = reduction.count(site, self.axes)
        least, most = x.dtype.lower - x.zero_point, x.dtype.upper - 1 - x.zero_point
        reach = ((count * least, count * most + 1),) * channels
        return Halves(totals, totals.result_type((x,)), RequantiseLast(every, reach=reach))

    def _multiplier(self, site: Site) -> tuple[int, int]:
        count = reduction.count(site, self.axes)
        real = site.inputs[0].scale / site.output.scale
        multiplier, shift = fitting_multiplier(real, count * 255)
        if not self.MEAN:
            return multiplier, shift
        up = min(count.bit_length() - 1, 32, 31 + shift)
        return (multiplier << up) // count, shift - up
