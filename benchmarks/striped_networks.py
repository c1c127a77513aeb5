"""Small networks whose frontiers need stripes of other axes than rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph


def convolutions(rows: int, columns: int) -> Graph:
    """Six convolutions of 3 x 3 and 16 channels."""
    net = GraphBuilder("convolutions")
    x = net.input((1, rows, columns, 16))
    for k in range(6):
        x = net.conv2d(x, 16, 3, name=f"conv{k}")
    return net.build(x)


def hidden_channels() -> Graph:
    """A pair of pointwise layers with 64 -> 8192 -> 64 channels."""
    net = GraphBuilder("hidden_channels")
    hidden = net.conv2d(net.input((1, 1, 1, 64)), 8192, 1, activation="relu", name="expand")
    return net.build(net.conv2d(hidden, 64, 1, name="project"))


def early_bottleneck() -> Graph:
    """A stem with stride, a depthwise and a pointwise layer, which need most of the memory."""
    net = GraphBuilder("early_bottleneck")
    x = net.conv2d(net.input((1, 24, 24, 1)), 12, 3, 2, name="stem")
    x = net.conv2d(net.depthwise_conv2d(x, 3, name="depthwise"), 12, 1, name="pointwise")
    return net.build(net.conv2d(x, 4, 3, 2, name="last"))


STRIPED: Mapping[str, Callable[[], Graph]] = {
    "strip": lambda: convolutions(256, 1),
    "transposed_strip": lambda: convolutions(1, 256),
    "wide_image": lambda: convolutions(8, 512),
    "square_image": lambda: convolutions(32, 32),
    "early_bottleneck": early_bottleneck,
    "hidden_channels": hidden_channels,
}
