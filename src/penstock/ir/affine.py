"""Affine: the affine form of a propagator, from an output box to the input box that it reads.

An output box [lower, upper) of rank r becomes, per input axis i,

    start[i] = sum_j matrix[i][j] * out_lower[j] + offset[i]
    extent[i] = sum_j matrix[i][j] * out_shape[j] + matrix[i][r]
    [lower[i], upper[i]) = [floor(start[i]), ceil(start[i] + extent[i]))

where `matrix` is the augmented matrix and `offset` the start of the box for output index 0,
negative where there is padding.  Source: TVM RFC 0037, section "Propagators" (stripe
transforms), with exact fractions in place of floats, so that up-scaling by one half stays exact.

>>> conv3x3 = Affine.diagonal((1, 1, 1, 0), extra=(0, 2, 2, 8), offset=(0, 0, 0, 0))
>>> conv3x3.apply(Region.whole((1, 3, 3, 4))).shape
(1, 5, 5, 8)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from penstock.ir.region import Region

Number = int | Fraction


@dataclass(frozen=True, slots=True)
class Affine:
    """`matrix` has one row per input axis and one column per output axis plus a constant column."""

    matrix: tuple[tuple[Number, ...], ...]
    offset: tuple[Number, ...]

    @staticmethod
    def diagonal(
        factors: Sequence[Number], extra: Sequence[Number] = (), offset: Sequence[Number] = ()
    ) -> Affine:
        """Input axis i depends on output axis i alone: extent = factor * extent + extra."""
        rank = len(factors)
        extra = extra or (0,) * rank
        rows = tuple(
            (*(factors[i] if i == j else 0 for j in range(rank)), extra[i]) for i in range(rank)
        )
        return Affine(rows, tuple(offset) or (0,) * rank)

    @staticmethod
    def constant(shape: Sequence[int], out_rank: int) -> Affine:
        """The whole input, whatever the output box."""
        return Affine(tuple((0,) * out_rank + (extent,) for extent in shape), (0,) * len(shape))

    def apply(self, out: Region) -> Region:
        """The input box, not clipped to the tensor."""
        lower: list[int] = []
        upper: list[int] = []
        for row, offset in zip(self.matrix, self.offset, strict=True):
            linear = row[:-1]
            start = sum(f * x for f, x in zip(linear, out.lower, strict=True)) + offset
            extent = sum(f * x for f, x in zip(linear, out.shape, strict=True)) + row[-1]
            lower.append(math.floor(start))
            upper.append(math.ceil(start + extent))
        return Region(tuple(lower), tuple(upper))
