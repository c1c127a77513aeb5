"""RequantiseLast: requantises the last row of accumulators.

    x  (1, H, W, C)  int32     only row H - 1 is read
    y  (1, 1, W, C)  int8      clamp(zero_y + M[c] * x[H - 1])

Created from means, sums and layers that accumulate row by row (`passes/accumulate.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.choices import Rounding
from penstock.ir.op import Kernel, Site
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit import running
from penstock.opkit.activation import Activation
from penstock.opkit.requantise import Multipliers, SumRequantisation
from penstock.opkit.samples import sample


@dataclass(frozen=True, slots=True)
class RequantiseLast(running.OfLastRow, SumRequantisation):
    """Requantisation and clamp of the last row, one multiplier per channel."""

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        x = running.total_type(inputs, DType.INT32)
        self.require_channels(x)
        return TensorType((1, 1, *x.shape[2:]), DType.INT8)

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        (read,) = self.needs(site, out)
        return self.requantised(site, inputs[0][read.slices], out)

    def kernel(self, site: Site) -> Kernel:
        return self.kernel_from(site, site.inputs[0].shape[1] - 1)


SAMPLES = (
    sample(RequantiseLast(Multipliers.of([0.002, 0.0004, 0.0001])), running.totals(1, 7, 1, 3)),
    sample(
        RequantiseLast(Multipliers.of([0.0003] * 2), Activation.RELU, Rounding.SINGLE),
        running.totals(1, 4, 5, 2),
    ),
)
