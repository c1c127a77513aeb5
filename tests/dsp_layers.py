"""Random layers for the kernels of cores with the DSP extension.

They cover strides, padding, dilation, clamps, odd extents, and extreme scales and zero points.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from benchmarks.small_tensors import Operand, Sample, bias, int8, integers, sample, weights
from penstock.ir.op import Op
from penstock.ir.tensor import Data, DType, Quantisation, TensorType
from penstock.opkit.activation import Activation
from penstock.opkit.sliding import Window
from penstock.ops.binary import Add, Mul, Sub
from penstock.ops.convolutions import Conv2D, DepthwiseConv2D
from penstock.ops.fully_connected import FullyConnected
from penstock.ops.partial_product import PartialProduct
from penstock.ops.pool import AveragePool2D, MaxPool2D
from strategies import seeds

zero_points = st.one_of(st.integers(-128, 127), st.sampled_from((-128, 127, 0)))
activations = st.sampled_from(Activation)
MOST_ELEMENTS = 4_000


@st.composite
def windows(draw: st.DrawFn, extent: int, most: int) -> Window:
    """Windows that fit into the padded axis; some read padding only."""
    size = draw(st.integers(1, most))
    dilation = draw(st.integers(1, 3)) if size > 1 else 1
    before, after = draw(st.integers(0, size)), draw(st.integers(0, size))
    window = Window(size, draw(st.integers(1, 3)), dilation, before, after)
    return window if window.outputs(extent) > 0 else Window(1)


@st.composite
def layers(draw: st.DrawFn) -> Sample:
    """A layer with weights, a part of one, a binary element-wise operator, or a pool."""
    kinds = (_conv, _conv, _depthwise, _depthwise, _dense, _partial, _pair, _pool)
    return draw(st.sampled_from(kinds))(draw)


def _shape(draw: st.DrawFn, channels: int) -> tuple[int, int, int, int]:
    room = max(1, MOST_ELEMENTS // channels)
    height = draw(st.integers(1, min(12, room)))
    width = draw(st.integers(1, min(12, max(1, room // height))))
    return (draw(st.integers(1, 2)), height, width, channels)


def _conv(draw: st.DrawFn) -> Sample:
    channels = st.one_of(st.integers(1, 40), st.integers(1, 12).map(lambda fours: 4 * fours))
    x = _shape(draw, draw(channels))
    rows, columns = draw(windows(x[1], 4)), draw(windows(x[2], 4))
    groups = draw(st.sampled_from((1, 1, *(g for g in range(2, x[3] + 1) if x[3] % g == 0))))
    outputs = groups * draw(st.integers(1, max(1, 20 // groups)))
    op = Conv2D(rows, columns, draw(activations))
    return _layer(draw, op, x, (outputs, rows.size, columns.size, x[3] // groups), 0)


def _depthwise(draw: st.DrawFn) -> Sample:
    x = _shape(draw, draw(st.one_of(st.integers(1, 40), st.just(1))))
    size = draw(st.sampled_from((3, 3, 5)))
    rows, columns = draw(windows(x[1], size)), draw(windows(x[2], size))
    multiplier = draw(st.sampled_from((1, 1, 2, 3, 5)))
    op = DepthwiseConv2D(rows, columns, multiplier, draw(activations))
    return _layer(draw, op, x, (1, rows.size, columns.size, x[3] * multiplier), 3)


def _dense(draw: st.DrawFn) -> Sample:
    depth, batches = draw(st.integers(1, 40)), draw(st.integers(1, 3))
    op = FullyConnected(draw(activations))
    depth = depth * 4 if draw(st.booleans()) else depth
    shape = (draw(st.integers(1, 20)), depth)
    exponents = draw(st.sampled_from(((-12, -6), (-14, -2))))
    return _layer(draw, op, (batches, depth), shape, 0, exponents)


def _partial(draw: st.DrawFn) -> Sample:
    """Products of some input channels, added to a bias or to sums."""
    depth, outputs = 4 * draw(st.integers(1, 12)), draw(st.integers(1, 20))
    shape = (*_shape(draw, depth)[:3], outputs) if draw(st.booleans()) else (3, outputs)
    sums = draw(st.sampled_from((bias(outputs), integers(*shape))))
    x = int8(*shape[:-1], depth, zero=draw(zero_points))
    return sample(PartialProduct(), sums, x, weights(outputs, depth, axis=0))


def _pool(draw: st.DrawFn) -> Sample:
    x = _shape(draw, draw(st.integers(6, 40)))
    rows, columns = (draw(_pool_windows(extent)) for extent in x[1:3])
    op = draw(st.sampled_from((AveragePool2D, MaxPool2D)))(rows, columns, draw(activations))
    scale, zero = 2.0 ** draw(st.floats(-8, 0)), draw(zero_points)
    return sample(op, int8(*x, scale=scale, zero=zero), scale=scale, zero=zero)


@st.composite
def _pool_windows(draw: st.DrawFn, extent: int) -> Window:
    """Windows that all contain elements, up to the whole axis."""
    size, dilation = draw(st.integers(1, extent)), draw(st.integers(1, 3))
    before, after = (draw(st.integers(0, (size - 1) * dilation)) for _ in range(2))
    window = Window(size, draw(st.integers(1, 3)), dilation, before, after)
    fits = window.outputs(extent) > 0 and window.always_meets(extent)
    return window if fits else Window(size, 1)


def _pair(draw: st.DrawFn) -> Sample:
    shape = _shape(draw, draw(st.integers(1, 20)))
    other = tuple(draw(st.sampled_from((1, extent))) for extent in shape)
    shapes = [shape, draw(st.sampled_from((shape, other)))]
    zeros = [draw(zero_points) for _ in range(3)]
    scales = [2.0 ** draw(st.floats(-6, 3)) for _ in range(3)]
    op = draw(st.sampled_from((Add, Sub, Mul)))(draw(activations))
    types = [int8(*x, scale=s, zero=z) for x, s, z in zip(shapes, scales, zeros, strict=False)]
    inputs: list[Operand] = list(types)
    if draw(st.integers(0, 3)) == 0:
        data = np.random.default_rng(draw(seeds)).integers(-128, 128, shapes[1])
        inputs[1] = (types[1], Data.of(data.astype(np.int8)))
    if draw(st.booleans()):
        inputs.reverse()
    return sample(op, *inputs, scale=scales[2], zero=zeros[2])


def _layer(
    draw: st.DrawFn,
    op: Op,
    x: tuple[int, ...],
    shape: tuple[int, ...],
    axis: int,
    exponents: tuple[int, int] = (-12, -6),
) -> Sample:
    """A layer with random weights; most outputs are inside of int8, or most are outside.

    exponents: of the scales of the channels, to base 2.
    """
    rng = np.random.default_rng(draw(seeds))
    channels = shape[axis]
    largest = draw(st.sampled_from((127, 127, 40, 3)))
    weights = rng.integers(-largest, largest + 1, shape).astype(np.int8)
    if draw(st.booleans()):
        weights[(slice(None),) * axis + (rng.integers(channels),)] = 0
    if draw(st.integers(0, 9)) == 0:
        weights.flat[rng.integers(weights.size)] = -128
    scales = 2.0 ** rng.uniform(*exponents, channels)
    type = TensorType(shape, DType.INT8, Quantisation(tuple(scales), (0,) * channels, axis))
    bias = rng.normal(0, 2.0 ** draw(st.integers(0, 16)), channels).astype(np.int32)
    if draw(st.booleans()):  # outputs of some channels are far outside, whatever the input
        bias[rng.random(channels) < rng.random()] = draw(st.sampled_from((-1, 1))) * 2**23
    biases = (TensorType((channels,), DType.INT32), Data.of(bias))
    constants: tuple[Operand, ...] = ((type, Data.of(weights)), biases)
    x_scale = 2.0 ** draw(st.floats(-6, 0))
    taps = weights.size // channels
    spread = x_scale * float(np.median(scales)) * largest * 64 * taps**0.5
    y_scale = spread / 64 * 2.0 ** draw(st.floats(-2, 3))
    inputs = int8(*x, scale=x_scale, zero=draw(zero_points))
    return sample(op, inputs, *constants, scale=y_scale, zero=draw(zero_points))
