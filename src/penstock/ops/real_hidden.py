"""RealHidden: the hidden state, quantised, in the rows that a recurrent layer computes.

x  (1, T, B, n * U)  float32  row t: n states after step t, the hidden state last
y  (1, T, B, U)      int8     y = zero_y + x / scale_y, rounded half to even

Source: ONNX operator specification, QuantizeLinear, in single precision.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.ir.affine import Affine
from penstock.ir.op import Kernel, OperatorDefaults, Site, Table
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit.checks import require, require_dtype, require_rank
from penstock.opkit.lookup import LARGEST_STEPS, saturated
from penstock.opkit.samples import reals, sample


@dataclass(frozen=True, slots=True)
class RealHidden(OperatorDefaults):
    """The last `units` channels of each row, quantised; quotients that overflow saturate, and NaN
    counts as the smallest one."""

    units: int

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        require(len(inputs) == 1, f"there are {len(inputs)} inputs, must be 1")
        require_rank(inputs[0], (4,), "input")
        require_dtype(inputs[0], (DType.FLOAT32,), "input")
        *others, channels = inputs[0].shape
        require(
            0 < self.units <= channels,
            f"{self.units} channels are taken, must be within [1, {channels}]",
        )
        return TensorType((*others, self.units), DType.INT8)

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        (read,) = self.needs(site, out)
        with np.errstate(over="ignore", invalid="ignore"):
            quotients = inputs[0][read.slices] / np.float32(site.output.scale)
        steps = np.rint(np.fmin(np.fmax(quotients, -LARGEST_STEPS), LARGEST_STEPS))
        return saturated(steps.astype(np.int64) + site.output.zero_point)

    def needs(self, site: Site, out: Region) -> tuple[Region, ...]:
        first = self._first(site)
        lower, upper = out.intervals[3]
        return (out.replace(3, (lower + first, upper + first)),)

    def affine(self, site: Site) -> tuple[Affine, ...]:
        return (Affine.diagonal((1, 1, 1, 1), offset=(0, 0, 0, self._first(site))),)

    def kernel(self, site: Site) -> Kernel:
        _, _, batch, channels = site.inputs[0].shape
        return Kernel(
            "hidden_f32_s8",
            params=(
                ("batch", batch),
                ("in_c", channels),
                ("units", self.units),
                ("zero_point", site.output.zero_point),
            ),
            tables=(("scale", Table.of(np.array([site.output.scale], np.float32))),),
            by_rows=True,
        )

    def _first(self, site: Site) -> int:
        return site.inputs[0].shape[3] - self.units


SAMPLES = (
    sample(RealHidden(3), reals(1, 4, 2, 6), scale=1 / 128, zero=0),
    sample(RealHidden(5), reals(1, 3, 1, 5), scale=0.03, zero=-7),
)
