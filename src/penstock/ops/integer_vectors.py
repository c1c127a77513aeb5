"""Softmax and normalisation of integer vectors along the last axis, as Deeploy defines them.

    x  (.., C)  int8     y  (.., C)  int8

Elements are integers, element = stored - zero point.  Importers state the tables.

Sources: quantlib (pulp-platform), `algorithms/pact/pact_ops.py`; Deeploy,
`TargetLibraries/Generic`, `Softmax_s8.c`, `Layernorm_s8.c`, `iRMSNorm_s8.c`.
"""

from __future__ import annotations

import math

import numpy as np

from penstock.fixedpoint import Int64s
from penstock.frozen import frozen
from penstock.ir.foreign import Nodes
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Arrays, Kernel, Site, Table, Types, row_kernel
from penstock.ir.operator_facts import AxisOrder, OnnxName, onnx
from penstock.ir.tensor import Array, DType, Region, TensorType
from penstock.opkit.axes import RowVectors, Sources, params
from penstock.opkit.checks import require, require_count, require_dtype, require_int8
from penstock.opkit.lookup import saturated

DIFFERENCES = 256
"""Number of differences of two elements of 8 bits."""
MOST = 2**31
"""Powers, their sums and products are below."""
LARGEST_SQUARE = (2 * 255) ** 2
"""Of an element less a mean."""


@frozen
class RatioSoftmax(RowVectors):
    """most * p / sum of p, rounded down, where p = powers[maximum of the vector - x]."""

    powers: tuple[int, ...]
    most: int

    ONNX = onnx(OnnxName(AxisOrder.MODEL), "iSoftmax")

    def result_type(self, inputs: Types) -> TensorType:
        found = RowVectors.result_type(self, inputs)
        largest = max(self.powers, default=0)
        require(
            len(self.powers) == DIFFERENCES and self.powers[0] > 0 and min(self.powers) >= 0,
            "its coefficients yield negative powers, or none",
        )
        require(
            largest * max(self.most, found.shape[-1]) < MOST,
            f"its powers reach {largest}; their sums and products must be below 2**31",
        )
        return found

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        x = self.vectors(site, inputs, out).astype(np.int64)
        powers = np.array(self.powers, np.int64)[x.max(axis=-1, keepdims=True) - x]
        found = powers * self.most // powers.sum(axis=-1, keepdims=True)
        return saturated(found[..., out.slices[-1]] + site.output.zero_point)

    def kernel(self, site: Site) -> Kernel:
        return row_kernel(
            "ratio_softmax_s8",
            params(site),
            most=self.most,
            out_zero=site.output.zero_point,
            powers=Table.integers(self.powers),
        )


@frozen
class ShiftSoftmax(RowVectors):
    """Powers of two of the differences to the maximum in units of 32, over their sum.

        s = (maximum - x + 16) >> 5,  y = (most * 256 / sum of (256 >> s)) >> s

    The sum is accumulated over groups of `group` elements, 0 for one group; where the maximum so
    far grows, the sum so far is shifted."""

    most: int
    group: int = 0

    ONNX = onnx(OnnxName(AxisOrder.MODEL), "ITAMax", "ITAPartialMax")

    def result_type(self, inputs: Types) -> TensorType:
        found = RowVectors.result_type(self, inputs)
        depth = found.shape[-1]
        require(
            self.group == 0 or (0 < self.group <= depth and depth % self.group == 0),
            f"group_width is {self.group}, must divide the vectors' {depth} elements",
        )
        return found

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        x = self.vectors(site, inputs, out).astype(np.int64)
        depth = x.shape[-1]
        group = self.group or depth
        total = np.zeros((*x.shape[:-1], 1), np.int64)
        most = np.full_like(total, -128)
        for first in range(0, depth, group):
            part = x[..., first : first + group]
            larger = np.maximum(most, part.max(axis=-1, keepdims=True))
            total = (total >> _shift(larger, most)) + _halved(larger, part).sum(-1, keepdims=True)
            most = larger
        found = self.most * 256 // total >> _shift(most, x)
        return saturated(found[..., out.slices[-1]] + site.output.zero_point)

    def kernel(self, site: Site) -> Kernel:
        return row_kernel(
            "shift_softmax_s8",
            params(site),
            group=self.group or site.output.shape[-1],
            most=self.most,
            out_zero=site.output.zero_point,
        )


def _shift(most: Int64s, x: Int64s) -> Int64s:
    return (most - x + 16) >> 5


def _halved(most: Int64s, x: Int64s) -> Int64s:
    return np.int64(256) >> _shift(most, x)


@frozen
class IntegerNorm(RowVectors):
    """Vectors over their standard deviation, or over the root of their mean square.

        x  (.., C)  int8    w  (C)  int32    b  (C)  int32    y  (.., C)  int8

        d = x - mean of x, or x unless `centred`
        y = (d * w / root(mean of d * d, plus 1) + b) >> shift

    Means and quotients are rounded towards 0, the root down."""

    centred: bool
    shift: int

    ONNX = onnx(OnnxName(AxisOrder.MODEL), "iLayerNorm", "iRMSNorm")

    def result_type(self, inputs: Types) -> TensorType:
        x, *parameters = require_count(inputs, 3, "normalisation")
        require_int8(x, "input")
        require(x.rank > 0, "input is a scalar, must have a last axis")
        for parameter, role in zip(parameters, ("weights", "bias"), strict=True):
            require_dtype(parameter, role, DType.INT32)
            require(
                parameter.shape == x.shape[-1:],
                f"{role} have shape {list(parameter.shape)}, must be {list(x.shape[-1:])}",
            )
        require(
            x.shape[-1] * LARGEST_SQUARE < 2**31,
            f"vectors have {x.shape[-1]} elements, whose squares do not add up in int32",
        )
        return TensorType(x.shape, DType.INT8)

    def sources(self, site: Site) -> tuple[Sources, ...]:
        last = site.output.rank - 1
        return (*RowVectors.sources(self, site), (last,), (last,))

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        reads = zip(inputs, self.needs(site, out), strict=True)
        x, w, b = (array[read.slices].astype(np.int64) for array, read in reads)
        x -= site.x.zero_point
        depth = x.shape[-1]
        total = x.sum(axis=-1, keepdims=True)
        mean = np.sign(total) * (np.abs(total) // depth) * self.centred
        squares = np.square(x - mean).sum(axis=-1, keepdims=True) // depth + 1
        roots = np.array([math.isqrt(int(s)) for s in squares.ravel()], np.int64)
        products = (x - mean)[..., out.slices[-1]] * w
        quotients = np.sign(products) * (np.abs(products) // roots.reshape(squares.shape))
        return saturated((quotients + b >> self.shift) + site.output.zero_point)

    def kernel(self, site: Site) -> Kernel:
        return row_kernel(
            "integer_norm_s8",
            params(site),
            in_zero=site.x.zero_point,
            out_zero=site.output.zero_point,
            centred=self.centred,
            shift=self.shift,
            constants=((1, "weights"), (2, "bias")),
        )


def from_onnx(node: OnnxNode) -> Nodes:
    """Deeploy's iSoftmax, ITAMax, ITAPartialMax, iLayerNorm and iRMSNorm, whose attributes the
    front end has checked."""
    x = node.x
    match node.name:
        case "iSoftmax":
            yield node.made(RatioSoftmax(node.integers("powers"), node.integer("most")), x)
        case "ITAMax" | "ITAPartialMax":
            yield node.made(ShiftSoftmax(node.integer("most"), node.integer("group_width")), x)
        case _:
            op = IntegerNorm(node.name == "iLayerNorm", node.integer("shift"))
            yield node.made(op, x, node.input(1), node.input(2))
