"""SumRequantisation: base of operators that requantise int32 sums, one multiplier per channel.

    x  (..., C)  int32
    y  (..., C)  int8     clamp(zero_y + M[c] * x)

Source: the arithmetic of the layers that the sums belong to, which share `Multipliers.apply`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from penstock.choices import Rounding
from penstock.ir.op import Kernel, OperatorDefaults, Site, row_count
from penstock.ir.region import Interval, Region
from penstock.ir.tensor import Array, TensorType
from penstock.opkit.activation import Activation
from penstock.opkit.checks import require
from penstock.opkit.requantise import Multipliers
from penstock.requantisation.channels import reachable


@dataclass(frozen=True, slots=True)
class SumRequantisation(OperatorDefaults):
    """Multipliers, clamp and rounding of sums.

    `reach`: interval of the sums of each channel; () for any int32."""

    multipliers: Multipliers
    activation: Activation = Activation.NONE
    rounding: Rounding = Rounding.DOUBLE
    reach: tuple[Interval, ...] = ()

    def require_channels(self, x: TensorType) -> None:
        """Raises ModelError unless there is one multiplier for each channel of the sums."""
        given = len(self.multipliers.multipliers)
        require(given == x.shape[-1], f"{given} multipliers for {x.shape[-1]} channels")

    def requantised(self, site: Site, sums: Array, out: Region) -> Array:
        """Elements of region `out` of the output, given their sums."""
        return self.multipliers.apply(
            sums.astype(np.int64),
            out.slices[-1],
            site.output.zero_point,
            self.activation.bounds(site.output),
            self.rounding,
        )

    def kernel_from(self, site: Site, first_row: int) -> Kernel:
        """The kernel that computes row r of the output from row `first_row` + r of the sums."""
        shape = site.inputs[0].shape
        least, most = self.activation.bounds(site.output)
        return Kernel(
            "requantise_s32",
            params=(
                ("first_row", first_row),
                ("width", math.prod(shape[:-1]) // row_count(shape)),
                ("channels", shape[-1]),
                ("out_zero", site.output.zero_point),
                ("least", least),
                ("most", most),
                ("single_rounding", int(self.rounding is Rounding.SINGLE)),
            ),
            tables=self.multipliers.tables(),
            by_rows=True,
        )


def reach_of_sums(x: TensorType, weights: Array, bias: Array) -> tuple[Interval, ...]:
    """Interval of the sums of each channel: bias plus products of weights (O, C) and inputs x."""
    products = weights.astype(np.int64), bias.astype(np.int64)
    ends = reachable(*products, x.dtype.lower - x.zero_point, x.dtype.upper - x.zero_point)
    return tuple(zip(*(end.tolist() for end in ends), strict=True))
