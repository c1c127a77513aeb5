"""TopIndices: indices of the largest or smallest elements along the last axis, the best first.

    x  any shape  float32, or an integer type without quantisation
    y  as x, `count` along the last axis  int32

Of equal elements, the first index comes first; NaN is below every number.

Source: ONNX operator specification, TopK; TFLite TOPK_V2 (`kernels/topk_v2.cc`).
"""

from __future__ import annotations

import numpy as np

from penstock.frozen import frozen
from penstock.ir.foreign import ForeignNode, Nodes
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Arrays, Kernel, Site, Types, Work, row_kernel
from penstock.ir.operator_facts import AxisOrder, OnnxName, onnx
from penstock.ir.tensor import Array, DType, Region, TensorType, row_count
from penstock.opkit.axes import FollowingAxes, Sources
from penstock.opkit.checks import require, require_count, require_dtype
from penstock.opkit.nodes import onnx_form
from penstock.opkit.real_nodes import RealNodes
from penstock.ops.conversions import Cast
from penstock.ops.integer_pairs import ADD, INTEGERS
from penstock.ops.scatter import at_places


@frozen
class TopIndices(FollowingAxes):
    """Indices of the `count` largest elements along the last axis, or of the smallest ones."""

    count: int
    largest: bool = True

    TFLITE = ("TOPK_V2",)
    ONNX = onnx(OnnxName(AxisOrder.VECTORS, floats=True, plain=True), "TopK")

    def result_type(self, inputs: Types) -> TensorType:
        (x,) = require_count(inputs, 1, "TopIndices")
        require_dtype(x, "input", DType.FLOAT32, *INTEGERS)
        depth = x.shape[-1] if x.rank else 0
        require(0 < self.count <= depth, f"count is {self.count}, must be within [1, {depth}]")
        return TensorType((*x.shape[:-1], self.count), DType.INT32)

    def sources(self, site: Site) -> tuple[Sources, ...]:
        return ((*range(site.output.rank - 1), None),)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        x = inputs[0][self.needs(site, out)[0].slices]
        if x.dtype.kind == "f":
            keys = np.where(np.isnan(x), np.inf, -x if self.largest else x)
            order = np.lexsort((np.isnan(x), keys), axis=-1)
        else:
            wide = x.astype(np.int64)
            order = np.argsort(~wide if self.largest else wide, axis=-1, kind="stable")
        return order[..., out.slices[-1]].astype(np.int32)

    def work(self, site: Site, out: Region) -> Work:
        return Work(0, out.elements * site.x.shape[-1])

    def kernel(self, site: Site) -> Kernel:
        x = site.x
        depth = x.shape[-1]
        return row_kernel(
            "top_indices",
            width=x.elements // depth // row_count(x.shape),
            depth=depth,
            count=self.count,
            bytes=x.dtype.size_bytes,
            is_real=x.dtype is DType.FLOAT32,
            is_signed=x.dtype is not DType.UINT8,
            sign=1 if self.largest else -1,
        )


def from_foreign(node: ForeignNode) -> Nodes:
    new = RealNodes(onnx_form(node, "TopK"))
    values, found = _found(new)
    require_dtype(node.output(1).type, "output 1", DType.INT32)
    return new.results({0: values, 1: found})


def from_onnx(node: OnnxNode) -> Nodes:
    """ONNX TopK of a constant number; values are read at the indices."""
    new = RealNodes(node)
    values, found = _found(new)
    return new.results({0: values, 1: new.apply(Cast(DType.INT64), found)})


def _found(new: RealNodes) -> tuple[Value, Value]:
    """The largest or smallest elements, and their indices."""
    node, x = new.node, new.plain(0)
    counts = node.constant_ints(1)
    require(len(counts) == 1, f"there are {len(counts)} numbers of elements, must be one")
    found = new.apply(TopIndices(counts[0], bool(node.integer("largest", 1))), x)
    shape = x.shape
    base = np.arange(x.elements // shape[-1]) * shape[-1]
    places = new.apply(ADD, found, base.reshape(*shape[:-1], 1))
    return at_places(new, x, places), found
