"""Layers whose input channels are computed group by group (`passes/channel_groups.py`).

A pointwise or fully connected layer becomes a sequence of PartialProduct, one for each group, each
of which may overwrite the sums before it, followed by RequantiseSums.
"""

from __future__ import annotations

import math

import numpy as np

from penstock.choices import Rounding
from penstock.frozen import frozen
from penstock.ir.foreign import Nodes
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Arrays, Kernel, Site, Table, Types, Work, row_kernel
from penstock.ir.operator_facts import PLAIN, AxisOrder, OnnxName, onnx
from penstock.ir.tensor import Array, DType, Region, TensorType, row_count
from penstock.opkit.axes import FollowingAxes, Sources
from penstock.opkit.checks import require, require_count, require_dtype, require_int8, require_rank
from penstock.opkit.real_nodes import RealNodes
from penstock.opkit.requantise import SumRequantisation, stated_multipliers

_UNUSED = Table.of(np.zeros(1, np.int32))
"""Placeholder for a bias that the kernel does not read, because C has no empty arrays."""


@frozen
class PartialProduct(FollowingAxes):
    """Adds the products of some input channels to the sums of a pointwise layer.

        s  (..., O) or (O)  int32    sums so far; (O) is a bias, which must be constant
        x  (..., C)         int8
        w  (O, C)           int8
        y  (..., O)         int32    y = s + sum x * w

    The elements of x are used as they are stored; a zero point is part of the bias
    (`first_sums`). A pointwise layer whose input channels are computed group by group is a
    sequence of these, one for each group, followed by `RequantiseSums`.  Each may overwrite the
    sums before it. Created from pointwise and fully connected layers
    (`passes/channel_groups.py`)."""

    def result_type(self, inputs: Types) -> TensorType:
        s, x, w = require_count(inputs, 3, "partial product")
        require_dtype(s, "sums", DType.INT32)
        require_int8(x, "input")
        require_rank(w, "weights", 2)
        require_dtype(w, "weights", DType.INT8)
        outputs, depth = w.shape
        require(
            x.rank >= 2 and x.shape[-1] == depth,
            f"input has shape {list(x.shape)}, must have rank 2 or more and end in {depth}",
        )
        shape = (*x.shape[:-1], outputs)
        require(
            s.shape in ((outputs,), shape),
            f"sums have shape {list(s.shape)}, must have {[outputs]} or {list(shape)}",
        )
        return TensorType(shape, DType.INT32)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        s, x, w = inputs
        sums, read, weights = self.needs(site, out)
        # Doubles hold every sum exactly (below 2**53), and their product is a BLAS call.
        products = x[read.slices].astype(np.float64) @ w[weights.slices].astype(np.float64).T
        return (products.astype(np.int64) + s[sums.slices]).astype(np.int32)

    def sources(self, site: Site) -> tuple[Sources, ...]:
        s, x, _ = site.inputs
        last = x.rank - 1
        sums = (last,) if s.rank == 1 else tuple(range(x.rank))
        return sums, (*range(last), None), (last, None)

    def work(self, site: Site, out: Region) -> Work:
        return Work(out.elements * site.inputs[2].shape[1], out.elements)

    def in_place(self, site: Site) -> tuple[int, ...]:
        return () if site.x.rank == 1 else (0,)

    def kernel(self, site: Site) -> Kernel:
        s, x, w = site.inputs
        outputs, depth = w.shape
        begins = s.rank == 1
        return row_kernel(
            "partial_product_s8",
            () if begins else (("bias", _UNUSED),),
            width=math.prod(x.shape[:-1]) // row_count(x.shape),
            in_c=depth,
            out_c=outputs,
            begins=begins,
            constants=((0, "bias"), (2, "weights")) if begins else ((2, "weights"),),
        )


def first_sums(x: TensorType, weights: Array, bias: Array) -> Array | None:
    """The sums with which the products of a layer begin: bias less zero point times weights.

    weights: of all groups, of shape (O, C); bias: of the layer, of shape (O).

    Returns None if a sum of some of the products may overflow int32."""
    wide = weights.astype(np.int64)
    sums = bias.astype(np.int64) - x.zero_point * wide.sum(axis=1)
    # The largest magnitude of an element is -lower.
    reach = np.abs(sums) - x.dtype.lower * np.abs(wide).sum(axis=1)
    return sums.astype(np.int32) if reach.max() < 2**31 else None


@frozen
class RequantiseSums(FollowingAxes, SumRequantisation):
    """Requantises the sums of a layer.

        x  (..., C)  int32
        y  (..., C)  int8     clamp(zero_y + M[c] * x)

    Created from layers whose input channels are computed group by group
    (`passes/channel_groups.py`), and from Deeploy's RequantShift of int32."""

    ONNX = onnx(PLAIN, "RequantShift") | onnx(
        OnnxName(AxisOrder.CHANNELS_LAST, plain=True), "RequantShift of channels"
    )

    def result_type(self, inputs: Types) -> TensorType:
        (x,) = require_count(inputs, 1, "requantisation")
        require_dtype(x, "sums", DType.INT32)
        require(x.rank >= 2, f"sums have rank {x.rank}, must have 2 or more")
        self.require_channels(x)
        return TensorType(x.shape, DType.INT8)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        return self.requantised(site, inputs[0][out.slices], out)

    def sources(self, site: Site) -> tuple[Sources, ...]:
        return (tuple(range(site.output.rank)),)

    def kernel(self, site: Site) -> Kernel:
        return self.kernel_from(site, 0)


def from_onnx(node: OnnxNode) -> Nodes:
    """Deeploy's RequantShift of int32: a sum times a multiplier, plus an addend, shifted."""
    new, y = RealNodes(node), node.y.type
    x = new.integers(node.x)
    shape = x.shape
    x = new.reshape(x, (1,) * (2 - x.rank) + shape)
    stated = stated_multipliers(node, x.shape[-1])
    assert stated is not None, "the front end states them"
    op = RequantiseSums(stated, rounding=Rounding.SINGLE)
    found = new.apply(op, x, like=y.quantisation)
    yield from new.result(new.reshape(found, shape))
