"""Layers: operators with weights, whose kernels accumulate in int32, and import of their operands.

Weights have no zero points in kernels.  Weights less their zero points have 9 bits: if int8 does
not hold them, they are int16 ("wide"), or split among copies of input channels.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.choices import Rounding
from penstock.errors import UnsupportedError
from penstock.fixedpoint import Int64s, quantise_multiplier
from penstock.frozen import frozen
from penstock.ir.affine import Affine
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.graph import Node, Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Kernel, OperatorDefaults, Params, Site, Table, Types, members, row_kernel
from penstock.ir.tensor import Array, Data, DType, Quantisation, Region, TensorType
from penstock.opkit import sliding
from penstock.opkit.activation import Activation, Limits
from penstock.opkit.axes import Sources, followed, followed_affine
from penstock.opkit.checks import (
    require,
    require_count,
    require_dtype,
    require_int8,
    require_rank,
    require_weights,
)
from penstock.opkit.requantise import (
    LARGEST_SCALED,
    Multipliers,
    channel_multipliers,
    form_table,
)
from penstock.opkit.sliding import Window
from penstock.ops.gather import Gather

LAYER_ROLES = ("input", "weights", "bias")
WIDE = DType.INT16  # Element type of weights that int8 does not hold.


class WeightedOp(OperatorDefaults):
    """Base of operators of input, weights and bias, whose sums of products are clamped.

    `OUTPUT_AXIS`: the axis of the weights that runs along the output channels.
    `DTYPES`: element types of input, weights and bias.
    `TAKES_WIDE`: the weights may be int16, with 9 bits (`Layer.wide_kernel`)."""

    __slots__ = ()
    OUTPUT_AXIS: ClassVar[int] = 0
    TAKES_WIDE: ClassVar[bool] = False
    BIAS_INPUT = 2
    DTYPES: ClassVar[tuple[DType, DType, DType]]

    def operands(self, inputs: Types, rank: int) -> tuple[TensorType, TensorType, TensorType]:
        """The types of input, weights and bias.

        Raises PenstockError unless there are three, of the element types of a layer, with weights
        of that rank, and likewise the input if they have windows."""
        x, w, b = require_count(inputs, 3, type(self).__name__)
        if rank == 4:
            require_rank(x, "input", rank)
        require_rank(w, "weights", rank)
        if self.DTYPES[0] is DType.INT8:
            require_int8(x, "input")
        for type_, dtype, name in zip((x, w, b), self.DTYPES, LAYER_ROLES, strict=True):
            wide = (WIDE,) if self.TAKES_WIDE and type_ is w else ()
            require_dtype(type_, name, dtype, *wide)
        return x, w, b

    def needed_constants(self, site: Site, out: Region) -> tuple[Region, Region]:
        """The regions of weights and bias that a region of the output reads."""
        _, w, b = site.inputs
        weights, bias = self._followed(site)
        return followed(w.shape, weights, out), followed(b.shape, bias, out)

    def affine_constants(self, site: Site) -> tuple[Affine, Affine]:
        """Affine form of `needed_constants`."""
        (_, w, b), rank = site.inputs, site.output.rank
        weights, bias = self._followed(site)
        return followed_affine(w.shape, weights, rank), followed_affine(b.shape, bias, rank)

    def _followed(self, site: Site) -> tuple[Sources, Sources]:
        last, axes = site.output.rank - 1, range(site.inputs[1].rank)
        return tuple(last if axis == self.OUTPUT_AXIS else None for axis in axes), (last,)


def exact_dtype(terms: int, w: Array) -> type[np.floating]:
    """The narrower floating-point type that holds all sums of `terms` products of centred elements
    and weights exactly."""
    largest = 255 * (128 if w.dtype == np.int8 else 255)
    return np.float32 if terms * largest <= 2**24 else np.float64


class Layer(WeightedOp):
    """Base of int8 layers: accumulators in int32 are requantised."""

    __slots__ = ()
    activation: Activation
    stated: Multipliers | None
    DTYPES = (DType.INT8, DType.INT8, DType.INT32)

    def multipliers(self, site: Site) -> Multipliers:
        """Requantisation multipliers of the output channels: those that the model states, or of the
        scales."""
        if self.stated is not None:
            return self.stated
        x, w, _ = site.inputs
        return channel_multipliers(x, w, site.output, w.shape[self.OUTPUT_AXIS])

    def sums(self, x: Array, zero: int, w: Array, out: Region) -> Array:
        """Sums of products in region `out`, exact in floating point, of an input with a zero point.

        They do not depend on the order in which a BLAS library adds, nor on whether it fuses
        multiply and add (`exact_dtype`)."""
        raise NotImplementedError

    def requantised(
        self,
        site: Site,
        sums: Array,
        bias: Array,
        out: Region,
        rounding: Rounding = Rounding.DOUBLE,
    ) -> Array:
        """Elements of region `out`, given its sums of products and the bias of all channels."""
        y, channels = site.output, out.slices[-1]
        accumulators = sums.astype(np.int64) + bias[channels].astype(np.int64)
        bounds = self.activation.bounds(y)
        return self.multipliers(site).apply(accumulators, channels, y.zero_point, bounds, rounding)

    def layer_kernel(self, site: Site, name: str, params: Params) -> Kernel:
        """The C kernel `name` with parameters of its own before those of all layers."""
        return row_kernel(
            name,
            params,
            members(in_zero=site.x.zero_point, out_zero=site.output.zero_point),
            self.activation.params(site.output),
            self.multipliers(site).tables(site.output.zero_point),
            constants=((1, "weights"), (2, "bias")),
        )

    def wide_kernel(self, site: Site, channels: Int64s) -> Kernel:
        """The kernel that computes `channels` of the output, whose weights may be wide, and leaves
        the others as they are.  Layers that take wide weights have it."""
        raise NotImplementedError

    def wide_layer_kernel(
        self,
        site: Site,
        name: str,
        params: Params,
        channels: Int64s,
        places: Int64s,
        rounding: Rounding = Rounding.DOUBLE,
    ) -> Kernel:
        """The C kernel `name` for some channels, with parameters of its own before the shared ones.

        places: where each of them lies in the output, and what else the kernel has to know."""
        forms = self.multipliers(site).forms(site.output.zero_point, rounding)[channels]
        weights = np.moveaxis(site.constant(1), self.OUTPUT_AXIS, 0)[channels]
        return row_kernel(
            name,
            params,
            members(in_zero=site.x.zero_point),
            self.activation.params(site.output),
            wide=len(channels),
            wide_weights=Table.of(weights.astype(np.int16).ravel()),
            wide_bias=Table.of(site.constant(2)[channels]),
            wide_forms=form_table(forms),
            wide_places=Table.integers(places.ravel()),
            folded=(1, 2),
        )


class WindowedLayer(Layer):
    """Base of int8 layers whose weights slide over the input."""

    __slots__ = ()
    rows: Window
    columns: Window
    TAKES_WIDE = True

    def wide_windows_kernel(
        self, site: Site, channels: Int64s, firsts: Int64s, depth: int
    ) -> Kernel:
        """`wide_kernel` of channels that read `depth` channels of the input each, beginning with
        one of `firsts`."""
        params = members(sliding.params(site, self.rows, self.columns), depth=depth)
        places = np.stack([channels, firsts], axis=1)
        return self.wide_layer_kernel(site, "wide_channels_s8", params, channels, places)


def narrow_site(site: Site, channels: Int64s, axis: int) -> Site:
    """The operands with int8 weights, which are 0 in `channels` of the output."""
    weights = np.moveaxis(site.constant(1).copy(), axis, 0)
    weights[channels] = 0
    elements = np.ascontiguousarray(np.moveaxis(weights, 0, axis).astype(np.int8))
    x, w, b = site.inputs
    constants = (site.constants[0], Data.of(elements), site.constants[2])
    return Site((x, replace(w, dtype=DType.INT8), b), site.output, constants)


def has_wide_weights(node: Node) -> bool:
    """Whether a node is a layer whose weights int8 does not hold."""
    return isinstance(node.op, Layer) and node.inputs[1].dtype is WIDE


def as_if_narrow(node: Node) -> Site:
    """The operands of a node as if int8 held its weights; their values are not to be read."""
    if not has_wide_weights(node):
        return node.site
    x, w, *rest = node.site.inputs
    return replace(node.site, inputs=(x, replace(w, dtype=DType.INT8), *rest))


def other_axes(weights: Array, axis: int) -> tuple[int, ...]:
    """All axes but one."""
    return tuple(k for k in range(weights.ndim) if k != axis)


def wide_channels(weights: Array, axis: int) -> Int64s:
    """The channels along `axis` with weights that int8 does not hold."""
    others = other_axes(weights, axis)
    return np.flatnonzero((weights.max(axis=others) > 127) | (weights.min(axis=others) < -128))


class PlainLayer(WeightedOp):
    """Base of float32 layers.

    Products are rounded, then added one by one in the order of the weights' axes, then the bias, as
    in the reference.

    Source: TFLite, `reference/conv.h`, `depthwiseconv_float.h` and `fully_connected.h`."""

    __slots__ = ()
    limits: Limits
    DTYPES = (DType.FLOAT32, DType.FLOAT32, DType.FLOAT32)

    def finished(self, sums: Array, bias: Array, out: Region) -> Array:
        """Elements of region `out`, given its sums of products and the bias of all channels."""
        with np.errstate(all="ignore"):
            return self.limits.applied(sums + bias[out.slices[-1]])

    def plain_kernel(self, name: str, params: Params, packed: Array) -> Kernel:
        """The C kernel `name`, which reads the weights as `packed`; in int8 if that holds them, as
        it does those of dynamic-range layers."""
        stored = narrowed(packed)
        return row_kernel(
            name,
            params,
            weight_bytes=stored.itemsize,
            weights=Table.of(stored),
            bounds=Table.of(self.limits.array(DType.FLOAT32)),
            constants=((2, "bias"),),
            folded=(1,),
        )


def narrowed(weights: Array) -> Array:
    """Real weights as float32 kernels read them: in int8 if that holds them."""
    with np.errstate(invalid="ignore"):
        narrow = weights.astype(np.int8)
    return narrow if np.array_equal(narrow, weights) else weights


QUAD = 4
"""Outputs that float32 kernels compute together."""


def in_quads(weights: Array) -> Array:
    """Weights (G, O, ..) as (G, O / 4, .., 4), with zeros in place of outputs that do not exist."""
    groups, outputs, *rest = weights.shape
    missing = -outputs % QUAD
    padded = np.pad(weights, ((0, 0), (0, missing), *((0, 0),) * len(rest)))
    blocks = padded.reshape(groups, (outputs + missing) // QUAD, QUAD, *rest)
    return np.ascontiguousarray(np.moveaxis(blocks, 2, -1))


def layer_node(op: Layer, node: ForeignNode, x: Value, w: Value, b: Value) -> Made:
    """The node of a layer with input, weights and bias.

    Raises ModelError if types or shapes are inconsistent, UnsupportedError if weights or bias are
    computed, or if an accumulator may overflow int32."""
    axis = op.OUTPUT_AXIS
    op.result_type((x.type, w.type, b.type))
    if node.unsigned:
        w = _of_unsigned(op, node, x.type, w)
    require_weights(w.type, axis)
    require_int8(node.y.type, "output")
    weights, bias = _constant(node, w, "weights"), _constant(node, b, "bias")
    site = Site((x.type, w.type, b.type), node.y.type, (x.data, w.data, b.data))
    multipliers = op.multipliers(site)
    reach = _reach(x.type, weights, axis)
    b = _with_effect(node, b, bias, reach, multipliers)
    _require_fit(reach.with_bias(_constant(node, b, "bias")), multipliers)
    return Made(op, (x, w, b), node.y)


def onnx_layer(op: Layer, node: OnnxNode, x: Value, w: Value, b: Value) -> Made:
    """The node of a layer of an ONNX file.  Raises as `layer_node`."""
    return layer_node(op, node.typed(op, x, w, b), x, w, b)


def _of_unsigned(op: Layer, node: ForeignNode, x: TensorType, w: Value) -> Value:
    """The weights of a layer of a uint8 network less their zero point.

    The reference rounds the product of the scales of input and weights to single precision.  The
    scale of the result is such that `Layer.multipliers` yields the reference's multiplier."""
    _constant(node, w, "weights")
    q, y = w.quantisation, node.y.type
    if q is None or q.axis is not None:
        raise node.unsupported("uint8 weights must have one scale")
    found = _differences(w)
    narrow = not len(wide_channels(found, op.OUTPUT_AXIS))
    if not narrow and not op.TAKES_WIDE:
        raise node.unsupported("weights less their zero point do not fit int8")
    product = float(np.float32(x.scale) * np.float32(w.scale))
    wanted = quantise_multiplier(product / y.scale)
    scale = product / x.scale
    every = (scale, np.nextafter(scale, np.inf), np.nextafter(scale, 0.0))
    exact = (float(s) for s in every if quantise_multiplier(x.scale * s / y.scale) == wanted)
    scale = next(exact, None)
    if scale is None:
        raise node.unsupported("the scales of input, weights and output are too far apart")
    elements = found.astype(np.int8 if narrow else np.int16)
    name = f"{node.y.name}/weights"
    return Value.constant(name, elements, Quantisation((scale,), (0,)))


def foreign_layer(
    op: Layer | PlainLayer, node: ForeignNode, x: Value, w: Value, bias: int = 2
) -> Made:
    """The node of a layer of a TFLite file, whose bias, input `bias`, may be left out.

    Raises as `layer_node`."""
    b = with_bias(node, w.shape[op.OUTPUT_AXIS], op.DTYPES[2], bias)
    if isinstance(op, PlainLayer):
        return plain_node(op, node, x, w, b)
    return layer_node(op, node, x, w, b)


def plain_node(op: PlainLayer, node: ForeignNode, x: Value, w: Value, b: Value) -> Made:
    """The node of a float32 layer with input, weights and bias.

    Raises ModelError if types or shapes are inconsistent, UnsupportedError if weights or bias are
    computed."""
    op.result_type((x.type, w.type, b.type))
    require_dtype(node.y.type, "output", DType.FLOAT32)
    _constant(node, w, "weights")
    _constant(node, b, "bias")
    return Made(op, (x, w, b), node.y)


def _constant(node: ForeignNode, value: Value, role: str) -> Array:
    if value.data is None:
        raise node.unsupported(f'{role} "{value.name}" are computed, must be constant')
    return value.array


def require_fitting_sums(
    x: TensorType, weights: Array, bias: Array, axis: int, multipliers: Multipliers
) -> None:
    """Raises UnsupportedError if a sum of products of x and weights, whose output channels are
    along `axis`, may overflow int32, before or after scaling."""
    _require_fit(_reach(x, weights, axis).with_bias(bias), multipliers)


@frozen
class _Reach:
    """The least and greatest accumulator of each output channel.

    It is exact, because weights are constant and an input element may be any int8 value."""

    lower: Int64s
    upper: Int64s

    def with_bias(self, bias: Array) -> _Reach:
        """The reach after a bias is added."""
        return _Reach(self.lower + bias.astype(np.int64), self.upper + bias.astype(np.int64))

    def overflows(self) -> NDArray[np.bool_]:
        """Whether int32 is too small, for each channel."""
        return (self.upper >= 2**31) | (self.lower < -(2**31))


def _reach(x: TensorType, weights: Array, axis: int) -> _Reach:
    others = other_axes(weights, axis)
    up = np.maximum(weights, 0).sum(axis=others, dtype=np.int64)
    down = np.minimum(weights, 0).sum(axis=others, dtype=np.int64)
    least, most = x.dtype.lower - x.zero_point, x.dtype.upper - 1 - x.zero_point
    return _Reach(up * least + down * most, up * most + down * least)


def _with_effect(
    node: ForeignNode, b: Value, bias: Array, reach: _Reach, multipliers: Multipliers
) -> Value:
    """The bias, or zero in channels that overflow and are then multiplied by 0.

    Converters saturate the bias of channels whose weights are nearly zero."""
    # A multiplier of 0 makes the channel constant, whatever its accumulator.
    unread = reach.with_bias(bias).overflows() & (multipliers.reals() == 0)
    if not unread.any():
        return b
    data = Data.of(np.where(unread, 0, bias).astype(bias.dtype))
    return Value(f"{node.y.name}/bias", b.type, data)


def _require_fit(reach: _Reach, multipliers: Multipliers) -> None:
    lower, upper = reach.lower, reach.upper
    channel = int(np.argmax(np.maximum(upper, -lower)))
    if reach.overflows()[channel]:
        raise UnsupportedError(
            "model-025",
            f"accumulators of channel {channel} reach from {lower[channel]} to {upper[channel]}, "
            "must fit int32",
            why="the reference adds them in 32 bits",
            help="check bias and weights of the layer",
        )
    scaled = multipliers.largest(np.maximum(np.maximum(upper, -lower), 2))
    channel = int(np.argmax(scaled))
    if scaled[channel] >= LARGEST_SCALED:
        raise UnsupportedError(
            "model-025",
            f"accumulators of channel {channel} reach {scaled[channel]:.4g} when they are brought "
            f"to the output's scale, must stay below {LARGEST_SCALED}",
            why="the reference computes the output in 32 bits before it clamps it",
            help="check the scales of input, weights and output",
        )


def with_bias(node: ForeignNode, channels: int, dtype: DType = DType.INT32, k: int = 2) -> Value:
    """Input k of the node, or zeros of shape (channels,)."""
    bias = node.optional(k)
    if bias is not None:
        return bias
    zeros = Data.of(np.zeros(channels, dtype.value))
    return Value(f"{node.y.name}/no_bias", TensorType((channels,), dtype), zeros)


def centred(w: Value) -> Value | None:
    """Weights less their zero points, as int8; None if that does not hold them."""
    found = _differences(w)
    if found.min(initial=0) < -128 or found.max(initial=0) > 127:
        return None
    return _with_zero_points(w, found.astype(np.int8))


def centred_layer(
    name: str, x: Value, w: Value, groups: int = 1
) -> tuple[Value, Value, tuple[Made, ...]]:
    """Input and weights of a layer whose weights have no zero points, and the nodes before it.

    name: of the layer's output; x: input, channels on the last axis; w: weights,
    (O, .., C / groups).  Where int8 does not hold weights less their zero points, the layer reads a
    channel several times, and the sum of its weights is that difference.  Padding has the input's
    zero point, so the products are the same.
    """
    found = centred(w)
    if found is not None:
        return x, found, ()
    rest = _differences(w)
    largest = int(np.abs(rest).max())
    require(largest < 256, f"weights less their zero points reach {largest}, must stay below 256")
    others = tuple(range(rest.ndim - 1))
    # Each copy of a channel takes from -128 to 127 of a difference.
    copies = np.maximum(-(-rest.max(axis=others) // 127), -(rest.min(axis=others) // 128))
    copies = np.maximum(copies, 1)
    first = np.cumsum(copies) - copies
    parts = np.zeros((*rest.shape[:-1], int(copies.sum())), np.int8)
    for k in range(int(copies.max())):
        chosen = np.flatnonzero(copies > k)
        part = np.clip(rest[..., chosen], -128, 127)
        parts[..., first[chosen] + k] = part
        rest[..., chosen] -= part
    depth = w.shape[-1]
    indices = [g * depth + c for g in range(groups) for c in np.arange(depth).repeat(copies)]
    gather = Gather(x.rank - 1, tuple(int(k) for k in indices))
    type = x.type.with_shape(gather.result_type((x.type,)).shape)
    repeated = Value(f"{name}/repeated_channels", type)
    return repeated, _with_zero_points(w, parts), (Made(gather, (x,), repeated),)


def exchanged_ends(w: Value) -> Value:
    """Weights (O, K, L, 1) that int8 holds less their zero points, as (1, K, L, O)."""
    found = centred(w)
    assert found is not None
    elements = np.ascontiguousarray(found.array.transpose(3, 1, 2, 0))
    q = found.quantisation
    if q is not None and q.axis is not None:
        q = replace(q, axis={0: 3, 3: 0}.get(q.axis, q.axis))
    return Value.constant(w.name, elements, q)


def _differences(w: Value) -> Array:
    q, elements = w.quantisation, w.array.astype(np.int64)
    if q is None:
        return elements
    shape = [1] * elements.ndim
    if q.axis is not None:
        shape[q.axis] = -1
    return elements - np.array(q.zero_points, np.int64).reshape(shape)


def _with_zero_points(w: Value, elements: Array) -> Value:
    q = w.quantisation
    if q is not None:
        q = replace(q, zero_points=(0,) * len(q.zero_points))
    return Value.constant(w.name, elements, q)
