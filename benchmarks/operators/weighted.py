"""Families of operators with weights, and products of computed matrices.

Weights have one scale, or one for each output channel; some channels are all zero.  Biases are of
the accumulators' size, or near the limits of int32.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchmarks.operators.drawing import Array, Drawing, Shape
from benchmarks.operators.elementwise import Family
from benchmarks.operators.windows import PADDINGS, sliding
from tools.tflite_writer import TensorSpec


def weights(d: Drawing, shape: Shape, axis: int, per_channel: bool) -> int:
    """Constant int8 weights with zero point 0."""
    channels = shape[axis]
    data = random_weights(d, shape, d.choose(127, 127, 30, 2))
    if d.chance(0.2):
        data[(slice(None),) * axis + (d.rng.integers(channels),)] = 0
    middle = d.scale()
    scales = [middle] * channels
    if per_channel:
        scales = [d.scale_near(middle) for _ in range(channels)]
    count = channels if per_channel else 1
    return d.tensor(
        TensorSpec(
            "w", shape, "int8", tuple(scales[:count]), (0,) * count, axis * per_channel, data
        )
    )


def random_weights(d: Drawing, shape: Shape, largest: int = 127) -> Array:
    """Weights of such a magnitude; in a fifth of all cases one is -128."""
    data = d.rng.integers(-largest, largest + 1, shape).astype(np.int8)
    if d.chance(0.2):
        data.flat[d.rng.integers(data.size)] = -128
    return data


def bias(d: Drawing, x: int, w: int, channels: int) -> int:
    """Biases of any size; -1 where there are none."""
    if d.chance(0.2):
        return -1
    return bias_of(d, x, w, channels, d.choose(0, 2**5, 2**5, 2**10, 2**16, 2**30, 2**31 - 1))


def bias_of(d: Drawing, x: int, w: int, channels: int, limit: int) -> int:
    """Constant int32 biases at the scales of the accumulators."""
    data = d.rng.integers(-limit, limit + 1, channels).astype(np.int32)
    scales = np.float32(d.scale_of(x)) * np.array(d.tensors[w].scales, np.float32)
    flat = tuple(float(scale) for scale in scales)
    name = f"b{len(d.tensors)}"
    return d.tensor(TensorSpec(name, (channels,), "int32", flat, (0,) * len(flat), 0, data))


def result(d: Drawing, shape: Shape, x: int, w: int) -> int:
    """An output whose scale suits the accumulators."""
    data = d.tensors[w].data
    assert data is not None
    scale = float(np.median(d.tensors[w].scales)) * d.scale_of(x)
    spread = float(np.std(data) + 1.0) * (data.size / max(1, shape[-1])) ** 0.5
    if d.chance(0.4):  # an even multiple of the product: accumulators that lie next to ties
        multiple = 2 * d.choose(1, 1, 2, 3, 5, 1 + round(spread / 4))
        return d.output(shape, float(np.float32(scale * multiple)))
    return d.output(shape, d.scale_near(scale * spread))


def convolution(d: Drawing) -> None:
    x = d.input(d.image())
    batches, rows, columns, channels = d.shape_of(x)
    window = sliding(d, rows, columns, dilated=True)
    groups = d.choose(1, 1, 1, *(g for g in (2, 3, 4) if channels % g == 0))
    outputs = groups * d.integer(1, 6)
    shape = (outputs, window.height, window.width, channels // groups)
    w = weights(d, shape, 0, d.chance(0.7))
    b = bias(d, x, w, outputs)
    y = result(d, (batches, *window.outputs(rows, columns), outputs), x, w)
    activation = d.activation_function()
    d.operator("CONV_2D", (x, w, b), y, **window.options(), fused_activation_function=activation)


def depthwise(d: Drawing) -> None:
    x = d.input(d.image())
    batches, rows, columns, channels = d.shape_of(x)
    window = sliding(d, rows, columns, dilated=True)
    multiplier = d.choose(1, 1, 1, 2, 3, 8)
    outputs = channels * multiplier
    w = weights(d, (1, window.height, window.width, outputs), 3, d.chance(0.7))
    b = bias(d, x, w, outputs)
    y = result(d, (batches, *window.outputs(rows, columns), outputs), x, w)
    d.operator(
        "DEPTHWISE_CONV_2D",
        (x, w, b),
        y,
        **window.options(),
        depth_multiplier=multiplier,
        fused_activation_function=d.activation_function(),
    )


def fully_connected(d: Drawing) -> None:
    kept = d.chance(0.3)
    shape = d.shape(d.integer(2, 4) if kept else 2, most=900)
    x = d.input(shape)
    outputs = d.integer(1, 9)
    w = weights(d, (outputs, shape[-1]), 0, d.chance(0.4))
    b = bias(d, x, w, outputs)
    y = result(d, (*shape[:-1], outputs), x, w)
    activation = d.activation_function()
    d.operator(
        "FULLY_CONNECTED", (x, w, b), y, keep_num_dims=kept, fused_activation_function=activation
    )


def transposed(d: Drawing) -> None:
    """A convolution from its output to its input; its options say what that one's windows are."""
    padding = d.choose(*PADDINGS)
    inputs = d.image(most=200, batches=False)
    size = (d.integer(1, 4), d.integer(1, 4))
    stride = (d.integer(1, 3), d.integer(1, 3))
    same = padding == "SAME"
    extents = tuple(
        n * s if same else (n - 1) * s + k
        for n, s, k in zip(inputs[1:3], stride, size, strict=True)
    )
    outputs = d.integer(1, 5)
    x = d.input(inputs)
    w = weights(d, (outputs, *size, inputs[3]), 0, d.chance(0.7))
    b = bias(d, x, w, outputs)
    shape = (inputs[0], *extents, outputs)
    operands = (d.constant(shape), w, x) if b == -1 else (d.constant(shape), w, x, b)
    d.operator(
        "TRANSPOSE_CONV",
        operands,
        result(d, shape, x, w),
        padding=padding,
        stride_h=stride[0],
        stride_w=stride[1],
        fused_activation_function=d.choose("NONE", "RELU", "RELU6"),
    )


def batch_matmul(d: Drawing) -> None:
    lead = tuple(d.integer(1, 3) for _ in range(d.integer(0, 2)))
    rows, depth, columns = (d.integer(1, 9) for _ in range(3))
    adjoint = (d.chance(0.5), d.chance(0.5))
    left = (depth, rows) if adjoint[0] else (rows, depth)
    right = (columns, depth) if adjoint[1] else (depth, columns)
    a = d.input((*lead, *left))
    b = d.operand((*(d.choose(1, n) if d.chance(0.3) else n for n in lead), *right))
    scale = d.scale_of(a) * d.scale_of(b) * 60 * depth**0.5
    y = d.output((*lead, rows, columns), d.scale_near(scale))
    d.operator("BATCH_MATMUL", (a, b), y, adj_x=adjoint[0], adj_y=adjoint[1])


FAMILIES: Mapping[str, Family] = {
    "CONV_2D": convolution,
    "DEPTHWISE_CONV_2D": depthwise,
    "FULLY_CONNECTED": fully_connected,
    "TRANSPOSE_CONV": transposed,
    "BATCH_MATMUL": batch_matmul,
}
