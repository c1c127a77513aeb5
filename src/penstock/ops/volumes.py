"""Windows over volumes, (N, D, H, W, C): ONNX's pools and convolutions of real numbers.

A pool takes rows and columns of all planes, then planes; a convolution adds one of planes for each
plane of the window.  Both are made of operators on images.

Source: ONNX operator specification, AveragePool, Conv, ConvTranspose, LpPool and MaxPool.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from penstock.ir.foreign import Attribute, ForeignNode
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Op
from penstock.ir.tensor import Array, DType
from penstock.opkit.checks import require, require_dtype
from penstock.opkit.nodes import onnx_form
from penstock.opkit.real_nodes import RealNodes
from penstock.opkit.sliding import Window
from penstock.ops.pad import Pad
from penstock.ops.plain import PlainAdd
from penstock.ops.slice import Slice, along

RANK = 5
PLANES, IMAGE = (0,), (1, 2)
"""Spatial axes: along which planes follow each other, and those of a plane."""

Windows = tuple[Window, Window]


def foreign_form(
    node: ForeignNode,
    name: str,
    x: Value,
    order: tuple[int, ...],
    bias: Value | None,
    **attributes: Attribute,
) -> OnnxNode:
    """A TFLite convolution of volumes of real numbers as an ONNX node of a name.

    order: of the axes of the weights as ONNX has them."""
    weights = node.constant(1)
    require_dtype(node.input(1).type, "weights", DType.FLOAT32)
    require(weights.ndim == RANK, f"weights have shape {list(weights.shape)}")
    w = Value.constant(f"{node.y.name}/weights", weights.transpose(order))
    steps = tuple(node.integer(f"stride_{axis}") for axis in "dhw")
    dilations = tuple(node.integer(f"dilation_{axis}_factor", 1) for axis in "dhw")
    return onnx_form(node, name, x, w, bias, strides=steps, dilations=dilations, **attributes)


def of_axes(node: OnnxNode, axes: tuple[int, ...], x: Value) -> OnnxNode:
    """The node whose windows run along some spatial axes alone, of an image with its extents."""
    _, *extents, channels = x.shape
    shape = (1, *(extents[a] for a in axes), *(1,) * (2 - len(axes)), channels)
    image = x.shaped(x.name, shape)
    attributes: Mapping[str, Attribute] = {
        name: _of_axes(name, value, axes) for name, value in node.attributes.items()
    }
    return replace(node, inputs=(image, *node.inputs[1:]), attributes=attributes)


def _of_axes(name: str, value: Attribute, axes: tuple[int, ...]) -> Attribute:
    if not isinstance(value, tuple) or name not in _BY_AXIS:
        return value
    whole = tuple(each for each in value if isinstance(each, int))
    count = len(whole) // (2 if name == "pads" else 1)
    require(count == RANK - 2, f"attribute {name} is {list(value)}, must state three axes")
    return tuple(whole[end + a] for end in range(0, len(whole), count) for a in axes)


_BY_AXIS = ("dilations", "kernel_shape", "output_padding", "output_shape", "pads", "strides")


def pooled(
    new: RealNodes, x: Value, image: Windows, planes: Window, make: Callable[..., Op]
) -> Value:
    """The pool of a volume; `make` returns the pool of images with two windows."""
    batch, depth, height, width, channels = x.shape
    y = new.reshape(x, (batch * depth, height, width, channels))
    y = new.apply(make(*image), y)
    _, rows, columns, _ = y.shape
    y = new.apply(make(planes, Window(1)), new.reshape(y, (batch, depth, rows * columns, channels)))
    return new.reshape(y, (batch, y.shape[1], rows, columns, channels))


def counts(window: Window, extent: int, before: int, after: int) -> Array:
    """The number of taps of each output within an axis and so much of its padding."""
    first = np.arange(window.outputs(extent)) * window.stride - window.before
    taps = first[:, None] + np.arange(window.size) * window.dilation
    return ((taps >= -before) & (taps < extent + after)).sum(axis=1)


def convolved(
    new: RealNodes, x: Value, planes: Window, weights: Array, apply: Callable[[Value, Array], Value]
) -> Value:
    """The convolution of a volume by weights (O, C / G, K, L, M), without bias.

    apply: convolves images by weights (O, C / G, L, M)."""
    batch, depth, height, width, channels = x.shape
    flat = new.reshape(x, (batch, depth, height * width * channels))
    pad = Pad((0, planes.before, 0), (0, planes.after, 0), 0)
    padded = new.apply(pad, flat) if planes.before or planes.after else flat
    outputs, total = planes.outputs(depth), None
    for k in range(planes.size):
        shape, start = (batch, outputs, flat.shape[2]), (0, k * planes.dilation, 0)
        taken = new.apply(Slice(start, shape, (1, planes.stride, 1)), padded)
        images = new.reshape(taken, (batch * outputs, height, width, channels))
        part = apply(images, weights[:, :, k])
        total = part if total is None else new.apply(PlainAdd(), total, part)
    assert total is not None
    return new.reshape(total, (batch, outputs, *total.shape[1:]))


def spaced(new: RealNodes, x: Value, stride: int) -> Value:
    """The volume with stride - 1 planes of zeros after each plane."""
    batch, depth, *image = x.shape
    flat = new.reshape(x, (batch * depth, 1, math.prod(image)))
    padded = new.apply(Pad((0, 0, 0), (0, stride - 1, 0), 0), flat) if stride > 1 else flat
    return new.reshape(padded, (batch, depth * stride, *image))


def planes_of(new: RealNodes, x: Value, start: int, count: int) -> Value:
    """Some planes of a volume."""
    if (start, count) == (0, x.shape[1]):
        return x
    shape = (x.shape[0], count, *x.shape[2:])
    flat = new.reshape(x, (*x.shape[:2], math.prod(x.shape[2:])))
    return new.reshape(new.apply(along(flat.shape, 1, start, count), flat), shape)
