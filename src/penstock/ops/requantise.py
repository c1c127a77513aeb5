"""Requantisation of accumulators: real multipliers of a layer, one or one per channel.

Source: TFLite, `PopulateConvolutionQuantizationParams` (kernel_util.cc): the product of scales is
taken in double precision.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.fixedpoint import Int64s, Rounding, multiply, quantise_multiplier
from penstock.ir.op import Table
from penstock.ir.tensor import Array, TensorType
from penstock.ops.checks import require


@dataclass(frozen=True, slots=True)
class Multipliers:
    """Real multipliers as (multiplier, shift), one per output channel."""

    multipliers: tuple[int, ...]
    shifts: tuple[int, ...]

    @staticmethod
    def of(reals: list[float]) -> Multipliers:
        pairs = [quantise_multiplier(real) for real in reals]
        return Multipliers(tuple(m for m, _ in pairs), tuple(s for _, s in pairs))

    def tables(self) -> tuple[tuple[str, Table], ...]:
        """Members `multiplier` and `shift` of a kernel's parameters."""
        return (
            ("multiplier", Table.of(np.array(self.multipliers, np.int32))),
            ("shift", Table.of(np.array(self.shifts, np.int8))),
        )

    def apply(
        self,
        accumulators: Int64s,
        channels: slice,
        zero_point: int,
        bounds: tuple[int, int],
        rounding: Rounding = Rounding.DOUBLE,
    ) -> Array:
        """Accumulators (..., channels) as output elements: scaled, offset, clamped."""
        multiplier = np.array(self.multipliers, np.int64)[channels]
        shift = np.array(self.shifts, np.int64)[channels]
        scaled = multiply(accumulators, multiplier, shift, rounding) + zero_point
        return np.clip(scaled, *bounds).astype(np.int8)


def channel_multipliers(x: TensorType, w: TensorType, y: TensorType, channels: int) -> Multipliers:
    """Multipliers scale_x * scale_w[c] / scale_y of `channels` output channels."""
    assert w.quantisation is not None
    scales = w.quantisation.scales
    require(
        len(scales) in (1, channels),
        f"weights have {len(scales)} scales, must have 1 or {channels}",
    )
    every = scales if len(scales) == channels else scales * channels
    return Multipliers.of([x.scale * scale / y.scale for scale in every])
