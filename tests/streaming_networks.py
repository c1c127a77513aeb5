"""Random networks with a window of frames and without padding along time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph, Value
from penstock.ir.tensor import Array
from penstock.ops.concatenation import Concatenation
from penstock.ops.slice import Slice
from penstock.ops.sums import Mean
from penstock.ops.transpose import Transpose
from penstock.ops.unary import Relu

MOST_STRIDE = 4
"""Largest product of the strides of a network."""


@dataclass(frozen=True)
class StreamingNetwork:
    """A network, the frames of its window, and the product of its strides along time.

    channels_first: whether its input is an image (1, C, T, W)."""

    graph: Graph
    frames: int
    stride: int
    channels_first: bool = False

    def input(self, frames: Array, shape: tuple[int, ...]) -> Array:
        """Frames of shape (n, W * C) as an input of this shape, of the network or of its hop."""
        if not self.channels_first:
            return frames.reshape(shape)
        _, channels, _, columns = shape
        image = frames.reshape(1, len(frames), columns, channels)
        return np.ascontiguousarray(image.transpose(0, 3, 1, 2))


@st.composite
def streaming_networks(draw: st.DrawFn, most_layers: int = 5) -> StreamingNetwork:
    """Layers along time, then a head that reads all rows or those that are left."""
    net = GraphBuilder("streaming", seed=draw(st.integers(0, 999)))
    shape = (1, draw(st.integers(9, 24)), draw(st.integers(1, 3)), draw(st.integers(1, 4)))
    channels_first = draw(st.booleans()) and shape[3] > 1
    x = _channels_first(draw, net, shape) if channels_first else _input(draw, net, shape)
    stride = 1
    for _ in range(draw(st.integers(1, most_layers))):
        y = draw(st.sampled_from((_windowed, _windowed, _branches, _pointwise)))(draw, net, x)
        if stride * y.stride <= MOST_STRIDE:
            x, stride = y.value, stride * y.stride
    return StreamingNetwork(net.build(_head(draw, net, x)), shape[1], stride, channels_first)


@dataclass(frozen=True)
class _Layer:
    """The output of a layer, and its stride along time."""

    value: Value
    stride: int = 1


def _input(draw: st.DrawFn, net: GraphBuilder, shape: tuple[int, int, int, int]) -> Value:
    """An input of frames, perhaps in another shape and viewed in this one."""
    _, frames, columns, channels = shape
    match draw(st.sampled_from(("image", "flat", "quantised", "sequence", "columns"))):
        case "image":
            return net.input(shape)
        case "flat":
            return net.reshape(net.input((1, frames * columns * channels)), shape)
        case "quantised":
            flat = net.input((1, frames * columns * channels))
            flat = net.apply(Relu(), flat, quantisation=flat.type.quantisation)
            return net.reshape(flat, shape)
        case "sequence":
            return net.reshape(net.input((1, frames, columns * channels)), shape)
        case _:
            return net.reshape(net.input((1, 1, frames, columns * channels)), shape)


def _channels_first(draw: st.DrawFn, net: GraphBuilder, shape: tuple[int, int, int, int]) -> Value:
    """An input image with its channels first, as in ONNX."""
    _, frames, columns, channels = shape
    x = net.input((1, channels, frames, columns))
    if draw(st.booleans()):
        x = net.apply(Relu(), x, quantisation=x.type.quantisation)
    return net.apply(Transpose((0, 2, 3, 1)), x, quantisation=x.type.quantisation)


def _windowed(draw: st.DrawFn, net: GraphBuilder, x: Value) -> _Layer:
    """A layer over rows or, where there is one column, perhaps over columns."""
    if x.type.shape[2] > 1 or draw(st.booleans()):
        return _over_rows(draw, net, x)
    return _over_columns(draw, net, x)


def _over_columns(draw: st.DrawFn, net: GraphBuilder, x: Value) -> _Layer:
    """A layer of which converters make one over columns; some add an activation to a tensor of rank
    3."""
    _, frames, _, channels = x.type.shape
    size, stride = draw(st.integers(1, 4)), draw(st.sampled_from((1, 1, 2)))
    dilation = draw(st.sampled_from((1, 2))) if stride == 1 else 1
    if (size - 1) * dilation + 1 + stride > frames:
        return _Layer(x)
    wide = net.reshape(x, (1, 1, frames, channels))
    if draw(st.booleans()):
        y = net.conv2d(wide, 5, (1, size), (1, stride), "valid", "none", (1, dilation))
    elif dilation == 1 and draw(st.booleans()):
        y = net.max_pool2d(wide, (1, size), (1, stride))
    else:
        y = net.depthwise_conv2d(wide, (1, size), (1, stride), "valid", "none", (1, dilation))
    frames, channels = y.type.shape[2:]
    flat = net.reshape(y, (1, frames, channels))
    for _ in range(draw(st.integers(0, 1))):
        flat = net.add(net.apply(Relu(), flat, quantisation=y.type.quantisation), flat)
    return _Layer(net.reshape(flat, (1, frames, 1, channels)), stride)


def _over_rows(draw: st.DrawFn, net: GraphBuilder, x: Value) -> _Layer:
    """A convolution or a pool; what does not fit is left out."""
    frames, columns = x.type.shape[1:3]
    size, stride = draw(st.integers(1, 4)), draw(st.sampled_from((1, 1, 1, 2, 3)))
    dilation = draw(st.sampled_from((1, 1, 2))) if stride == 1 else 1
    if (size - 1) * dilation + 1 + stride > frames:
        return _Layer(x)
    kernel, strides = (size, draw(st.integers(1, min(2, columns)))), (stride, 1)
    match draw(st.sampled_from(("conv", "depthwise", "average", "max"))):
        case "conv":
            channels = draw(st.integers(1, 6))
            y = net.conv2d(x, channels, kernel, strides, "valid", "relu", (dilation, 1))
        case "depthwise":
            y = net.depthwise_conv2d(x, kernel, strides, "valid", "none", (dilation, 1))
        case "average":
            y = net.average_pool2d(x, kernel, strides)
        case _:
            y = net.max_pool2d(x, kernel, strides)
    return _Layer(y, stride)


def _pointwise(draw: st.DrawFn, net: GraphBuilder, x: Value) -> _Layer:
    """An activation, a view, or a softmax over the channels."""
    match draw(st.sampled_from(("relu", "view", "softmax"))):
        case "relu":
            return _Layer(net.apply(Relu(), x, quantisation=x.type.quantisation))
        case "view":
            _, frames, columns, channels = x.type.shape
            flat = net.reshape(x, (1, frames, columns * channels))
            return _Layer(net.reshape(flat, (1, frames, 1, columns * channels)))
        case _:
            return _Layer(net.softmax(x))


def _branches(draw: st.DrawFn, net: GraphBuilder, x: Value) -> _Layer:
    """A convolution whose output is added to, or concatenated with, its cropped input."""
    frames, channels = x.type.shape[1], x.type.shape[3]
    size = draw(st.integers(1, 4))
    if size + 1 > frames:
        return _Layer(x)
    y = net.conv2d(x, channels, (size, 1), 1, "valid", quantisation=x.type.quantisation)
    first = draw(st.integers(0, size - 1))
    shape = (1, frames - size + 1, *x.type.shape[2:])
    crop = Slice((0, first, 0, 0), shape, (1, 1, 1, 1))
    late = net.apply(crop, x, quantisation=x.type.quantisation)
    if draw(st.booleans()):
        return _Layer(net.add(y, late))
    joined = net.apply(Concatenation(3), y, late, quantisation=x.type.quantisation)
    return _Layer(joined)


def _head(draw: st.DrawFn, net: GraphBuilder, x: Value) -> Value:
    """A head over all rows, one over the last row, or none."""
    shape = x.type.shape
    match draw(st.sampled_from(("mean", "mean 1d", "dense", "pool", "last", "none"))):
        case "mean 1d" if shape[2] == 1:
            flat = net.reshape(x, (1, shape[1], shape[3]))
            return net.apply(Mean((1,)), flat, quantisation=x.type.quantisation)
        case "mean" | "mean 1d":
            y = net.apply(Mean((1, 2)), x, quantisation=x.type.quantisation)
            return net.softmax(net.fully_connected(net.reshape(y, (1, shape[3])), 3))
        case "dense":
            return net.fully_connected(net.reshape(x, (1, x.type.elements)), 4)
        case "pool":
            return net.global_average_pool(x)
        case "last":
            last = Slice((0, shape[1] - 1, 0, 0), (1, 1, *shape[2:]), (1, 1, 1, 1))
            return net.apply(last, x, quantisation=x.type.quantisation)
        case _:
            return net.apply(Relu(), x, quantisation=x.type.quantisation)
