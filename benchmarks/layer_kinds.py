"""LayerKinds: layers of every kind, with random shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from benchmarks.drawing import MOST_ELEMENTS, MOST_MACS, Drawing
from penstock.ir.graph import Value
from penstock.ir.tensor import Quantisation
from penstock.opkit.requantise import Multipliers
from penstock.ops.axis_extremes import ArgMax, ReduceMax
from penstock.ops.batch_matmul import BatchMatmul
from penstock.ops.binary import Maximum, Mul, Prelu, SquaredDifference, Sub
from penstock.ops.channel_packs import PackChannels, UnpackChannels
from penstock.ops.comparisons import Compare, Relation, Select
from penstock.ops.concatenation import Concatenation
from penstock.ops.lstm import Lstm, LstmHidden
from penstock.ops.pad import Pad
from penstock.ops.partial_product import PartialProduct, RequantiseSums
from penstock.ops.pixel_blocks import SpaceToDepth
from penstock.ops.resize import ResizeBilinear, ResizeNearest
from penstock.ops.row_vectors import L2Normalization, LogSoftmax
from penstock.ops.slice import Slice
from penstock.ops.sums import Mean, Sum
from penstock.ops.tile import Tile
from penstock.ops.transpose import ExchangeAxes, Transpose
from penstock.ops.transpose_conv import Spread, TransposeConv
from penstock.ops.unary import Tanh

NARROW = Quantisation((1 / 512,), (0,))
UNIT = Quantisation((1 / 128,), (0,))
CELL = Quantisation((2.0**-11,), (0,))
SQUARES = Quantisation((4 / 255,), (-128,))
SIXTEENTH = Quantisation((1 / 16,), (127,))
Layer = Callable[[Drawing, Value], Value]


def convolution(d: Drawing, x: Value) -> Value:
    """An ordinary convolution."""
    window, depth = d.window(x), x.type.shape[3]
    most = MOST_MACS // max(1, x.type.elements * window[0] * window[1])
    channels = min(d.channels(), max(1, most), MOST_ELEMENTS * depth // x.type.elements)
    dilation = d.one_of(1, 1, 1, 1, 2) if max(window) * 2 <= min(x.type.shape[1:3]) else 1
    stride = d.stride() if dilation == 1 else 1
    return d.net.conv2d(x, channels, window, stride, d.padding(), d.activation(), dilation)


def pointwise(d: Drawing, x: Value) -> Value:
    """A convolution of single pixels."""
    depth = x.type.shape[3]
    channels = min(d.channels(), MOST_ELEMENTS * depth // x.type.elements)
    weights = d.weights(channels, (1, 1), depth)
    stride = d.one_of(1, 1, 2)
    return d.net.conv2d(x, channels, 1, stride, "same", d.activation(), weights=weights)


def depthwise(d: Drawing, x: Value) -> Value:
    """A depthwise convolution with one output for each channel."""
    return d.net.depthwise_conv2d(x, d.window(x), d.stride(), d.padding(), d.activation())


def multiplied(d: Drawing, x: Value) -> Value:
    """A depthwise convolution with several outputs for each channel."""
    most = MOST_ELEMENTS // x.type.elements
    if most < 2:
        return depthwise(d, x)
    multiplier = min(most, d.one_of(2, 2, 3, 4, 8))
    window = d.window(x)
    return d.net.depthwise_conv2d(
        x, window, d.stride(), d.padding(), d.activation(), multiplier=multiplier
    )


def grouped(d: Drawing, x: Value) -> Value:
    """A convolution in groups."""
    depth = x.type.shape[3]
    groups = d.random.choice([g for g in range(1, depth + 1) if depth % g == 0][1:] or [1])
    outputs = groups * d.one_of(1, 2, 3, 4, 8)
    window = d.window(x, 3)
    return d.net.conv2d(x, outputs, window, d.stride(), d.padding(), d.activation(), groups=groups)


def dense(d: Drawing, x: Value) -> Value:
    """A fully connected layer."""
    flat = x if x.type.rank == 2 else d.net.reshape(x, (1, -1))
    most = max(1, 200_000 // flat.type.shape[1])
    return d.net.fully_connected(flat, min(most, d.random.randint(1, 130)), d.activation())


def uneven_dense(d: Drawing, x: Value) -> Value:
    """A fully connected layer whose channels have scales that differ a thousandfold."""
    flat = d.net.reshape(x, (1, -1))
    depth = flat.type.shape[1]
    outputs = min(max(2, 100_000 // depth), d.random.randint(2, 130))
    drawn = d.uneven_weights(outputs, (1, 1), depth)
    weights = replace(drawn, elements=drawn.elements.reshape(outputs, depth))
    return d.net.fully_connected(flat, outputs, d.activation(), weights)


def average_pool(d: Drawing, x: Value) -> Value:
    """An average pool."""
    if d.random.random() < 0.2:
        return d.net.global_average_pool(x)
    window = d.pool_window(x)
    return d.net.average_pool2d(x, window, d.one_of(None, (1, 1), (2, 2)), d.padding())


def max_pool(d: Drawing, x: Value) -> Value:
    """A max pool."""
    window = d.pool_window(x)
    return d.net.max_pool2d(x, window, d.one_of(None, (1, 1), (2, 2)), d.padding())


def addition(d: Drawing, x: Value) -> Value:
    """A sum of two tensors of one shape, or of a tensor and one value a channel."""
    return d.net.add(x, _other(d, x))


def subtraction(d: Drawing, x: Value) -> Value:
    """A difference."""
    return d.net.apply(Sub(), x, _other(d, x))


def product(d: Drawing, x: Value) -> Value:
    """A product."""
    return d.net.apply(Mul(), x, _other(d, x))


def maximum(d: Drawing, x: Value) -> Value:
    """The greater of two elements."""
    return d.net.apply(Maximum(), x, _other(d, x), quantisation=x.type.quantisation)


def difference(d: Drawing, x: Value) -> Value:
    """A squared difference."""
    return d.net.apply(SquaredDifference(), x, _other(d, x), quantisation=SQUARES)


def _other(d: Drawing, x: Value) -> Value:
    """A second operand: of the same shape, or a constant of one value or of one a channel."""
    shape = d.one_of(x.type.shape, x.type.shape, (*(1,) * (x.type.rank - 1), x.type.shape[-1]))
    if shape == x.type.shape:
        return d.net.input(shape)
    drawn = np.array([d.random.randint(-128, 127) for _ in range(shape[-1])], np.int8)
    return d.net.constant(drawn.reshape(shape), x.type.quantisation)


def mean(d: Drawing, x: Value) -> Value:
    """Means over rows and columns, or over channels."""
    return d.net.apply(Mean(d.one_of((1, 2), (1, 2), (3,))), x)


def accumulated_mean(d: Drawing, x: Value) -> Value:
    """Means of what is computed row by row."""
    return d.net.apply(Mean((1, 2)), pointwise(d, x))


def accumulated_pool(d: Drawing, x: Value) -> Value:
    """An average pool of what is computed row by row."""
    return d.net.global_average_pool(pointwise(d, x))


def accumulated_max(d: Drawing, x: Value) -> Value:
    """A max pool over all rows of what is computed row by row."""
    made = pointwise(d, x)
    height, width = made.type.shape[1:3]
    return d.net.max_pool2d(made, (height, d.random.randint(1, width)), None, "valid")


def accumulated_dense(d: Drawing, x: Value) -> Value:
    """A fully connected layer of what is computed row by row."""
    return dense(d, pointwise(d, x))


def partial_products(d: Drawing, x: Value) -> Value:
    """A pointwise layer whose input channels come in two groups, and its requantisation."""
    outputs, depth = d.channels(), x.type.shape[-1]
    groups = [x, d.net.input((*x.type.shape[:-1], 4 * d.random.randint(1, 16)))]
    bias = [d.random.randint(-999, 999) for _ in range(outputs)]
    sums = d.net.constant(np.array(bias, np.int32))
    for group in groups:
        shape = (outputs, group.type.shape[-1])
        drawn = [d.random.randint(-127, 127) for _ in range(outputs * shape[1])]
        weights = d.net.constant(np.array(drawn, np.int8).reshape(shape), UNIT)
        sums = d.net.apply(PartialProduct(), sums, group, weights)
    multipliers = Multipliers.of([2**-10 / depth**0.5] * outputs)
    return d.net.apply(RequantiseSums(multipliers), sums, quantisation=UNIT)


def uneven(d: Drawing, x: Value) -> Value:
    """A convolution of single pixels whose channels have scales that differ a thousandfold."""
    depth = x.type.shape[3]
    channels = max(2, min(d.channels(), MOST_ELEMENTS * depth // x.type.elements))
    weights = d.uneven_weights(channels, (1, 1), depth)
    return d.net.conv2d(x, channels, 1, 1, "same", d.activation(), weights=weights)


def spectral(d: Drawing, _: Value) -> Value:
    """A convolution of few channels by a large window, as of spectra of sound."""
    x = d.net.input((1, d.random.randint(12, 50), d.random.randint(8, 40), d.one_of(1, 1, 2, 3)))
    window = d.random.randint(3, 10), d.random.randint(3, 8)
    most = MOST_MACS // (x.type.elements * window[0] * window[1])
    channels = min(d.one_of(4, 8, 12, 24), max(1, most))
    return d.net.conv2d(x, channels, window, d.stride(), d.padding(), d.activation())


def rectified(d: Drawing, x: Value) -> Value:
    """A slope for each channel."""
    drawn = [d.random.randint(-127, 127) for _ in range(x.type.shape[-1])]
    slopes = np.array(drawn, np.int8).reshape(1, 1, -1)
    return d.net.apply(Prelu(), x, d.net.constant(slopes, UNIT))


def selected(d: Drawing, x: Value) -> Value:
    """Elements of one tensor or of another, by a comparison."""
    y = d.net.input(x.type.shape)
    return d.net.apply(
        Select(), d.net.apply(Compare(Relation.GREATER), x, y), x, y,
        quantisation=x.type.quantisation,
    )  # fmt: skip


def transposed(d: Drawing, x: Value) -> Value:
    """A transposed convolution."""
    _, height, width, depth = x.type.shape
    size, stride = d.one_of((2, 2), (3, 2), (3, 1))
    outputs = d.one_of(1, 3, 4, 8)
    while depth * size * size * outputs * height * width > MOST_MACS and outputs > 1:
        outputs //= 2
    shape = (outputs, size, size, depth)
    drawn = [round(d.random.gauss(0, 40)) for _ in range(int(np.prod(shape)))]
    weights = d.net.constant(np.clip(drawn, -127, 127).astype(np.int8).reshape(shape), NARROW)
    bias = Quantisation((float(np.float32(x.type.scale * NARROW.scales[0])),), (0,))
    zeros = d.net.constant(np.zeros(outputs, np.int32), bias)
    rows, columns = (Spread(stride * (n - 1) + size, size, stride) for n in (height, width))
    return d.net.apply(TransposeConv(rows, columns), x, weights, zeros)


def matrices(d: Drawing, x: Value) -> Value:
    """A product of matrices."""
    _, height, _width, depth = x.type.shape
    other = d.net.input((1, height, depth, min(d.channels(), 16_384 // (height * depth) + 1)))
    return d.net.apply(BatchMatmul(), x, other)


def total(d: Drawing, x: Value) -> Value:
    """Sums over rows and columns."""
    return d.net.apply(Sum((1, 2)), x)


def greatest(d: Drawing, x: Value) -> Value:
    """The greatest over rows and columns, or over channels."""
    return d.net.apply(ReduceMax(d.one_of((1, 2), (3,))), x, quantisation=x.type.quantisation)


def place_of_greatest(d: Drawing, x: Value) -> Value:
    """The place of the greatest channel."""
    return d.net.apply(ArgMax(3), x)


def softmax(d: Drawing, x: Value) -> Value:
    """A softmax over channels."""
    return d.net.softmax(x)


def log_softmax(d: Drawing, x: Value) -> Value:
    """A logarithm of a softmax."""
    return d.net.apply(LogSoftmax(), x, quantisation=SIXTEENTH)


def normalisation(d: Drawing, x: Value) -> Value:
    """Vectors of unit length."""
    return d.net.apply(L2Normalization(), x, quantisation=UNIT)


def lookup(d: Drawing, x: Value) -> Value:
    """A function of one element."""
    return d.net.apply(Tanh(), x, quantisation=UNIT)


def padding(d: Drawing, x: Value) -> Value:
    """Padding of rows and columns, sometimes of channels."""
    r = d.random.randint
    before, after = (0, r(0, 2), r(0, 2), 0), (0, r(0, 2), r(0, 2), d.one_of(0, 0, 3))
    return d.net.apply(Pad(before, after, x.type.zero_point), x)


def cropping(d: Drawing, x: Value) -> Value:
    """A slice."""
    shape = x.type.shape
    start = tuple(d.random.randint(0, extent // 4) for extent in shape)
    step = (1, d.one_of(1, 1, 2), d.one_of(1, 1, 2), d.one_of(1, 1, 1, 2))
    extents = (max(1, (n - s) // t) for n, s, t in zip(shape, start, step, strict=True))
    return d.net.apply(Slice(start, tuple(extents), step), x)


def joining(d: Drawing, x: Value) -> Value:
    """A concatenation along rows, columns or channels."""
    if x.type.elements * 2 > MOST_ELEMENTS:
        return cropping(d, x)
    return d.net.apply(Concatenation(d.one_of(1, 2, 3, 3)), x, x)


def transposing(d: Drawing, x: Value) -> Value:
    """A transpose; of images with an odd number of rows, in place where rows become columns."""
    order = d.one_of((0, 2, 1, 3), (0, 3, 1, 2), (0, 1, 3, 2))
    in_place = order == (0, 2, 1, 3) and x.type.shape[1] % 2
    return d.net.apply(ExchangeAxes() if in_place else Transpose(order), x)


def space_to_depth(d: Drawing, x: Value) -> Value:
    """Blocks of space into channels."""
    _, height, width, _ = x.type.shape
    block = next((b for b in (2, 3) if height % b == width % b == 0), 1)
    return d.net.apply(SpaceToDepth(block), x)


def packing(d: Drawing, x: Value) -> Value:
    """Channels into packs."""
    depth = x.type.shape[3]
    packs = [p for p in (8, 16, 32, 4, 3, 2) if depth % p == 0]
    return d.net.apply(PackChannels(packs[0] if packs else 1), x)


def unpacking(d: Drawing, x: Value) -> Value:
    """Packs into channels."""
    width = x.type.shape[2]
    packs = [p for p in (2, 3, 4, 5, 8) if width % p == 0]
    return d.net.apply(UnpackChannels(d.random.choice(packs or [1])), x)


def enlarging(d: Drawing, x: Value) -> Value:
    """Nearest neighbours."""
    if x.type.elements * 4 > MOST_ELEMENTS:
        return cropping(d, x)
    _, height, width, _ = x.type.shape
    return d.net.apply(ResizeNearest(2 * height, 2 * width), x)


def interpolating(d: Drawing, x: Value) -> Value:
    """Bilinear interpolation."""
    _, height, width, _ = x.type.shape
    if x.type.elements * 4 > MOST_ELEMENTS:
        return d.net.apply(ResizeBilinear(-(-height // 2), -(-width // 2)), x)
    return d.net.apply(ResizeBilinear(2 * height, 2 * width), x)


def tiling(d: Drawing, x: Value) -> Value:
    """The same again."""
    if x.type.elements * 2 > MOST_ELEMENTS:
        return cropping(d, x)
    return d.net.apply(Tile(d.one_of((1, 2, 1, 1), (1, 1, 2, 1), (1, 1, 1, 2))), x)


def remembered(d: Drawing, x: Value) -> Value:
    """An LSTM layer whose steps are the rows of the image."""
    _, steps, batch, depth = x.type.shape
    most = MOST_MACS // (4 * steps * batch)
    units = next(n for n in (d.channels(), 8, 2, 1) if n * (n + depth) <= most)
    rng = np.random.default_rng(d.random.randint(0, 2**32))

    def weights(columns: int) -> Value:
        elements = rng.integers(-127, 128, (4 * units, columns)).astype(np.int8)
        return d.net.constant(elements, Quantisation((0.01,), (0,)))

    bias = d.net.constant(rng.integers(-999, 999, 4 * units).astype(np.int32))
    hidden = d.net.constant(np.zeros((batch, units), np.int8), UNIT)
    cell = d.net.constant(np.zeros((batch, units), np.int16), CELL)
    inputs = (x, hidden, cell, weights(depth), weights(units), bias)
    return d.net.apply(
        LstmHidden(), d.net.apply(Lstm(), *inputs, quantisation=CELL), quantisation=UNIT
    )


LAYERS: Mapping[str, Layer] = {
    layer.__name__: layer
    for layer in (
        convolution,
        pointwise,
        depthwise,
        multiplied,
        grouped,
        dense,
        average_pool,
        max_pool,
        addition,
        subtraction,
        product,
        maximum,
        difference,
        mean,
        total,
        greatest,
        place_of_greatest,
        softmax,
        log_softmax,
        normalisation,
        lookup,
        padding,
        cropping,
        joining,
        transposing,
        accumulated_mean,
        accumulated_pool,
        accumulated_max,
        accumulated_dense,
        rectified,
        selected,
        transposed,
        matrices,
        space_to_depth,
        packing,
        unpacking,
        enlarging,
        interpolating,
        tiling,
        uneven,
        spectral,
        remembered,
        partial_products,
        uneven_dense,
    )
}
