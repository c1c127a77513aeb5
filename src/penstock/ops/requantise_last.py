"""RequantiseLast: requantises the last row of accumulators.

    x  (1, H, W, C)  int32     only row H - 1 is read
    y  (1, 1, W, C)  int8      clamp(zero_y + M[c] * x[H - 1])

Created from means, sums and layers that accumulate row by row (`passes/accumulate.py`).
Source: the arithmetic of those operators, which share `Multipliers.apply`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.fixedpoint import Rounding
from penstock.ir.op import Kernel, Site
from penstock.ir.region import Interval, Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit import running
from penstock.opkit.activation import Activation
from penstock.opkit.checks import require
from penstock.opkit.requantise import Multipliers
from penstock.opkit.samples import sample


@dataclass(frozen=True, slots=True)
class RequantiseLast(running.OfLastRow):
    """Requantisation and clamp of the last row, one multiplier per channel.

    `reach`: interval of the accumulators of each channel; () for any int32."""

    multipliers: Multipliers
    activation: Activation = Activation.NONE
    rounding: Rounding = Rounding.DOUBLE
    reach: tuple[Interval, ...] = ()

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        x = running.total_type(inputs, DType.INT32)
        given = len(self.multipliers.multipliers)
        require(given == x.shape[3], f"{given} multipliers for {x.shape[3]} channels")
        return TensorType((1, 1, *x.shape[2:]), DType.INT8)

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        (read,) = self.needs(site, out)
        return self.multipliers.apply(
            inputs[0][read.slices].astype(np.int64),
            out.slices[3],
            site.output.zero_point,
            self.activation.bounds(site.output),
            self.rounding,
        )

    def kernel(self, site: Site) -> Kernel:
        _, rows, width, channels = site.inputs[0].shape
        least, most = self.activation.bounds(site.output)
        return Kernel(
            "requantise_last_s32",
            params=(
                ("in_h", rows),
                ("in_w", width),
                ("in_c", channels),
                ("out_zero", site.output.zero_point),
                ("least", least),
                ("most", most),
                ("single_rounding", int(self.rounding is Rounding.SINGLE)),
            ),
            tables=self.multipliers.tables(),
            by_rows=True,
        )


SAMPLES = (
    sample(RequantiseLast(Multipliers.of([0.002, 0.0004, 0.0001])), running.totals(1, 7, 1, 3)),
    sample(
        RequantiseLast(Multipliers.of([0.0003] * 2), Activation.RELU, Rounding.SINGLE),
        running.totals(1, 4, 5, 2),
    ),
)
