"""Matrix products over the last two axes, batched over the others.

    a  (.., M, K)  int8   or (.., K, M), transposed
    b  (.., K, N)  int8   or (.., N, K), transposed; leading axes of a and b broadcast
    c  (N)         int32  bias, optional; constant
    y  (.., M, N)  int8   y = clamp(zero_y + Ma * Mb / My * (c + sum (a - zero_a) * (b - zero_b)))

PlainBatchMatmul: a, b and y are float32, without a bias; products are added in order.

Inputs of rank 2 are reshaped to get a leading axis of extent 1.

Source: TFLite BATCH_MATMUL; `reference/batch_matmul.h`, `micro/kernels/batch_matmul.cc`.
FULLY_CONNECTED with computed weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from penstock.fixedpoint import multiply
from penstock.frozen import frozen
from penstock.ir.foreign import ForeignNode, Made, Nodes
from penstock.ir.graph import Value, Values, result_of
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Arrays, Kernel, Params, Site, Types, Work, members, row_kernel
from penstock.ir.operator_facts import relay
from penstock.ir.tensor import Array, DType, Region, TensorType
from penstock.opkit import broadcast
from penstock.opkit.activation import UNLIMITED, Activation
from penstock.opkit.axes import FollowingAxes, Sources
from penstock.opkit.checks import require, require_count, require_dtype, require_int8
from penstock.opkit.nodes import is_real, reshaped, with_shape
from penstock.opkit.real_nodes import RealNodes
from penstock.opkit.requantise import Multipliers, fitting_multiplier, stated_multipliers
from penstock.ops.plain import PlainAdd, PlainMul

LARGEST_PRODUCT = 255 * 255


@frozen
class _Products(FollowingAxes):
    """Shapes, regions and work of matrix products; `a_transposed` and `b_transposed` tell which
    inputs are transposed."""

    a_transposed: bool = False
    b_transposed: bool = False

    def product_type(self, a: TensorType, b: TensorType) -> TensorType:
        """The type of the products.  Raises ModelError if shapes do not fit."""
        require(
            a.rank == b.rank and a.rank in (3, 4),
            f"inputs have shapes {list(a.shape)} and {list(b.shape)}, must have one rank, 3 or 4",
        )
        m, k = _matrix(a.shape, self.a_transposed)
        depth, n = _matrix(b.shape, self.b_transposed)
        require(k == depth, f"first input has {k} columns, the second {depth} rows")
        batch = broadcast.result_shape((a.with_shape(a.shape[:-2]), b.with_shape(b.shape[:-2])))
        return TensorType((*batch, m, n), a.dtype)

    def matrices(self, a: Array, b: Array) -> tuple[Array, Array]:
        """Both inputs, as matrices (.., M, K) and (.., K, N)."""
        return (
            np.swapaxes(a, -1, -2) if self.a_transposed else a,
            np.swapaxes(b, -1, -2) if self.b_transposed else b,
        )

    def sources(self, site: Site) -> tuple[Sources, ...]:
        a, b, *bias = site.inputs
        m, n = site.output.rank - 2, site.output.rank - 1
        return (
            (*_batch(a, site.output), *((None, m) if self.a_transposed else (m, None))),
            (*_batch(b, site.output), *((n, None) if self.b_transposed else (None, n))),
            *((n,) for _ in bias),
        )

    def work(self, site: Site, out: Region) -> Work:
        depth = _matrix(site.x.shape, self.a_transposed)[1]
        return Work(out.elements * depth, out.elements)

    def shape_params(self, site: Site) -> Params:
        """Kernel parameters of the matrices."""
        a, b, *_ = site.inputs
        m, depth = _matrix(a.shape, self.a_transposed)
        n = site.output.shape[-1]
        steps = dict(broadcast.params(Site((a, b), site.output, site.constants[:2])))
        return members(
            members(m=m, n=n, depth=depth, out_h=steps["out_h"]),
            ((name, steps[name]) for name in ("step0_n", "step0_h", "step1_n", "step1_h")),
            row0=1 if self.a_transposed else depth,
            inner0=m if self.a_transposed else 1,
            column1=depth if self.b_transposed else 1,
            inner1=1 if self.b_transposed else n,
        )


@frozen
class BatchMatmul(_Products):
    """Matrix products with requantisation and clamp."""

    activation: Activation = Activation.NONE
    stated: Multipliers | None = None

    TFLITE = ("BATCH_MATMUL",)
    RELAY = relay("nn.batch_matmul", "qnn.batch_matmul")

    def result_type(self, inputs: Types) -> TensorType:
        require(len(inputs) in (2, 3), f"matrix product has {len(inputs)} inputs, must have 2 or 3")
        a, b, *bias = inputs
        require_int8(a, "first input")
        require_int8(b, "second input")
        y = self.product_type(a, b)
        depth = _matrix(a.shape, self.a_transposed)[1]
        require(self.stated is None or not bias, "stated multipliers are those of sums alone")
        require(
            self.stated is None or depth * LARGEST_PRODUCT < 2**31,
            f"sums of {depth} products may overflow int32",
        )
        for c in bias:
            require_dtype(c, "bias", DType.INT32)
            require(
                c.shape == y.shape[-1:],
                f"bias has shape {list(c.shape)}, must be {list(y.shape[-1:])}",
            )
        return y

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        a, b, *bias = (
            x[need.slices].astype(np.int64) - type.zero_point
            for x, need, type in zip(inputs, self.needs(site, out), site.inputs, strict=True)
        )
        a, b = self.matrices(a, b)
        if self.stated is not None:
            bounds = self.activation.bounds(site.output)
            one = slice(0, 1)
            return self.stated.apply(sum(bias, a @ b), one, site.output.zero_point, bounds)
        scaled = multiply(sum(bias, a @ b), *self._multiplier(site)) + site.output.zero_point
        return np.clip(scaled, *self.activation.bounds(site.output)).astype(np.int8)

    def kernel(self, site: Site) -> Kernel:
        a, b, *bias = site.inputs
        zeros = (("zero0", a.zero_point), ("zero1", b.zero_point))
        params, bounds = (*self.shape_params(site), *zeros), self.activation.params(site.output)
        if self.stated is not None:
            tables = self.stated.tables(site.output.zero_point)
            return row_kernel("batch_matmul_forms_s8", params, bounds, tables)
        multiplier, shift = self._multiplier(site)
        return row_kernel(
            "batch_matmul_bias_s8" if bias else "batch_matmul_s8",
            params,
            members(multiplier=multiplier, shift=shift, out_zero=site.output.zero_point),
            bounds,
            constants=((2, "bias"),) if bias else (),
        )

    def _multiplier(self, site: Site) -> tuple[int, int]:
        a, b, *bias = site.inputs
        depth = _matrix(a.shape, self.a_transposed)[1]
        # Both operands are computed, so every product may be the largest one.
        largest = depth * LARGEST_PRODUCT
        if bias and site.constants[2] is not None:
            largest += int(np.abs(site.constant(2).astype(np.int64)).max())
        return fitting_multiplier(a.scale * b.scale / site.output.scale, largest)


@frozen
class PlainBatchMatmul(_Products):
    """Matrix products of real numbers."""

    RELAY = relay("nn.batch_matmul")

    def result_type(self, inputs: Types) -> TensorType:
        a, b = require_count(inputs, 2, "matrix product")
        for k, x in enumerate(inputs):
            require_dtype(x, f"input {k}", DType.FLOAT32)
        return self.product_type(a, b)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        needs = self.needs(site, out)
        a, b = self.matrices(*(x[n.slices] for x, n in zip(inputs, needs, strict=True)))
        total = np.zeros(out.shape, np.float32)
        with np.errstate(all="ignore"):
            for k in range(a.shape[-1]):
                total += a[..., k, None] * b[..., k, None, :]
        return total

    def kernel(self, site: Site) -> Kernel:
        return row_kernel("batch_matmul_f32", self.shape_params(site))


def _matrix(shape: tuple[int, ...], transposed: bool) -> tuple[int, int]:
    """(rows, columns) of the matrices in a tensor of that shape."""
    return (shape[-1], shape[-2]) if transposed else (shape[-2], shape[-1])


def _batch(x: TensorType, y: TensorType) -> Sources:
    """What the leading axes of an input follow: those of the output, unless it is broadcast."""
    pairs = zip(x.shape[:-2], y.shape[:-2], strict=True)
    return tuple(axis if extent == whole else None for axis, (extent, whole) in enumerate(pairs))


def from_foreign(node: ForeignNode) -> Nodes:
    values, out = (node.x, node.input(1)), node.y
    is_plain = values[0].dtype is DType.FLOAT32
    if is_plain:
        require_dtype(out.type, "output", DType.FLOAT32)
    else:
        require_int8(out.type, "output")
    rank = max(3, *(value.rank for value in values))
    if rank > broadcast.RANK:
        raise node.unsupported(f"an input has rank {rank}, must be at most {broadcast.RANK}")
    for k, value in enumerate(values):
        require(value.rank >= 2, f"input {k} has rank {value.rank}, must be at least 2")
    make = PlainBatchMatmul if is_plain else BatchMatmul
    op = make(bool(node.integer("adj_x")), bool(node.integer("adj_y")))
    yield from product_nodes(op, values, rank, out)


def product_nodes(
    op: BatchMatmul | PlainBatchMatmul, values: Values, rank: int, out: Value
) -> Iterator[Made]:
    """Nodes that apply `op` to two tensors of matrices, first viewed under a rank, and a bias."""
    matrices: list[Value] = []
    for k, value in enumerate(values[:2]):
        shape = (1,) * (rank - value.rank) + value.shape
        viewed, made = reshaped(value, shape, f"{out.name}/input{k}")
        yield from made
        matrices.append(viewed)
    inputs = (*matrices, *values[2:])
    shape = result_of(op, inputs).shape
    yield from with_shape(op, inputs, shape, out)


def from_onnx_products(node: OnnxNode) -> Nodes:
    """ONNX MatMul of two tensors of matrices, of which one may be constant, and Gemm of such, of
    real numbers if there is an offset."""
    values = (node.x, node.input(1))
    if any(value.rank not in (2, 3, 4) for value in values):
        raise node.unsupported("a product of computed matrices, whose rank must be 2 to 4")
    has_offset = node.optional(2) is not None or node.real("alpha", 1.0) != 1.0
    is_scaled = node.name == "Gemm" and has_offset
    stated = stated_multipliers(node, 1)
    # Integers of several scales cannot be added up.
    is_mixed = any(_has_several_scales(value) for value in values)
    if is_real(node) or is_mixed or (is_scaled and stated is None):
        yield from _real_products(node, values)
        return
    if is_scaled:
        raise node.unsupported("a product of computed matrices with an offset or alpha")
    for value in values:
        if value.data is not None:
            require_int8(value.type, f'constant "{value.name}"')
    transposed = bool(node.integer("transA")), bool(node.integer("transB"))
    op = BatchMatmul(*transposed, stated=stated)
    rank, shapes = _stacked(values)
    types = tuple(v.type.with_shape(shape) for v, shape in zip(values, shapes, strict=True))
    shape = op.result_type(types).shape
    if max(value.rank for value in values) == 2:
        shape = shape[1:]
    y = node.y
    type = TensorType(shape, DType.INT8, y.quantisation)
    yield from product_nodes(op, values, rank, replace(y, type=type))


def _stacked(values: tuple[Value, Value]) -> tuple[int, tuple[tuple[int, ...], ...]]:
    """A rank of at least 3, and the shapes of two tensors of matrices with that rank."""
    rank = max(3, *(value.rank for value in values))
    return rank, tuple((1,) * (rank - v.rank) + v.shape for v in values)


def _has_several_scales(value: Value) -> bool:
    q = value.quantisation
    return value.data is not None and q is not None and len(q.scales) > 1


def _real_products(node: OnnxNode, values: tuple[Value, Value]) -> Nodes:
    """Products of real numbers."""
    real = RealNodes(node)
    _, shapes = _stacked(values)
    matrices = [real.reshape(real.input(k), shape) for k, shape in enumerate(shapes)]
    op = PlainBatchMatmul(bool(node.integer("transA")), bool(node.integer("transB")))
    total = real.apply(op, *matrices)
    if max(value.rank for value in values) == 2:
        total = real.reshape(total, total.shape[1:])
    if node.name == "Gemm":
        total = _scaled_and_offset(node, real, total)
    yield from real.result(total)


def _scaled_and_offset(node: OnnxNode, real: RealNodes, total: Value) -> Value:
    """alpha * total + beta * input 2, of Gemm."""
    alpha, beta = node.real("alpha", 1.0), node.real("beta", 1.0)
    if alpha != 1.0:
        total = real.apply(PlainMul(UNLIMITED), total, real.constant(alpha, "alpha"))
    if node.optional(2) is None:
        return total
    offset = real.input(2)
    if beta != 1.0:
        offset = real.apply(PlainMul(UNLIMITED), offset, real.constant(beta, "beta"))
    offset = real.reshape(offset, (1,) * (2 - offset.rank) + offset.shape)
    return real.apply(PlainAdd(UNLIMITED), total, offset)
