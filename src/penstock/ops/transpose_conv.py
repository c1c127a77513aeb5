"""Transposed convolution: each input element adds a window of weights.

    x  (N, H,  W,  C)  int8    float32
    w  (O, K,  L,  C)  int8    float32    int8: zero point 0; one scale, or one per O
    b  (O)             int32   float32    int32: scale x.scale * w.scale
    y  (N, Ho, Wo, O)  int8    float32

    TransposeConv       y = clamp(zero_y + M[o] * (b[o] + sum (x - zero_x) * w))
    PlainTransposeConv  y = clamp(b[o] + sum x * w)

Input row h and tap k contribute to output row h * stride - before + k, if it exists.

Those of volumes are made of these and operators on planes, see `volumes.py`.

Source: TFLite TRANSPOSE_CONV and CONV_3D_TRANSPOSE; `reference/integer_ops/transpose_conv.h`,
`reference/transpose_conv.h`, `reference/conv3d_transpose.h`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import partial

import numpy as np

from penstock.fixedpoint import Int64s
from penstock.frozen import frozen
from penstock.ir.affine import Affine
from penstock.ir.exchange import ExchangedPair
from penstock.ir.foreign import ForeignNode, Made, Nodes
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import (
    Affines,
    Arrays,
    Kernel,
    OperatorDefaults,
    Params,
    Regions,
    Site,
    Types,
    Work,
    members,
)
from penstock.ir.operator_facts import (
    AxisOrder,
    OnnxName,
    RelayName,
    StatedAttribute,
    onnx,
    relay,
)
from penstock.ir.tensor import Array, Data, Interval, Quantisation, Region, TensorType
from penstock.opkit import layers, onnx_constants, sliding
from penstock.opkit.activation import FINITE, UNLIMITED, Activation, Limits, fused_activation
from penstock.opkit.checks import require, require_rank
from penstock.opkit.layers import (
    Layer,
    PlainLayer,
    WeightedOp,
    in_quads,
    onnx_layer,
)
from penstock.opkit.nodes import in_shape_of_output, is_real
from penstock.opkit.real_nodes import RealNodes
from penstock.opkit.requantise import Multipliers
from penstock.opkit.selection import Form
from penstock.opkit.sliding import AUTO_PADS, Window, foreign_windows, pair
from penstock.ops import volumes
from penstock.ops.concatenation import Concatenation
from penstock.ops.convolutions import grouped_nodes
from penstock.ops.dynamic_range import convolution_nodes
from penstock.ops.pad import Pad
from penstock.ops.plain import PlainAdd
from penstock.ops.reshape import Reshape
from penstock.ops.slice import along, part

MOST_PAD = 2**15
"""Pads of ConvTranspose are smaller."""
WEIGHTS_ORDER = (1, 2, 3, 0)
"""From (C, O / G, K, L), as ONNX has weights, to (O / G, K, L, C)."""


@frozen
class Spread:
    """Window along one axis: input index i and tap k in [0, size) contribute to output index
    i * stride - before + k; the output has `outputs` elements."""

    outputs: int
    size: int
    stride: int = 1
    before: int = 0

    def needs(self, out: Interval, extent: int) -> Interval:
        """Input interval that contributes to an output interval, clipped to [0, extent)."""
        # i * stride - before + k = o for k in [0, size), solved for i; -(a // b) rounds -a / b up.
        lower = -((self.size - 1 - self.before - out[0]) // self.stride)
        upper = (out[1] - 1 + self.before) // self.stride + 1
        lower = min(max(lower, 0), extent)
        return lower, max(lower, min(upper, extent))

    def taps(self, out: Interval) -> int:
        """Number of taps of the output interval, including those outside the input."""
        periods, rest = divmod(out[1] - out[0], self.stride)
        phases = ((out[0] + o + self.before) % self.stride for o in range(rest))
        return periods * self.size + sum(
            len(range(phase, self.size, self.stride)) for phase in phases
        )

    def affine(self) -> Form:
        """(factor, extra, offset) of `needs`."""
        stride = self.stride
        return (
            Fraction(1, stride),
            Fraction(self.size - stride, stride),
            Fraction(self.before - self.size + stride, stride),
        )


@frozen
class _Transposed(WeightedOp):
    """Shapes, regions and work of a transposed convolution."""

    rows: Spread
    columns: Spread

    def stated_attributes(self) -> tuple[StatedAttribute, ...]:
        rows, columns = self.rows, self.columns
        return (
            StatedAttribute("kernel size", f"{rows.size} × {columns.size}"),
            StatedAttribute("stride", f"{rows.stride} × {columns.stride}"),
            StatedAttribute("crop", f"top {rows.before}, left {columns.before}"),
            *OperatorDefaults.stated_attributes(self),
        )

    def result_type(self, inputs: Types) -> TensorType:
        x, w, b = self.operands(inputs, 4)
        window = (self.rows.size, self.columns.size, x.shape[3])
        require(
            w.shape[1:] == window,
            f"weights have shape {list(w.shape)}, the last three must be {list(window)}",
        )
        require(b.shape == w.shape[:1], f"bias has shape {list(b.shape)}, must be [{w.shape[0]}]")
        require(
            min(self.rows.outputs, self.columns.outputs) > 0,
            f"output is {self.rows.outputs} x {self.columns.outputs}, is empty",
        )
        y = (x.shape[0], self.rows.outputs, self.columns.outputs, w.shape[0])
        return TensorType(y, x.dtype)

    def needs(self, site: Site, out: Region) -> Regions:
        x, (n, h, c_w, _) = site.x, out.intervals
        rows = self.rows.needs(h, x.shape[1])
        read = Region.of(n, rows, self.columns.needs(c_w, x.shape[2]), (0, x.shape[3]))
        return read, *self.needed_constants(site, out)

    def affine(self, site: Site) -> Affines:
        rows, columns = self.rows.affine(), self.columns.affine()
        channels = (0, site.x.shape[3], 0)
        factors, extra, offset = zip((1, 0, 0), rows, columns, channels, strict=True)
        return Affine.diagonal(factors, extra, offset), *self.affine_constants(site)

    def work(self, site: Site, out: Region) -> Work:
        n, h, c_w, o = out.intervals
        taps = self.rows.taps(h) * self.columns.taps(c_w)
        images, outputs = n[1] - n[0], o[1] - o[0]
        return Work(images * taps * outputs * site.inputs[1].shape[3], out.elements)

    def window_params(self, site: Site) -> Params:
        """Kernel parameters of shapes and windows."""
        return members(
            sliding.shape_params(site.x.shape, site.output.shape),
            kernel_h=self.rows.size,
            kernel_w=self.columns.size,
            stride_h=self.rows.stride,
            stride_w=self.columns.stride,
            pad_top=self.rows.before,
            pad_left=self.columns.before,
        )

    def meetings(
        self, x: Array, out: Region
    ) -> Iterator[tuple[int, int, tuple[slice, Array, Array], Array]]:
        """Yields, per tap (k, l) from the last to the first, where in `out` input elements meet it,
        over batch, rows and columns, and these elements."""
        n, h, c_w, _ = out.intervals
        rows, columns = self.rows.needs(h, x.shape[1]), self.columns.needs(c_w, x.shape[2])
        for k in reversed(range(self.rows.size)):
            i, at_h = _met(self.rows, k, rows, h)
            for l in reversed(range(self.columns.size)):  # noqa: E741
                j, at_w = _met(self.columns, l, columns, c_w)
                if i.size and j.size:
                    at = (slice(None), at_h[:, None], at_w)
                    yield k, l, at, x[n[0] : n[1], i[0] : i[-1] + 1, j[0] : j[-1] + 1]


def _is_along_one_axis(op: _Transposed, site: Site) -> bool:
    """Whether rows, or columns, have extent 1 in the input and in the window."""
    _, height, width, _ = site.x.shape
    _, rows, columns, _ = site.inputs[1].shape
    return (height, rows) == (1, 1) or (width, columns) == (1, 1)


@frozen
class TransposeConv(ExchangedPair, _Transposed, Layer):
    """Transposed convolution with bias, requantisation and clamp."""

    activation: Activation = Activation.NONE
    stated: Multipliers | None = None

    TFLITE = ("TRANSPOSE_CONV", "CONV_3D_TRANSPOSE")
    ONNX = onnx(OnnxName(AxisOrder.CHANNELS_LAST, floats=True), "ConvTranspose")
    RELAY = (
        *relay("nn.conv2d_transpose", "qnn.conv2d_transpose"),
        RelayName("nn.conv1d_transpose", condition=_is_along_one_axis),
    )

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        x, w, b = inputs
        # Doubles hold every sum exactly (below 2**53).
        w = w[out.slices[3]].astype(np.float64)
        total = np.zeros(out.shape)
        for k, l, at, source in self.meetings(x, out):  # noqa: E741
            total[at] += (source.astype(np.float64) - site.x.zero_point) @ w[:, k, l].T
        return self.requantised(site, total, b, out)

    def kernel(self, site: Site) -> Kernel:
        return self.layer_kernel(site, "transpose_conv_s8", self.window_params(site))


@frozen
class PlainTransposeConv(_Transposed, PlainLayer):
    """Transposed convolution of real numbers with bias and clamp."""

    limits: Limits = FINITE

    RELAY = (
        *relay("nn.conv2d_transpose"),
        RelayName("nn.conv1d_transpose", condition=_is_along_one_axis),
    )

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        x, w, b = inputs
        w = w[out.slices[3]]
        total = np.zeros(out.shape, np.float32)
        with np.errstate(all="ignore"):
            # An output meets input elements in their order if taps come from the last to the first.
            for k, l, at, source in self.meetings(x, out):  # noqa: E741
                for c in range(w.shape[3]):
                    total[at] += source[..., c, None] * w[:, k, l, c]
        return self.finished(total, b, out)

    def kernel(self, site: Site) -> Kernel:
        quads = in_quads(site.constant(1)[None])
        return self.plain_kernel("transpose_conv_f32", self.window_params(site), quads)


def _met(axis: Spread, tap: int, read: Interval, out: Interval) -> tuple[Int64s, Int64s]:
    """Input indices in `read` that contribute to `out` by a tap, and the output indices."""
    indices = np.arange(*read, dtype=np.int64)
    at = indices * axis.stride - axis.before + tap - out[0]
    inside = (at >= 0) & (at < out[1] - out[0])
    return indices[inside], at[inside]


def from_foreign(node: ForeignNode) -> Nodes:
    """TFLite TRANSPOSE_CONV, padded as the convolution from its output to its input."""
    if node.name == "CONV_3D_TRANSPOSE":
        yield from in_shape_of_output(node, _foreign_volume_nodes(node))
        return
    w, x, y = node.input(1), node.input(2), node.y
    for value, role in ((w, "weights"), (x, "input"), (y, "output")):
        require_rank(value.type, role, 4)
    is_known = node.x.data is not None and len(node.constant_ints(0)) == y.rank
    extents = (node.constant_ints(0) if is_known else y.shape)[1:3]
    windows = foreign_windows(node, extents, w.shape[1:3])
    rows, columns = (
        Spread(outputs, window.size, window.stride, window.before)
        for window, outputs in zip(windows, extents, strict=True)
    )
    ops = partial(TransposeConv, rows, columns), partial(PlainTransposeConv, rows, columns)
    yield from convolution_nodes(node, *ops, operands=(2, 3))


FOREIGN_ORDER = (4, 3, 0, 1, 2)
"""From (D, H, W, O, C), as TFLite has weights of volumes, to (C, O, D, H, W)."""


def _foreign_volume_nodes(node: ForeignNode) -> Nodes:
    """TFLite CONV_3D_TRANSPOSE of real numbers.

    Source: `reference/conv3d_transpose.h`."""
    x = node.input(2)
    form = volumes.foreign_form(
        node, "ConvTranspose", x, FOREIGN_ORDER, node.optional(3),
        output_shape=node.y.shape[1:4], auto_pad="SAME_UPPER",
    )  # fmt: skip
    return _volume_nodes(form, x, 1, Limits.of(fused_activation(node)))


def from_onnx(node: OnnxNode) -> Nodes:
    """ONNX ConvTranspose.  In groups it is a convolution by flipped windows of the input with zeros
    between its rows and columns."""
    x, groups = node.x, node.integer("group", 1)
    if x.rank == volumes.RANK:
        yield from _volume_nodes(node, x, groups)
        return
    require_rank(x.type, "input", 4)
    if is_real(node) or onnx_constants.has_real_constants(node, axis=1):
        yield from _plain_nodes(node, groups)
        return
    w = _dilated(node, onnx_constants.kernel(node, WEIGHTS_ORDER, axis=0))
    q = w.quantisation
    if q is not None and q.axis not in (None, 0):
        raise node.unsupported(
            "weights have a scale for each input channel, must have one, or one for each output "
            "channel (axis 1)"
        )
    _require_groups(x, w, groups)
    rows, columns = _onnx_spreads(node, x.shape[1:3], w.shape[1:3])
    if groups > 1:
        yield from _grouped(node, x, _grouped_weights(w, groups), rows, columns)
        return
    x, w, made = layers.centred_layer(node.y.name, x, w)
    yield from made
    b = onnx_constants.bias(node, 2, x, w, w.shape[0])
    op = TransposeConv(rows, columns)
    yield onnx_layer(op, node, x, w, b)


def _volume_nodes(node: OnnxNode, x: Value, groups: int, limits: Limits = UNLIMITED) -> Nodes:
    """Nodes of a transposed convolution of volumes, of real numbers: with planes of zeros between
    those of the input, it is a convolution by the flipped taps along them, each of which is a
    transposed convolution of images."""
    if groups != 1:
        raise node.unsupported(f"group is {groups} for a volume, must be 1")
    new, weights = RealNodes(node), onnx_constants.real_numbers(node, 1)
    require(
        weights.ndim == volumes.RANK and len(weights) == x.shape[4],
        f"input has shape {list(x.shape)}, weights {list(weights.shape)}",
    )
    images, planes = (volumes.of_axes(node, a, x) for a in (volumes.IMAGE, volumes.PLANES))
    depth, *image = x.shape[1:4]
    size, step = weights.shape[2], pair(planes, "dilations")[0]
    wide = (size - 1) * step + 1
    spread, _ = _onnx_spreads(planes, (depth, 1), (wide, 1))
    sizes = tuple(
        (extent - 1) * step + 1
        for extent, step in zip(weights.shape[3:], pair(images, "dilations"), strict=True)
    )
    op = PlainTransposeConv(*_onnx_spreads(images, tuple(image), sizes), UNLIMITED)
    outputs = weights.shape[1]
    zeros = new.constant(np.zeros(outputs), "no_bias")
    ends = max(0, spread.before + spread.outputs - depth * spread.stride)
    window = Window(size, dilation=step, before=wide - 1, after=ends)

    def convolved(image: Value, tap: Array) -> Value:
        w = _dilated(images, new.constant(tap.transpose(0, 2, 3, 1), "weights"))
        return new.apply(op, image, w, zeros)

    flipped = weights.transpose(1, 0, 2, 3, 4)[:, :, ::-1]
    apart = volumes.spaced(new, new.input(0), spread.stride)
    total = volumes.convolved(new, apart, window, flipped, convolved)
    bias = new.constant(onnx_constants.real_bias(node, 2, outputs), "bias")
    found = volumes.planes_of(new, total, spread.before, spread.outputs)
    yield from new.result(new.apply(PlainAdd(limits), found, bias))


def _require_groups(x: Value, w: Value, groups: int) -> None:
    channels, depth = x.shape[3], w.shape[3]
    require(
        groups > 0 and depth == channels and channels % groups == 0,
        f"input has {channels} channels in {groups} groups, weights take {depth}",
    )


def _plain_nodes(node: OnnxNode, groups: int) -> Nodes:
    """Nodes of a transposed convolution of real numbers; each group is one of its own."""
    real = RealNodes(node)
    x = real.input(0)
    w = Value.constant(node.input(1).name, onnx_constants.real_kernel(node, WEIGHTS_ORDER))
    w = _dilated(node, w)
    _require_groups(x, w, groups)
    op = PlainTransposeConv(*_onnx_spreads(node, x.shape[1:3], w.shape[1:3]), UNLIMITED)
    outputs, *_, depth = w.shape
    elements, bias = w.array, onnx_constants.real_bias(node, 2, outputs * groups)
    parts: list[Value] = []
    for g, own in enumerate(np.split(elements, groups, axis=3)):
        size = depth // groups
        cut = along(x.shape, 3, g * size, size)
        parts.append(
            real.apply(
                op,
                real.apply(cut, x) if groups > 1 else x,
                Value.constant(w.name, np.ascontiguousarray(own)),
                real.constant(bias[g * outputs :][:outputs], f"bias{g}"),
            )
        )
    joined = real.apply(Concatenation(3), *parts) if groups > 1 else parts[0]
    yield from real.result(joined)


def _dilated(node: OnnxNode, w: Value) -> Value:
    """Weights (O, K, L, C) with zeros between the taps of a dilated window."""
    steps = pair(node, "dilations")
    if steps == (1, 1):
        return w
    outputs, k, l, depth = w.shape  # noqa: E741
    shape = (outputs, (k - 1) * steps[0] + 1, (l - 1) * steps[1] + 1, depth)
    q = w.quantisation
    zeros = np.array(q.zero_points if q else 0, w.dtype.value).reshape(-1, 1, 1, 1)
    elements = np.ascontiguousarray(np.broadcast_to(zeros, shape))
    elements[:, :: steps[0], :: steps[1]] = w.array
    return Value(w.name, w.type.with_shape(shape), Data.of(elements))


def _onnx_spreads(
    node: OnnxNode, extents: tuple[int, ...], sizes: tuple[int, ...]
) -> tuple[Spread, Spread]:
    """The windows along rows and columns.  Source: ONNX operator specification, ConvTranspose."""
    strides = pair(node, "strides")
    extra = pair(node, "output_padding", (0, 0), least=0)
    pads = node.integers("pads", (0, 0, 0, 0))
    require(
        len(pads) in (2, 4) and all(abs(pad) < MOST_PAD for pad in pads),
        f"attribute pads is {list(pads)}, must be two numbers for each axis",
    )
    how, axes = node.text("auto_pad", "NOTSET", AUTO_PADS), len(pads) // 2
    wanted = node.integers("output_shape", ())[-2:]
    found: list[Spread] = []
    for a in range(2):
        full = (extents[a] - 1) * strides[a] + sizes[a] + extra[a]
        before, after = (pads[a], pads[a + axes]) if how == "NOTSET" and a < axes else (0, 0)
        outputs = full - before - after
        if a < len(wanted) or how.startswith("SAME"):
            outputs = wanted[a] if a < len(wanted) else extents[a] * strides[a]
            total = max(0, full - outputs)
            before = total // 2 if how == "SAME_UPPER" else total - total // 2
        found.append(Spread(outputs, sizes[a], strides[a], before))
    return found[0], found[1]


def _grouped_weights(w: Value, groups: int) -> Value:
    """Weights (O / groups, K, L, C) of a transposed convolution as those of a convolution in
    groups, (O, K, L, C / groups), flipped."""
    outputs, k, l, depth = w.shape  # noqa: E741
    split = w.array[:, ::-1, ::-1].reshape(outputs, k, l, groups, depth // groups)
    shape = (groups * outputs, k, l, depth // groups)
    elements = np.ascontiguousarray(split.transpose(3, 0, 1, 2, 4)).reshape(shape)
    q = w.quantisation
    if q is not None and q.axis is not None:
        q = Quantisation(q.scales * groups, q.zero_points * groups, 0)
    return Value(w.name, TensorType(shape, w.dtype, q), Data.of(elements))


def _grouped(node: OnnxNode, x: Value, w: Value, rows: Spread, columns: Spread) -> Nodes:
    """A transposed convolution in groups, by weights of `_grouped_weights`."""
    label, spreads = node.y.name, (rows, columns)
    for k, spread in enumerate(spreads):
        for made in _spaced(x, k + 1, spread.stride, f"{label}/spaced{k}"):
            yield made
            x = made.output
    before = [spread.size - 1 - spread.before for spread in spreads]
    after = [
        spread.outputs + spread.size - 1 - extent - pad
        for spread, extent, pad in zip(spreads, x.shape[1:3], before, strict=True)
    ]
    if min(*before, *after) < 0:
        start = (0, *(max(-pad, 0) for pad in before), 0)
        end = (0, *(max(-pad, 0) for pad in after), 0)
        triples = zip(x.shape, start, end, strict=True)
        cut = part(start, tuple(e - a - b for e, a, b in triples))
        made = node.between(cut, x, label="cropped", like=x.quantisation)
        yield made
        x = made.output
    windows = (
        Window(spread.size, before=max(a, 0), after=max(b, 0))
        for spread, a, b in zip(spreads, before, after, strict=True)
    )
    yield from grouped_nodes(node, x, w, *windows)


def _spaced(x: Value, axis: int, stride: int, label: str) -> Nodes:
    """Nodes that insert stride - 1 zeros after each index of an axis."""
    if stride == 1:
        return
    shape = x.shape
    outer, inner = math.prod(shape[: axis + 1]), math.prod(shape[axis + 1 :])
    apart = x.shaped(f"{label}/apart", (outer, 1, inner))
    yield Made(Reshape(apart.shape), (x,), apart)
    pad = Pad((0, 0, 0), (0, stride - 1, 0), x.zero_point)
    padded = x.shaped(f"{label}/padded", (outer, stride, inner))
    yield Made(pad, (apart,), padded)
    wide = tuple(e * stride if a == axis else e for a, e in enumerate(shape))
    yield Made(Reshape(wide), (padded,), x.shaped(label, wide))
