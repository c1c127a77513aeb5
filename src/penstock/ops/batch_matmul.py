"""BatchMatmul: matrix products over the last two axes, batched over the others.

    a  (.., M, K)  int8   or (.., K, M), transposed
    b  (.., K, N)  int8   or (.., N, K), transposed; leading axes of a and b broadcast
    c  (N)         int32  bias, optional; constant
    y  (.., M, N)  int8   y = clamp(zero_y + Ma * Mb / My * (c + sum (a - zero_a) * (b - zero_b)))

Inputs of rank 2 are reshaped to get a leading axis of extent 1.

Source: TFLite BATCH_MATMUL; `reference/batch_matmul.h`, `micro/kernels/batch_matmul.cc`.
FULLY_CONNECTED with computed weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from penstock.fixedpoint import multiply
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Arrays, Kernel, Site, Types, Work
from penstock.ir.operator_facts import relay
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit import broadcast
from penstock.opkit.activation import Activation
from penstock.opkit.axes import FollowingAxes, Sources
from penstock.opkit.checks import require, require_dtype, require_int8
from penstock.opkit.nodes import RealNodes, reshaped, with_shape
from penstock.opkit.requantise import fitting_multiplier
from penstock.opkit.samples import bias, int8, sample
from penstock.ops.plain import PlainMul
from penstock.ops.sums import PlainSum


@dataclass(frozen=True, slots=True)
class BatchMatmul(FollowingAxes):
    """Matrix products; `a_transposed` and `b_transposed` tell which inputs are transposed."""

    a_transposed: bool = False
    b_transposed: bool = False
    activation: Activation = Activation.NONE

    TFLITE = ("BATCH_MATMUL",)
    RELAY = relay("nn.batch_matmul", "qnn.batch_matmul")

    def result_type(self, inputs: Types) -> TensorType:
        require(len(inputs) in (2, 3), f"matrix product has {len(inputs)} inputs, must have 2 or 3")
        a, b, *bias = inputs
        require_int8(a, "first input")
        require_int8(b, "second input")
        require(
            a.rank == b.rank and a.rank in (3, 4),
            f"inputs have shapes {list(a.shape)} and {list(b.shape)}, must have one rank, 3 or 4",
        )
        m, k = _matrix(a.shape, self.a_transposed)
        depth, n = _matrix(b.shape, self.b_transposed)
        require(k == depth, f"first input has {k} columns, the second {depth} rows")
        for c in bias:
            require_dtype(c, (DType.INT32,), "bias")
            require(c.shape == (n,), f"bias has shape {list(c.shape)}, must be [{n}]")
        batch = broadcast.result_shape((a.with_shape(a.shape[:-2]), b.with_shape(b.shape[:-2])))
        return TensorType((*batch, m, n), DType.INT8)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        a, b, *bias = (
            x[need.slices].astype(np.int64) - type.zero_point
            for x, need, type in zip(inputs, self.needs(site, out), site.inputs, strict=True)
        )
        a = np.swapaxes(a, -1, -2) if self.a_transposed else a
        b = np.swapaxes(b, -1, -2) if self.b_transposed else b
        scaled = multiply(sum(bias, a @ b), *self._multiplier(site)) + site.output.zero_point
        return np.clip(scaled, *self.activation.bounds(site.output)).astype(np.int8)

    def sources(self, site: Site) -> tuple[Sources, ...]:
        a, b, *bias = site.inputs
        m, n = site.output.rank - 2, site.output.rank - 1
        return (
            (*_batch(a, site.output), *((None, m) if self.a_transposed else (m, None))),
            (*_batch(b, site.output), *((n, None) if self.b_transposed else (None, n))),
            *((n,) for _ in bias),
        )

    def work(self, site: Site, out: Region) -> Work:
        depth = _matrix(site.inputs[0].shape, self.a_transposed)[1]
        return Work(out.elements * depth, out.elements)

    def kernel(self, site: Site) -> Kernel:
        a, b, *bias = site.inputs
        m, depth = _matrix(a.shape, self.a_transposed)
        n = site.output.shape[-1]
        multiplier, shift = self._multiplier(site)
        steps = dict(broadcast.params(Site((a, b), site.output, site.constants[:2])))
        return Kernel(
            "batch_matmul_bias_s8" if bias else "batch_matmul_s8",
            params=(
                ("m", m),
                ("n", n),
                ("depth", depth),
                ("out_h", steps["out_h"]),
                *((name, steps[name]) for name in ("step0_n", "step0_h", "step1_n", "step1_h")),
                ("row0", 1 if self.a_transposed else depth),
                ("inner0", m if self.a_transposed else 1),
                ("column1", depth if self.b_transposed else 1),
                ("inner1", 1 if self.b_transposed else n),
                ("zero0", a.zero_point),
                ("zero1", b.zero_point),
                ("multiplier", multiplier),
                ("shift", shift),
                ("out_zero", site.output.zero_point),
                *self.activation.params(site.output),
            ),
            constants=((2, "bias"),) if bias else (),
            by_rows=True,
        )

    def _multiplier(self, site: Site) -> tuple[int, int]:
        a, b, *bias = site.inputs
        depth = _matrix(a.shape, self.a_transposed)[1]
        # Both operands are computed, so every product may be the largest one.
        largest = depth * 255 * 255
        if bias and site.constants[2] is not None:
            largest += int(np.abs(site.constant(2).astype(np.int64)).max())
        return fitting_multiplier(a.scale * b.scale / site.output.scale, largest)


def _matrix(shape: tuple[int, ...], transposed: bool) -> tuple[int, int]:
    """(rows, columns) of the matrices in a tensor of that shape."""
    return (shape[-1], shape[-2]) if transposed else (shape[-2], shape[-1])


def _batch(x: TensorType, y: TensorType) -> Sources:
    """What the leading axes of an input follow: those of the output, unless it is broadcast."""
    pairs = zip(x.shape[:-2], y.shape[:-2], strict=True)
    return tuple(axis if extent == whole else None for axis, (extent, whole) in enumerate(pairs))


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    values, out = (node.input(0), node.input(1)), node.output()
    require_int8(out.type, "output")
    rank = max(3, *(value.type.rank for value in values))
    if rank > broadcast.RANK:
        raise node.unsupported(f"an input has rank {rank}, must be at most {broadcast.RANK}")
    for k, value in enumerate(values):
        require(value.type.rank >= 2, f"input {k} has rank {value.type.rank}, must be at least 2")
    op = BatchMatmul(bool(node.integer("adj_x")), bool(node.integer("adj_y")))
    yield from product_nodes(op, values, rank, out)


def product_nodes(
    op: BatchMatmul, values: tuple[Value, ...], rank: int, out: Value
) -> Iterator[Made]:
    """Nodes that apply `op` to two tensors of matrices, first viewed under a rank, and a bias."""
    matrices: list[Value] = []
    for k, value in enumerate(values[:2]):
        shape = (1,) * (rank - value.type.rank) + value.type.shape
        viewed, made = reshaped(value, shape, f"{out.name}/input{k}")
        yield from made
        matrices.append(viewed)
    inputs = (*matrices, *values[2:])
    shape = op.result_type(tuple(value.type for value in inputs)).shape
    yield from with_shape(op, inputs, shape, out)


def from_onnx_products(node: OnnxNode) -> Iterable[Made]:
    """ONNX MatMul of two tensors of matrices, of which one may be constant, and Gemm of such
    without an offset."""
    values = (node.input(0), node.input(1))
    if any(value.type.rank not in (2, 3, 4) for value in values):
        raise node.unsupported("a product of computed matrices, whose rank must be 2 to 4")
    if node.name == "Gemm" and (node.optional(2) is not None or node.real("alpha", 1.0) != 1.0):
        raise node.unsupported("a product of computed matrices with an offset or alpha")
    is_real = node.output().type.quantisation is None
    # Integers of several scales cannot be added up.
    if is_real or any(_has_several_scales(value) for value in values):
        yield from _real_products(node, values)
        return
    for value in values:
        if value.data is not None:
            require_int8(value.type, f'constant "{value.name}"')
    op = BatchMatmul(bool(node.integer("transA")), bool(node.integer("transB")))
    rank = max(3, *(value.type.rank for value in values))
    shapes = ((1,) * (rank - value.type.rank) + value.type.shape for value in values)
    types = tuple(v.type.with_shape(shape) for v, shape in zip(values, shapes, strict=True))
    shape = op.result_type(types).shape
    if max(value.type.rank for value in values) == 2:
        shape = shape[1:]
    y = node.output()
    type = TensorType(shape, DType.INT8, y.type.quantisation)
    yield from product_nodes(op, values, rank, replace(y, type=type))


def _has_several_scales(value: Value) -> bool:
    q = value.type.quantisation
    return value.data is not None and q is not None and len(q.scales) > 1


def _real_products(node: OnnxNode, values: tuple[Value, Value]) -> Iterable[Made]:
    """Products in single precision, all of which are in memory before they are added up: where the
    output has no scale, or a constant has several, so that integers cannot be added up."""
    leading = [value.type.with_shape(value.type.shape[:-2]) for value in values]
    batch = broadcast.result_shape(tuple(leading))
    turned = node.integer("transA") or node.integer("transB")
    if turned or sum(extent > 1 for extent in batch) > 1:
        raise node.unsupported(
            "matrices of which one has several scales, or whose product has none, must not be "
            "transposed, and have at most one axis more",
            help="quantise the output of the node, and its inputs without per-channel scales "
            "(per_channel=False)",
        )
    (*_, m, depth), (*_, k, n) = (value.type.shape for value in values)
    require(depth == k, f"first input has {depth} columns, the second {k} rows")
    real = RealNodes(node)
    shapes = ((m, depth, 1), (1, k, n))
    factors = (
        real.reshape(real.input(a), (leading[a].elements, *shapes[a])) for a in range(len(values))
    )
    total = real.apply(PlainSum((2,)), real.apply(PlainMul(), *factors))
    yield from real.result(real.reshape(total, (*batch, m, n)))


SAMPLES = (
    sample(BatchMatmul(), int8(1, 4, 4), int8(1, 4, 4, zero=9), scale=0.3),
    sample(BatchMatmul(), int8(2, 3, 5), int8(2, 5, 4, zero=9), scale=0.3),
    sample(BatchMatmul(True, True), int8(1, 5, 3), int8(4, 2, 5), scale=0.3),
    sample(
        BatchMatmul(False, True, Activation.RELU),
        int8(1, 3, 5),
        int8(1, 4, 5, zero=9),
        bias(4),
        scale=0.3,
    ),
    sample(BatchMatmul(False, True), int8(2, 3, 2, 6), int8(1, 3, 4, 6, zero=2), scale=0.3),
)
