"""Fully connected layer: each output is a weighted sum of all inputs of a row.

    x  (..., I)  int8    float32    as (B, I)
    w  (O, I)    int8    float32    constant; int8: zero point 0; one scale, or one per O;
                                 int16 if wide
    b  (O)       int32   float32
    y  (B, O), or (..., O) if dimensions are kept

Weights with another zero point: `opkit/layers.py`.  Computed weights: BatchMatmul.

Source: TFLite FULLY_CONNECTED; `reference/integer_ops/fully_connected.h`,
`reference/fully_connected.h`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from penstock.choices import Rounding
from penstock.fixedpoint import Int64s
from penstock.frozen import frozen
from penstock.ir.affine import Affine
from penstock.ir.foreign import ForeignNode, Made, Nodes
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Affines, Arrays, Kernel, Params, Regions, Site, Types, Work, members
from penstock.ir.operator_facts import AxisOrder, OnnxName, onnx, relay
from penstock.ir.tensor import Array, Data, DType, Region, TensorType, row_count
from penstock.opkit import layers, onnx_constants
from penstock.opkit.activation import FINITE, UNLIMITED, Activation, Limits, fused_activation
from penstock.opkit.checks import (
    require,
    require_int8,
    require_rank,
    require_weights,
)
from penstock.opkit.layers import (
    Layer,
    PlainLayer,
    WeightedOp,
    exact_dtype,
    foreign_layer,
    in_quads,
    layer_node,
    onnx_layer,
    with_bias,
)
from penstock.opkit.nodes import in_shape_of_output, onnx_form, reshaped
from penstock.opkit.real_nodes import RealNodes
from penstock.opkit.requantise import Multipliers, reach_of_sums, stated_multipliers
from penstock.ops import batch_matmul
from penstock.ops.conversions import Cast
from penstock.ops.dynamic_range import is_dynamic
from penstock.ops.dynamic_range import layer_nodes as dynamic_layer
from penstock.ops.partial_product import PartialProduct, first_sums
from penstock.ops.plain import PlainAdd, PlainMul, PlainRelu
from penstock.ops.reshape import Reshape
from penstock.ops.running import Halves, RequantiseLast, RunningProduct
from penstock.ops.transpose import Transpose

CHUNK_ELEMENTS = 1 << 22
"""Weights that are converted at a time, to bound memory."""


class _Dense(WeightedOp):
    """Shapes, regions and work of a fully connected layer."""

    __slots__ = ()
    keep_dimensions: bool

    def result_type(self, inputs: Types) -> TensorType:
        x, w, b = self.operands(inputs, 2)
        outputs, depth = w.shape
        require(
            x.elements % depth == 0,
            f"input has {x.elements} elements, must be a multiple of the weights' {depth}",
        )
        require(b.shape == (outputs,), f"bias has shape {list(b.shape)}, must be [{outputs}]")
        if self.keep_dimensions:
            require(x.shape[-1] == depth, f"input has shape {list(x.shape)}, must end in {depth}")
            return TensorType((*x.shape[:-1], outputs), x.dtype)
        return TensorType((x.elements // depth, outputs), x.dtype)

    def reduced(self, site: Site) -> tuple[tuple[tuple[int, int], ...], ...]:
        x, w, _ = site.inputs
        return (((0, x.rank - 1), (1, 1)),) if x.shape[-1] == w.shape[1] else ()

    def needs(self, site: Site, out: Region) -> Regions:
        x = site.x
        if x.shape[:-1] == site.output.shape[:-1]:
            read = Region.of(*out.intervals[:-1], (0, x.shape[-1]))
        else:
            read = Region.whole(x.shape)
        return read, *self.needed_constants(site, out)

    def affine(self, site: Site) -> Affines:
        x, rank = site.x, site.output.rank
        if x.shape[:-1] == site.output.shape[:-1]:
            extra = (*((0,) * (rank - 1)), x.shape[-1])
            rows = Affine.diagonal((*((1,) * (rank - 1)), 0), extra)
        else:
            rows = Affine.constant(x.shape, rank)
        return rows, *self.affine_constants(site)

    def work(self, site: Site, out: Region) -> Work:
        return Work(out.elements * site.inputs[1].shape[1], out.elements)

    def rows(self, site: Site, x: Array, out: Region) -> Array:
        """The rows of inputs that a region of the output reads."""
        leading = site.output.shape[:-1]
        return x.reshape((*leading, site.inputs[1].shape[1]))[out.slices[:-1]]

    def shape_params(self, site: Site) -> Params:
        """Kernel parameters of the shapes."""
        outputs, depth = site.inputs[1].shape
        batches = math.prod(site.output.shape[:-1])
        return members(batches=batches, in_c=depth, out_c=outputs)


@frozen
class FullyConnected(_Dense, Layer):
    """Matrix-vector product with bias, requantisation and clamp."""

    activation: Activation = Activation.NONE
    keep_dimensions: bool = False
    rounding: Rounding = Rounding.DOUBLE
    stated: Multipliers | None = None

    TAKES_WIDE = True
    TFLITE = ("FULLY_CONNECTED",)
    ONNX = onnx(OnnxName(AxisOrder.ROWS, floats=True), "Gemm", "MatMul")
    RELAY = relay("nn.dense", "qnn.dense")

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        x, w, b = inputs
        total = self.sums(self.rows(site, x, out), site.x.zero_point, w, out)
        return self.requantised(site, total, b, out, self.rounding)

    def sums(self, x: Array, zero: int, w: Array, out: Region) -> Array:
        depth, w = w.shape[1], w[out.slices[-1]]
        kind, step = exact_dtype(depth, w), max(1, CHUNK_ELEMENTS // depth)
        centred = x.reshape(-1, depth).astype(kind) - kind(zero)
        parts = [centred @ w[o : o + step].astype(kind).T for o in range(0, max(1, len(w)), step)]
        return np.concatenate(parts, axis=1).reshape(out.shape)

    def kernel(self, site: Site) -> Kernel:
        w = site.inputs[1]
        if w.dtype is layers.WIDE:
            return self.wide_kernel(site, np.arange(w.shape[0]))
        found = self.layer_kernel(site, "fully_connected_s8", self.shape_params(site))
        rounding = ("single_rounding", int(self.rounding is Rounding.SINGLE))
        return replace(found, params=(*found.params, rounding), by_rows=False)

    def wide_kernel(self, site: Site, channels: Int64s) -> Kernel:
        name, params = "wide_outputs_s8", self.shape_params(site)
        found = self.wide_layer_kernel(site, name, params, channels, channels, self.rounding)
        return replace(found, by_rows=False)

    def halves(self, site: Site) -> Halves | None:
        """Sums accumulated over the rows of an image, then requantised."""
        x, w, _ = site.inputs
        if w.dtype is layers.WIDE or x.rank != 4 or x.shape[0] != 1 or x.elements != w.shape[1]:
            return None
        product = RunningProduct()
        last = RequantiseLast(
            self.multipliers(site),
            self.activation,
            self.rounding,
            reach_of_sums(x, site.constant(1), site.constant(2)),
        )
        return Halves(product, product.result_type(site.inputs), last)


@frozen
class PlainFullyConnected(_Dense, PlainLayer):
    """Matrix-vector product of real numbers with bias and clamp."""

    limits: Limits = FINITE
    keep_dimensions: bool = False

    RELAY = relay("nn.dense")

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        x, w, b = inputs
        rows = self.rows(site, x, out)
        total = np.zeros(out.shape, np.float32)
        with np.errstate(all="ignore"):
            for c in range(w.shape[1]):
                total += rows[..., c, None] * w[out.slices[-1], c]
        return self.finished(total, b, out)

    def kernel(self, site: Site) -> Kernel:
        outputs, depth = site.inputs[1].shape
        shape = site.output.shape
        by_rows = site.x.shape[:-1] == shape[:-1]
        width = math.prod(shape[:-1]) // (row_count(shape) if by_rows else 1)
        sizes = (("width", width), ("in_c", depth), ("out_c", outputs), ("is_whole", not by_rows))
        params = tuple((name, int(size)) for name, size in sizes)
        quads = in_quads(site.constant(1)[None])
        found = self.plain_kernel("fully_connected_f32", params, quads)
        return replace(found, by_rows=by_rows)


def from_foreign(node: ForeignNode) -> Nodes:
    x, w = node.x, node.input(1)
    require_rank(w.type, "weights", 2)
    if node.choice("weights_format", ("DEFAULT", "SHUFFLED4x16INT8")) != "DEFAULT":
        raise node.unsupported("shuffled weights")
    if w.data is None:
        yield from _of_computed_weights(node)
        return
    clamp, keep = fused_activation(node), bool(node.integer("keep_num_dims"))
    if is_dynamic(node):
        depth = w.shape[1]
        rows = (x.elements // max(1, depth), depth)
        yield from dynamic_layer(node, PlainFullyConnected(UNLIMITED), rows, (1,))
        return
    if x.dtype is DType.FLOAT32:
        yield foreign_layer(PlainFullyConnected(Limits.of(clamp), keep), node, x, w)
        return
    b = with_bias(node, w.shape[0])
    op = FullyConnected(clamp, keep)
    zeros = w.quantisation.zero_points if w.quantisation else ()
    if w.dtype is DType.INT8 and any(zeros) and not node.unsigned:
        yield from _of_shifted_weights(node, replace(op, keep_dimensions=False), b)
        return
    yield layer_node(op, node, x, w, b)


def _flat(node: ForeignNode) -> tuple[Value, tuple[Made, ...]]:
    """The input as a matrix (B, I), and the nodes that reshape it."""
    x, depth = node.x, node.input(1).shape[1]
    require(
        depth > 0 and x.elements % depth == 0,
        f"input has {x.elements} elements, must be a multiple of the weights' {depth}",
    )
    return reshaped(x, (x.elements // depth, depth), f"{node.y.name}/flat")


def _of_computed_weights(node: ForeignNode) -> Iterator[Made]:
    """FULLY_CONNECTED of two computed matrices (`tf.matmul`)."""
    y = node.y
    if y.dtype is DType.FLOAT32:
        yield from in_shape_of_output(node, _of_computed_numbers(node))
        return
    require_int8(y.type, "output")
    x, made = _flat(node)
    yield from made
    bias = (node.input(2),) if node.optional(2) is not None else ()
    op = batch_matmul.BatchMatmul(b_transposed=True, activation=fused_activation(node))
    yield from batch_matmul.product_nodes(op, (x, node.input(1), *bias), 3, y)


def _of_computed_numbers(node: ForeignNode) -> Iterator[Made]:
    new, w, bias = RealNodes(onnx_form(node, "MatMul")), node.input(1), node.optional(2)
    limits = Limits.of(fused_activation(node))
    matrices = (new.reshape(v, (1, -1, w.shape[1])) for v in (node.x, w))
    found = new.apply(batch_matmul.PlainBatchMatmul(b_transposed=True), *matrices)
    found = found if bias is None else new.apply(PlainAdd(), found, bias)
    return new.result(new.apply(PlainRelu(limits), found) if limits != UNLIMITED else found)


def _of_shifted_weights(node: ForeignNode, op: FullyConnected, b: Value) -> Iterator[Made]:
    """FULLY_CONNECTED of weights with a zero point."""
    w, y = node.input(1), node.y
    if w.quantisation and len(w.quantisation.scales) > 1:
        raise node.unsupported(
            "weights have a zero point for each channel, must have one for all, or none",
            help="convert the model again: current TensorFlow Lite converters write none",
        )
    require_int8(w.type, "weights")
    x, made = _flat(node)
    yield from made
    x, w, made = layers.centred_layer(y.name, x, w)
    yield from made
    shape = (x.shape[0], w.shape[0])
    result = y
    if y.shape != shape:
        result = y.shaped(f"{y.name}/before_reshape", shape)
    inner = replace(node, inputs=(x, w, b), outputs=(result,))
    yield layer_node(op, inner, x, w, b)
    if result is not y:
        yield Made(Reshape(y.shape), (result,), y)


def from_onnx(node: OnnxNode) -> Nodes:
    """Imports ONNX Gemm, and MatMul by a constant matrix.  A third input of MatMul is the bias of a
    following Add, which the front end has merged into it."""
    x = node.x
    if node.name == "MatMul" and 1 in (x.rank, node.input(1).rank):
        yield from _of_vectors(node)
        return
    if x.data is not None or node.input(1).data is None or node.input(1).rank > 2:
        yield from batch_matmul.from_onnx_products(node)
        return
    if node.name == "Gemm" and node.integer("transA"):
        turned = node.between(Transpose((1, 0)), x, label="transposed", like=x.quantisation)
        yield turned
        x = turned.output
    outputs_axis = 0 if node.integer("transB") else 1
    if x.dtype is DType.FLOAT32 or onnx_constants.has_real_constants(node, outputs_axis):
        yield from _plain_products(node, x)
        return
    w = onnx_constants.matrix(node)
    outputs, depth = w.shape
    keep = _keeps_dimensions(node, x, depth)
    op = FullyConnected(keep_dimensions=keep, stated=stated_multipliers(node, outputs))
    if layers.centred(w) is None:
        rows = x.shape if node.columns is None else (x.elements // depth, depth)
        x, made = reshaped(x, rows, f"{node.y.name}/rows")
        yield from made
    x, w, made = layers.centred_layer(node.y.name, x, w)
    yield from made
    if node.y.quantisation is None:
        yield from _real_products(node, x, w)
        return
    b = onnx_constants.bias(node, 2, x, w, outputs)
    yield onnx_layer(op, node, x, w, b)


def _keeps_dimensions(node: OnnxNode, x: Value, depth: int) -> bool:
    """Whether the layer reads several axes of rows.  Raises ModelError for rows of another
    length."""
    if node.columns is not None:
        return False
    require(
        x.rank >= 2 and x.shape[-1] == depth,
        f"input has shape {list(x.shape)}, must end in {depth}",
    )
    return x.rank > 2


def _plain_products(node: OnnxNode, x: Value) -> Nodes:
    """Products of rows of real numbers by a matrix."""
    real = RealNodes(node)
    w = Value.constant(node.input(1).name, onnx_constants.real_matrix(node))
    outputs, depth = w.shape
    keep = _keeps_dimensions(node, x, depth)
    op = PlainFullyConnected(UNLIMITED, keep_dimensions=keep)
    offsets = node.optional(2)
    if offsets is None or offsets.shape in ((), (1,), (outputs,), (1, 1), (1, outputs)):
        bias = real.constant(onnx_constants.real_bias(node, 2, outputs), "bias")
        yield from real.result(real.apply(op, real.real(x), w, bias))
        return
    no_bias = real.constant(np.zeros(outputs), "no_bias")
    total = real.apply(op, real.real(x), w, no_bias)
    with np.errstate(invalid="ignore"):  # what is no number is refused below
        matrix = onnx_constants.real_numbers(node, 2) * node.real("beta", 1.0)
    yield from real.result(real.apply(PlainAdd(), total, real.constant(matrix, "offsets")))


def _real_products(node: OnnxNode, x: Value, w: Value) -> Nodes:
    """Products of rows by weights (O, I), as real numbers: sums in int32, times their scales."""
    require_weights(w.type, 0)
    assert w.quantisation is not None
    outputs, depth = w.shape
    name, elements = node.y.name, w.array
    sums = first_sums(x.type, elements, np.zeros(outputs, np.int64))
    if sums is None:
        raise node.unsupported("sums of products may overflow int32")
    first = Value(f"{name}/sums", TensorType((outputs,), DType.INT32), Data.of(sums))
    real = RealNodes(node)
    rows = x if node.columns is None else real.reshape(x, (x.elements // depth, depth))
    total = real.apply(Cast(DType.FLOAT32), real.apply(PartialProduct(), first, rows, w))
    scales = np.float32(x.scale) * np.array(w.quantisation.scales, np.float32)
    found = real.apply(PlainMul(), total, real.constant(scales, "scales"))
    if node.optional(2) is not None:
        bias = onnx_constants.real_bias(node, 2, outputs)
        found = real.apply(PlainAdd(), found, real.constant(bias, "bias"))
    yield from real.result(found)


def _of_vectors(node: OnnxNode) -> Nodes:
    """MatMul whose first input is a vector, (I), or whose second is."""
    a, b = node.x, node.input(1)
    name, shapes = node.y.name, [a.shape, b.shape]
    if a.rank == 1:
        shapes[0] = (1, *shapes[0])
    if b.rank == 1:
        shapes[1] = (*shapes[1], 1)
    matrices: list[Value] = []
    for k, value in enumerate((a, b)):
        viewed, made = reshaped(value, shapes[k], f"{name}/matrix{k}")
        yield from made
        matrices.append(viewed)
    product = replace(node.y, name=f"{name}/product")
    inputs, columns = (*matrices, *node.inputs[2:]), node.columns if a.rank > 1 else None
    steps = [*from_onnx(replace(node, inputs=inputs, outputs=(product,), columns=columns))]
    yield from steps
    found = steps[-1].output
    shape = list(found.shape)
    if b.rank == 1:
        shape.pop()
    if a.rank == 1:
        shape.pop(-1 if b.rank == 1 else -2)
    yield node.made(Reshape(tuple(shape)), found)
