"""Softmax over the last axis, in fixed point.

    x  (..., C)  int8
    y  (..., C)  int8    scale 1/256, zero point -128

exp depends only on the difference to the row's maximum, one of 256 values: a table.

Source: TFLite SOFTMAX; `reference/softmax.h`, `PreprocessSoftmaxScaling`; gemmlowp,
`exp_on_negative_values` and `one_over_one_plus_x_for_x_in_0_1`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.fixedpoint import (
    Int64s,
    doubling_high_multiply,
    quantise_multiplier,
    rounding_shift,
)
from penstock.ir.affine import Affine
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.op import Kernel, Site, Table, Work
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.ops.checks import require, require_int8
from penstock.ops.samples import int8, sample
from penstock.ops.transcendental import exp_on_negative_values, one_over_one_plus

DIFFERENCE_BITS = 5
"""Integer bits of the scaled difference: Q5.26."""
SUM_BITS = 12
"""Integer bits of the sum of exponentials: Q12.19."""


@dataclass(frozen=True, slots=True)
class Softmax:
    """exp(beta * x) over its sum along the last axis."""

    beta: float = 1.0

    FOREIGN: ClassVar[tuple[str, ...]] = ("SOFTMAX",)
    ALIAS: ClassVar[bool] = False

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        require(len(inputs) == 1, f"softmax has {len(inputs)} inputs, must have 1")
        require_int8(inputs[0], "input")
        require(inputs[0].rank > 0, "input is a scalar, must have a last axis")
        return TensorType(inputs[0].shape, DType.INT8)

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        whole = out.replace(len(out.lower) - 1, (0, site.output.shape[-1]))
        rows = inputs[0][whole.slices].astype(np.int64)
        exponentials = exp_table(site.inputs[0].scale * self.beta)[
            rows.max(axis=-1, keepdims=True) - rows
        ]
        total = rounding_shift(exponentials, SUM_BITS).sum(axis=-1, keepdims=True)
        reciprocal, exponent = reciprocals(total)
        scaled = rounding_shift(doubling_high_multiply(reciprocal, exponentials), exponent)
        y = np.clip(scaled - 128, -128, 127).astype(np.int8)
        return y[..., out.slices[-1]]

    def needs(self, site: Site, out: Region) -> tuple[Region, ...]:
        return (out.replace(len(out.lower) - 1, (0, site.inputs[0].shape[-1])),)

    def affine(self, site: Site) -> tuple[Affine, ...]:
        rank = site.output.rank
        depth = site.inputs[0].shape[-1]
        return (Affine.diagonal((*((1,) * (rank - 1)), 0), extra=(*((0,) * (rank - 1)), depth)),)

    def work(self, site: Site, out: Region) -> Work:
        return Work(0, 3 * out.elements)

    def in_place(self, site: Site) -> tuple[int, ...]:
        return ()

    def kernel(self, site: Site) -> Kernel:
        table = exp_table(site.inputs[0].scale * self.beta).astype(np.int32)
        depth = site.output.shape[-1]
        return Kernel(
            "softmax_s8",
            params=(("rows", site.output.elements // depth), ("depth", depth)),
            tables=(("exp", Table.of(table)),),
        )


def exp_table(scale: float) -> Int64s:
    """exp(-d * scale) in Q0.31 for d = 0 .. 255; 0 where the difference is too large to count."""
    real = min(scale * 2 ** (31 - DIFFERENCE_BITS), 2**31 - 1.0)
    multiplier, shift = quantise_multiplier(real)
    largest = ((1 << DIFFERENCE_BITS) - 1) * 2.0 ** (31 - DIFFERENCE_BITS) / 2.0**shift
    differences = -np.arange(256, dtype=np.int64)
    counted = differences >= -int(largest)
    scaled = doubling_high_multiply(np.where(counted, differences, 0) << shift, multiplier)
    return np.where(counted, exp_on_negative_values(scaled, DIFFERENCE_BITS), 0)


def reciprocals(total: Int64s) -> tuple[Int64s, Int64s]:
    """1 / total, total in Q12.19, as (reciprocal in Q0.31, right shift to units of 1/256)."""
    headroom = 32 - np.array([int(t).bit_length() for t in total.ravel()], np.int64)
    headroom = headroom.reshape(total.shape)
    exponent = SUM_BITS - headroom + 31 - 8
    return one_over_one_plus((total << headroom) - (1 << 31)), exponent


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite SOFTMAX."""
    out = node.output().type
    if out.scale != 1 / 256 or out.zero_point != -128:
        raise node.unsupported(
            f"output has scale {out.scale} and zero point {out.zero_point}, must be 1/256 and -128"
        )
    yield Made(Softmax(node.real("beta", 1.0)), (node.input(0),), node.output())


SAMPLES = (
    sample(Softmax(), int8(1, 10, scale=0.1), scale=1 / 256, zero=-128),
    sample(Softmax(2.0), int8(2, 3, 4, 7, scale=0.02), scale=1 / 256, zero=-128),
)
