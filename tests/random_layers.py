"""Random layers by number.

They have extents of 1 to 40, every stride, padding, dilation, multiplier, group and clamp, and
extreme scales and zero points.
"""

from __future__ import annotations

import numpy as np

from benchmarks.small_tensors import Operand, Sample, int8, sample
from penstock.ir.op import Op
from penstock.ir.tensor import Data, DType, Quantisation, TensorType
from penstock.opkit.activation import Activation
from penstock.opkit.sliding import Window
from penstock.ops.binary import Add, Mul, Sub
from penstock.ops.convolutions import Conv2D, DepthwiseConv2D
from penstock.ops.fully_connected import FullyConnected
from penstock.ops.pool import AveragePool2D, MaxPool2D

MOST_EXTENT = 40
MOST_ELEMENTS = 16_000
MOST_MACS = 400_000
MULTIPLIERS = (2.0**-24, 2.0**2)
"""Limits of the multipliers of accumulators."""


def random_layer(number: int) -> Sample:
    """The layer of a number, a deterministic function."""
    rng = np.random.default_rng(number)
    makers = (_convolution, _convolution, _depthwise, _depthwise, _dense, _pool, _pair)
    return makers[rng.integers(len(makers))](rng)


def _shape(rng: np.random.Generator, most: int = MOST_ELEMENTS) -> tuple[int, int, int, int]:
    """Extents of 1 to 40; small ones are as likely as large ones."""
    while True:
        extents = np.ceil(MOST_EXTENT ** rng.uniform(0, 1, 3)).astype(int)
        if extents.prod() <= most:
            height, width, channels = (int(extent) for extent in extents)
            return (int(rng.choice((1, 1, 1, 2))), height, width, channels)


def _window(rng: np.random.Generator, extent: int, most: int) -> Window:
    """A window with at least one output; some windows read padding only."""
    while True:
        size = int(rng.integers(1, most + 1))
        before, after = (int(n) for n in rng.integers(0, size + 1, 2))
        dilation = int(rng.integers(1, 4)) if size > 1 else 1
        window = Window(size, int(rng.integers(1, 4)), dilation, before, after)
        if window.outputs(extent) > 0:
            return window


def _activation(rng: np.random.Generator) -> Activation:
    return list(Activation)[rng.integers(len(Activation))]


def _zero(rng: np.random.Generator) -> int:
    return int(rng.choice((-128, 127, 0, rng.integers(-128, 128))))


def _convolution(rng: np.random.Generator) -> Sample:
    shape = _shape(rng)
    groups = int(rng.choice([g for g in (1, 1, 1, 2, 3, 4) if shape[3] % g == 0]))
    rows, columns = _window(rng, shape[1], 5), _window(rng, shape[2], 5)
    depth = shape[3] // groups
    pixels = shape[0] * rows.outputs(shape[1]) * columns.outputs(shape[2])
    most = max(1, MOST_MACS // (pixels * rows.size * columns.size * depth * groups))
    outputs = groups * int(rng.integers(1, min(MOST_EXTENT // groups, most) + 1))
    op = Conv2D(rows, columns, _activation(rng))
    return _layer(rng, op, shape, (outputs, rows.size, columns.size, depth), 0)


def _depthwise(rng: np.random.Generator) -> Sample:
    shape = _shape(rng, MOST_ELEMENTS // 4)
    multiplier = int(rng.choice((1, 1, 1, 2, 3, 4)))
    rows, columns = _window(rng, shape[1], 5), _window(rng, shape[2], 5)
    op = DepthwiseConv2D(rows, columns, multiplier, _activation(rng))
    return _layer(rng, op, shape, (1, rows.size, columns.size, shape[3] * multiplier), 3)


def _dense(rng: np.random.Generator) -> Sample:
    batches, outputs, _, depth = _shape(rng)
    depth *= int(rng.choice((1, 4, 40)))
    op = FullyConnected(_activation(rng))
    return _layer(rng, op, (batches, depth), (outputs, depth), 0)


def _pool(rng: np.random.Generator) -> Sample:
    shape = _shape(rng)
    kind = (AveragePool2D, MaxPool2D)[rng.integers(2)]
    while True:
        windows = (_window(rng, shape[1], 6), _window(rng, shape[2], 6))
        meets = (w.always_meets(extent) for w, extent in zip(windows, shape[1:3], strict=True))
        if kind is MaxPool2D or all(meets):
            break
    op = kind(*windows, _activation(rng))
    scale = float(2 ** rng.uniform(-8, 0))
    x = int8(*shape, scale=scale, zero=_zero(rng))
    return sample(op, x, scale=scale, zero=x.zero_point)


def _pair(rng: np.random.Generator) -> Sample:
    shape = _shape(rng)
    some = tuple(int(rng.choice((1, extent))) for extent in shape)
    other = shape if rng.integers(3) else some
    op = (Add, Sub, Mul)[rng.integers(3)](_activation(rng))
    scales = 2 ** rng.uniform(-6, 2, 3)
    types = [
        int8(*extents, scale=float(scale), zero=_zero(rng))
        for extents, scale in zip((shape, other), scales[:2], strict=True)
    ]
    inputs: list[Operand] = list(types)
    if rng.integers(4) == 0:
        inputs[1] = (types[1], Data.of(rng.integers(-128, 128, other).astype(np.int8)))
    if rng.integers(2):
        inputs.reverse()
    return sample(op, *inputs, scale=float(scales[2]), zero=_zero(rng))


def _layer(
    rng: np.random.Generator, op: Op, x: tuple[int, ...], shape: tuple[int, ...], axis: int
) -> Sample:
    """A layer with random weights; outputs are inside of int8, far outside, or almost all 0."""
    channels = shape[axis]
    largest = int(rng.choice((127, 127, 40, 3)))
    weights = rng.integers(-largest, largest + 1, shape).astype(np.int8)
    if rng.integers(3) == 0:
        weights[(slice(None),) * axis + (rng.integers(channels),)] = 0
    if rng.integers(4) == 0:
        weights.flat[rng.integers(weights.size)] = -128
    scales = 2.0 ** rng.uniform(-12, -6, channels)
    x_scale = 2.0 ** rng.uniform(-8, 1)
    spread = x_scale * float(np.median(scales)) * largest * (weights.size / channels) ** 0.5
    y_scale = spread * 2.0 ** rng.choice((rng.uniform(-3, 4), rng.uniform(-10, 10)))
    least, most = (x_scale * scales / limit for limit in MULTIPLIERS)
    y_scale = float(np.clip(y_scale, most.max(), least.min()))
    type = TensorType(shape, DType.INT8, Quantisation(tuple(scales), (0,) * channels, axis))
    bias = rng.normal(0, 2.0 ** rng.integers(0, 17), channels).astype(np.int32)
    biases = (TensorType((channels,), DType.INT32), Data.of(bias))
    inputs = int8(*x, scale=x_scale, zero=_zero(rng))
    return sample(op, inputs, (type, Data.of(weights)), biases, scale=y_scale, zero=_zero(rng))
