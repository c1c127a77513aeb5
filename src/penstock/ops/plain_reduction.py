"""PlainReduction: the maximum, minimum, product or sum along axes.

    x  float32, int8, uint8, int16, int32 or int64 without quantisation, up to rank 4; bool for
       a maximum or minimum
    y  as x   extent 1 along `axes`; elements in order of indices, float32 rounded each time,
              integers modulo 2^bits

NaN does not count in a maximum or minimum, unless it is first.

Source: ONNX operator specification, ReduceMax, ReduceMin, ReduceProd, and others on integers.
"""

from __future__ import annotations

import math
from enum import Enum

import numpy as np

from penstock.frozen import frozen
from penstock.ir.foreign import ForeignNode, Nodes
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Arrays, Kernel, Site, Types, row_kernel
from penstock.ir.operator_facts import PLAIN, REALS, RelayName, onnx
from penstock.ir.tensor import Array, DType, Region, TensorType
from penstock.opkit import reduction
from penstock.opkit.checks import require_count, require_dtype
from penstock.opkit.nodes import in_shape_of_output
from penstock.opkit.real_nodes import RealNodes
from penstock.opkit.reduction import Axes, Reduction
from penstock.ops.integer_pairs import DIV, INTEGERS, MAX, MUL, SUB

NUMBERS = (DType.FLOAT32, *INTEGERS)


class ReductionFunction(Enum):
    """A function of the elements along axes; the value is its number in the kernel."""

    MAX = 0
    MIN = 1
    PROD = 2
    SUM = 3


@frozen
class PlainReduction(Reduction):
    """The maximum, minimum, product or sum along axes."""

    function: ReductionFunction
    axes: tuple[int, ...]

    TFLITE = ("REDUCE_PROD",)
    ONNX = onnx(REALS, "ReduceProd") | onnx(
        PLAIN,
        *("ReduceL1 of integers", "ReduceMax of integers", "ReduceMean of integers"),
        *("ReduceMin of integers", "ReduceProd of integers", "ReduceSum of integers"),
        "ReduceSumSquare of integers",
    )

    RELAY = tuple(RelayName(f.name.lower(), (("function", f.name),)) for f in ReductionFunction)

    @property
    def reduced_axes(self) -> Axes:
        return self.axes

    def result_type(self, inputs: Types) -> TensorType:
        (x,) = require_count(inputs, 1, "reduction")
        is_choice = self.function in (ReductionFunction.MAX, ReductionFunction.MIN)
        types = (*NUMBERS, DType.BOOL) if is_choice else NUMBERS
        require_dtype(x, "input", *types)
        return self.reduced_type(inputs, x.dtype, types)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        x = self.in_order(site, inputs, out)
        with np.errstate(all="ignore"):
            match self.function:
                case ReductionFunction.PROD:
                    found = np.multiply.accumulate(x, axis=-1, dtype=x.dtype)[..., -1]
                case ReductionFunction.SUM:
                    found = np.add.accumulate(x, axis=-1, dtype=x.dtype)[..., -1]
                case _:
                    found = _extreme(x, larger=self.function is ReductionFunction.MAX)
        return found.reshape(out.shape)

    def kernel(self, site: Site) -> Kernel:
        dtype = site.output.dtype
        return row_kernel(
            "reduce_plain",
            self.params(site),
            bytes=dtype.size_bytes,
            is_real=dtype is DType.FLOAT32,
            is_signed=dtype.is_signed,
            function=self.function.value,
        )


def _extreme(x: Array, *, larger: bool) -> Array:
    """Along the last axis."""
    if x.dtype.kind != "f":
        return x.max(axis=-1) if larger else x.min(axis=-1)
    worst = np.float32(-np.inf if larger else np.inf)
    numbers = np.where(np.isnan(x), worst, x)
    found = numbers.max(axis=-1) if larger else numbers.min(axis=-1)
    # Equal zeros: the first one stays.
    first = np.take_along_axis(x, np.argmax(numbers == found[..., None], -1)[..., None], -1)[..., 0]
    return np.where(np.isnan(x[..., 0]), x[..., 0], first)


def from_foreign(node: ForeignNode) -> Nodes:
    """TFLite REDUCE_PROD of plain numbers."""
    return in_shape_of_output(node, from_onnx(reduction.onnx_form_of(node, "ReduceProd")))


def from_onnx(node: OnnxNode) -> Nodes:
    """ONNX ReduceProd, and reductions of integers."""
    return reduction.onnx_nodes(node, _reduced)


def reduced_plain(node: OnnxNode, axes: Axes, function: ReductionFunction) -> Nodes:
    """Nodes that reduce input 0 as real numbers, or as plain ones."""
    new = RealNodes(node)
    return new.result(new.apply(PlainReduction(function, axes), new.plain(0)))


def _reduced(node: OnnxNode, axes: Axes) -> Nodes:
    name = node.name.removeprefix("Reduce").upper()
    if name in ReductionFunction.__members__:
        return reduced_plain(node, axes, ReductionFunction[name])
    new = RealNodes(node)
    x = new.plain(0)
    if name == "SUMSQUARE":
        x = new.apply(MUL, x, x)
    elif name == "L1":
        x = new.apply(MAX, x, new.apply(SUB, 0, x))
    y = new.apply(PlainReduction(ReductionFunction.SUM, axes), x)
    if name == "MEAN":
        y = new.apply(DIV, y, math.prod(x.shape[axis] for axis in axes))
    return new.result(y)
