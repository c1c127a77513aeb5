"""RequantiseSums: requantises the sums of a layer.

    x  (..., C)  int32
    y  (..., C)  int8     clamp(zero_y + M[c] * x)

Created from layers whose input channels are computed group by group (`passes/channel_groups.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.choices import Rounding
from penstock.ir.affine import Affine
from penstock.ir.op import Kernel, Site
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit.activation import Activation
from penstock.opkit.checks import require, require_dtype
from penstock.opkit.requantise import Multipliers, SumRequantisation
from penstock.opkit.samples import integers, sample


@dataclass(frozen=True, slots=True)
class RequantiseSums(SumRequantisation):
    """Requantisation and clamp, one multiplier per channel."""

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        require(len(inputs) == 1, f"requantisation has {len(inputs)} inputs, must have 1")
        x = inputs[0]
        require_dtype(x, (DType.INT32,), "sums")
        require(x.rank >= 2, f"sums have rank {x.rank}, must have 2 or more")
        self.require_channels(x)
        return TensorType(x.shape, DType.INT8)

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        return self.requantised(site, inputs[0][out.slices], out)

    def needs(self, site: Site, out: Region) -> tuple[Region, ...]:
        return (out,)

    def affine(self, site: Site) -> tuple[Affine, ...]:
        return (Affine.diagonal((1,) * site.output.rank),)

    def kernel(self, site: Site) -> Kernel:
        return self.kernel_from(site, 0)


SAMPLES = (
    sample(RequantiseSums(Multipliers.of([0.002, 0.0004, 0.0001])), integers(1, 4, 3, 3)),
    sample(
        RequantiseSums(Multipliers.of([0.0003] * 2), Activation.RELU, Rounding.SINGLE),
        integers(5, 2),
    ),
)
