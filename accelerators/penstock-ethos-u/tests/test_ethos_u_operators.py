"""ethos_u: each operator by itself, of drawn shapes and scales, in every configuration."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offloading import assert_exact, claimed, compiled
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.tensor import DType, Quantisation, TensorType
from penstock.opkit.activation import Activation
from penstock.opkit.layers import Layer
from penstock.opkit.sliding import Window
from penstock.ops.binary import Add, Mul, Sub
from penstock.ops.concatenation import Concatenation
from penstock.ops.conversions import Quantize, ShiftZero
from penstock.ops.fully_connected import FullyConnected
from penstock.ops.gather import Gather
from penstock.ops.pool import UnsignedAveragePool2D
from penstock.ops.sums import Mean, Sum
from penstock.ops.transpose_conv import Spread, TransposeConv
from penstock.ops.unary import HardSwish, Logistic

pytest.importorskip("ethosu.vela.api", reason="the package ethos-u-vela is not installed")

EVERY = (
    *(f"ethos_u55:macs={macs}" for macs in (32, 64, 128, 256)),
    "ethos_u65:macs=256",
    *(f"ethos_u85:macs={macs}" for macs in (128, 256, 1024)),
)
LAYOUTS = ("nhwc", "nhcwb16")
every_accelerator = pytest.mark.parametrize("accelerator", EVERY)
layouts = st.sampled_from(LAYOUTS)
zeros = st.integers(-128, 127)


def features(draw: st.DrawFn, net: GraphBuilder, channels: int, most: int = 12) -> Value:
    """A tensor that the NPU computes, or an input of the network."""
    height, width = draw(st.integers(1, most)), draw(st.integers(1, most))
    if draw(st.booleans()):
        return net.input((1, height, width, channels), zero_point=draw(zeros))
    return net.conv2d(net.input((1, height, width, 2)), channels, 1, name="features")


def assert_runs(graph: Graph, accelerator: str, layout: str) -> None:
    """The NPU takes every node, and computes what the graph says at every point."""
    done = compiled(graph, f"{accelerator},layout={layout}")
    assert not done.parts.cpu_fallbacks, done.parts.cpu_fallbacks[0].reason
    assert_exact(done, "points")


@st.composite
def totals(draw: st.DrawFn) -> Graph:
    """A mean or a sum over rows, columns or both, and what reads it."""
    net = GraphBuilder("total", seed=draw(st.integers(0, 99)))
    x = features(draw, net, draw(st.integers(1, 40)), most=20)
    op = draw(st.sampled_from((Mean, Sum)))(draw(st.sampled_from(((1,), (2,), (1, 2)))))
    grown = math.prod(x.type.shape[axis] for axis in op.axes) if isinstance(op, Sum) else 1
    scale = x.type.scale * grown * draw(st.floats(0.05, 4))
    y = net.apply(op, x, quantisation=Quantisation((scale,), (draw(zeros),)), name="total")
    return net.build(net.conv2d(y, 17, 1, name="reader") if draw(st.booleans()) else y)


@st.composite
def transposed(draw: st.DrawFn) -> Graph:
    """A transposed convolution, alone or between layers that want few rows of it."""
    net = GraphBuilder("transposed", seed=draw(st.integers(0, 99)))
    x = features(draw, net, draw(st.integers(1, 36)), most=9)
    stride = draw(st.sampled_from((1, 2, 2)))
    spreads = [spread(draw, extent, stride) for extent in x.type.shape[1:3]]
    channels, most = draw(st.integers(1, 36)), 1 << 12
    shape = (channels, *(s.size for s in spreads), x.type.shape[3])
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    weights = net.constant(
        rng.integers(-127, 128, shape).astype(np.int8), Quantisation((0.01,), (0,)), "w"
    )
    bias = net.constant(
        rng.integers(-most, most, channels).astype(np.int32),
        Quantisation((x.type.scale * 0.01,), (0,)),
        "b",
    )
    op = TransposeConv(*spreads, draw(st.sampled_from(Activation)))
    y = net.apply(op, x, weights, bias, quantisation=drawn_range(draw), name="spread")
    return net.build(net.conv2d(y, 8, 3, name="reader") if draw(st.booleans()) else y)


def spread(draw: st.DrawFn, extent: int, stride: int) -> Spread:
    """Along an axis, such that every output meets an input; on a single one nothing moves."""
    if extent == 1 and draw(st.booleans()):
        return Spread(1, 1, draw(st.integers(1, 4)))
    size = draw(st.integers(stride, 5))
    before = draw(st.integers(0, size - 1))
    outputs = draw(st.integers(1, stride * (extent - 1) + size - before))
    return Spread(outputs, size, stride, before)


def drawn_range(draw: st.DrawFn) -> Quantisation:
    return Quantisation((draw(st.floats(0.01, 0.3)),), (draw(zeros),))


@every_accelerator
@settings(max_examples=4)
@given(graph=transposed(), layout=layouts)
def test_transposed_convolutions(graph: Graph, accelerator: str, layout: str) -> None:
    assert_runs(graph, accelerator, layout)


def with_wide_weights(node: Node) -> Node:
    x, w, b = node.inputs
    elements = np.clip(w.array.astype(np.int16) * 2 - 1, -255, 255)
    return replace(node, inputs=(x, Value.constant(w.name, elements, w.type.quantisation), b))


@st.composite
def unsigned(draw: st.DrawFn) -> Graph:
    """A network whose inputs and outputs are uint8 and whose halves are rounded as those of uint8;
    other nodes than layers may read its input, and compute its output."""
    net = GraphBuilder("unsigned", seed=draw(st.integers(0, 99)))
    size = draw(st.integers(2, 9))
    x = net.input((1, size, size, draw(st.integers(1, 20))), zero_point=draw(zeros), name="x")
    read = Value("input", as_unsigned(x.type))
    y = net.conv2d(x, draw(st.integers(1, 40)), draw(st.integers(1, 3)))
    if draw(st.booleans()):
        y = net.add(net.conv2d(x, y.type.shape[3], 1), y)
    taps = Window(draw(st.sampled_from((2, size))))
    y = net.apply(UnsignedAveragePool2D(taps, taps), y, quantisation=y.type.quantisation)
    last = draw(st.sampled_from(("pool", "dense", "softmax")))
    if last != "pool":
        y = net.fully_connected(y, draw(st.integers(2, 40)))
    if last == "softmax":
        y = net.softmax(y)
    graph = net.build(
        net.apply(ShiftZero(DType.UINT8), y, quantisation=as_unsigned(y.type).quantisation)
    )
    nodes = (Node(ShiftZero(DType.INT8), (read,), x, "input"), *graph.nodes)
    return replace(graph, inputs=(read,), nodes=nodes)


def as_unsigned(type: TensorType) -> TensorType:
    quantisation = Quantisation((type.scale,), (type.zero_point + 128,))
    return TensorType(type.shape, DType.UINT8, quantisation)


@every_accelerator
@settings(max_examples=4)
@given(graph=unsigned(), layout=layouts)
def test_networks_of_uint8(graph: Graph, accelerator: str, layout: str) -> None:
    assert_runs(graph, accelerator, layout)


@st.composite
def wide_layers(draw: st.DrawFn) -> Graph:
    """Layers whose weights less their zero points have 9 bits, as in networks of uint8."""
    net = GraphBuilder("wide", seed=draw(st.integers(0, 99)))
    channels = draw(st.integers(1, 40))
    x = net.input((1, draw(st.integers(1, 9)), draw(st.integers(1, 9)), 3), zero_point=draw(zeros))
    x = net.conv2d(x, channels, draw(st.integers(1, 3)))
    x = net.depthwise_conv2d(x, draw(st.integers(1, 3)), stride=draw(st.integers(1, 2)))
    graph = net.build(net.fully_connected(x, draw(st.integers(1, 20))))
    return replace(
        graph,
        nodes=tuple(
            with_wide_weights(node) if isinstance(node.op, Layer) else node for node in graph.nodes
        ),
    )


@every_accelerator
@settings(max_examples=3)
@given(graph=wide_layers(), layout=layouts)
def test_weights_of_nine_bits(graph: Graph, accelerator: str, layout: str) -> None:
    assert_runs(graph, accelerator, layout)


@every_accelerator
@settings(max_examples=4)
@given(graph=totals(), layout=layouts)
def test_totals(graph: Graph, accelerator: str, layout: str) -> None:
    assert_runs(graph, accelerator, layout)


channel_counts = st.sampled_from((1, 3, 16, 19, 40))


@st.composite
def broadcasts(draw: st.DrawFn) -> Graph:
    """A sum, a difference or a product of an image and of something with as many elements along
    each axis, or one, that is computed or constant."""
    net = GraphBuilder("broadcast", seed=draw(st.integers(0, 99)))
    height, width, channels = draw(st.integers(1, 9)), draw(st.integers(1, 9)), draw(channel_counts)
    image = net.input((1, height, width, 2))
    x = net.conv2d(image, channels, 1, name="x")
    rows, columns, depth = (draw(st.sampled_from((1, n))) for n in (height, width, channels))
    y = second(draw, net, image, (rows, columns, depth))
    op = draw(st.sampled_from((Add, Sub, Mul)))(draw(st.sampled_from(Activation)))
    pair = (x, y) if draw(st.booleans()) else (y, x)
    z = net.apply(op, *pair, quantisation=drawn_range(draw), name="z")
    return net.build(net.conv2d(z, 8, 3, name="reader") if draw(st.booleans()) else z)


def second(draw: st.DrawFn, net: GraphBuilder, image: Value, shape: tuple[int, int, int]) -> Value:
    """Of these rows, columns and channels."""
    if draw(st.booleans()):
        rank = draw(st.sampled_from((3, 4) if shape[:2] != (1, 1) else (1, 3, 4)))
        rng = np.random.default_rng(draw(st.integers(0, 99)))
        elements = rng.integers(-128, 128, (1, *shape)[-rank:]).astype(np.int8)
        return net.constant(elements, drawn_range(draw), "constant")
    smaller = tuple(axis for axis in (1, 2) if shape[axis - 1] < image.type.shape[axis])
    y = net.apply(Mean(smaller), image, name="mean") if smaller else image
    return net.conv2d(y, shape[2], 1, name="side")


@settings(max_examples=20)
@given(graph=broadcasts(), accelerator=st.sampled_from(EVERY), layout=layouts)
def test_broadcasts(graph: Graph, accelerator: str, layout: str) -> None:
    done = compiled(graph, f"{accelerator},layout={layout}")
    fallbacks = done.parts.cpu_fallbacks
    assert all(" sums " in fallback.reason for fallback in fallbacks), fallbacks
    assert_exact(done, "points")


def test_squeeze_and_excitation_is_the_npus_alone() -> None:
    """A mean, a layer, a function, and a product with as many factors as channels."""
    net = GraphBuilder("excited", seed=2)
    x = net.conv2d(net.input((1, 12, 10, 3)), 24, 3, name="x")
    few = net.conv2d(net.apply(Mean((1, 2)), x, name="squeezed"), 24, 1, name="few")
    gates = net.apply(Logistic(), few, quantisation=Quantisation((1 / 256,), (-128,)), name="gates")
    y = net.apply(Mul(), gates, x, quantisation=x.type.quantisation, name="excited")
    graph = net.build(net.conv2d(y, 8, 3, name="y"))
    for accelerator in EVERY:
        assert_runs(graph, accelerator, "nhcwb16")


@st.composite
def dense(draw: st.DrawFn) -> Graph:
    """A dense layer of all of an image, and functions before and behind it."""
    net = GraphBuilder("dense", seed=draw(st.integers(0, 99)))
    shape = draw(st.sampled_from(((1, 30), (1, 1, 1, 9), (1, 5, 4, 19), (6, 3, 2), (7, 11))))
    x = net.input(shape, zero_point=draw(zeros))
    if draw(st.booleans()):
        x = net.apply(HardSwish(), x, name="before")
    rng, channels = np.random.default_rng(draw(st.integers(0, 99))), draw(st.integers(1, 40))
    weights = rng.integers(-127, 128, (channels, x.type.elements)).astype(np.int8)
    bias = rng.integers(-5000, 5000, channels).astype(np.int32)
    y = net.apply(
        FullyConnected(),
        x,
        net.constant(weights, Quantisation((0.01,), (0,)), "w"),
        net.constant(bias, Quantisation((x.type.scale * 0.01,), (0,)), "b"),
        quantisation=drawn_range(draw),
        name="dense",
    )
    return net.build(net.apply(Quantize(), y, quantisation=drawn_range(draw), name="behind"))


@every_accelerator
@settings(max_examples=4)
@given(graph=dense(), layout=layouts)
def test_dense_layers_of_images(graph: Graph, accelerator: str, layout: str) -> None:
    assert_runs(graph, accelerator, layout)


@st.composite
def put_together(draw: st.DrawFn) -> Graph:
    """Tensors along channels, with whole bricks but the last, of the NPU's or of the network's."""
    net = GraphBuilder("together", seed=draw(st.integers(0, 99)))
    height, width = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    image = net.input((1, height, width, 16))
    alike = image.type.quantisation
    parts = [image] if draw(st.booleans()) else []
    for k in range(draw(st.integers(2, 4)) - len(parts)):
        channels = draw(st.sampled_from((16, 32, 48)))
        parts.append(net.conv2d(image, channels, 1, quantisation=alike, name=f"part{k}"))
    last = draw(st.sampled_from((5, 16, 20)))
    parts.append(net.conv2d(image, last, 3, quantisation=alike, name="last"))
    x = net.apply(Concatenation(3), *parts, quantisation=alike, name="together")
    return net.build(net.conv2d(x, 8, 3, name="reader") if draw(st.booleans()) else x)


@settings(max_examples=4)
@given(graph=put_together(), accelerator=st.sampled_from(EVERY), layout=layouts)
def test_concatenations(graph: Graph, accelerator: str, layout: str) -> None:
    assert_runs(graph, accelerator, layout)


def transposed_by(stride: int, size: int, before: int, outputs: int, extent: int = 4) -> Graph:
    """A transposed convolution of an input with `extent` rows and columns."""
    net = GraphBuilder("refused")
    x = net.input((1, extent, extent, 2))
    weights = net.constant(np.ones((3, size, size, 2), np.int8), Quantisation((0.01,), (0,)), "w")
    bias = net.constant(np.zeros(3, np.int32), Quantisation((x.type.scale * 0.01,), (0,)), "b")
    axis = Spread(outputs, size, stride, before)
    y = net.apply(TransposeConv(axis, axis), x, weights, bias, name="y")
    return net.build(y)


def of_a_row_and_a_column() -> Graph:
    """A product of which neither factor has the result's shape."""
    net = GraphBuilder("refused")
    row, column = net.input((1, 1, 4, 3), name="row"), net.input((1, 5, 1, 3), name="column")
    return net.build(net.apply(Mul(), row, column, name="y"))


def scattered(axis: int, shape: tuple[int, ...]) -> Graph:
    """Rows or columns in an order without regularity."""
    net = GraphBuilder("refused")
    order = tuple(k * k * k % 197 for k in range(197))
    return net.build(net.apply(Gather(axis, order), net.input(shape), name="y"))


REFUSED = {
    "it copies more than 64 boxes": scattered(1, (1, 197, 3, 5)),
    "input 0 has shape [1, 1, 4, 3]": of_a_row_and_a_column(),
    "its strides are 3 x 3": transposed_by(3, 3, 0, 12),
    "its window is 1 x 1": transposed_by(2, 1, 0, 7),
    "output elements at a border depend on no input element": transposed_by(2, 2, 0, 9),
    "it crops 2 rows, and its window is 2 x 2": transposed_by(2, 2, 2, 6),
}


@pytest.mark.parametrize("why", REFUSED)
def test_unsupported_nodes_are_refused_with_a_reason(why: str) -> None:
    done = compiled(REFUSED[why], "ethos_u55")
    assert not claimed(done.graph)
    assert why in done.parts.cpu_fallbacks[0].reason


def test_scattered_columns_are_a_convolution_of_whole_rows() -> None:
    """Though there are more than 64 boxes of them."""
    done = compiled(scattered(2, (1, 3, 197, 5)), "ethos_u55")
    assert not done.parts.cpu_fallbacks
    assert_exact(done, "points")


@pytest.mark.parametrize("extent", [1, 4])
def test_an_output_element_before_the_first_window_is_refused(extent: int) -> None:
    """The crop is negative, so the first output element depends on no input element."""
    done = compiled(transposed_by(2, 1 if extent == 1 else 3, -1, 1, extent), "ethos_u55")
    assert not claimed(done.graph)
    assert "output elements at a border" in done.parts.cpu_fallbacks[0].reason


@pytest.mark.parametrize("window", [(25, 5), (9, 2), (8, 8)])
def test_averages_of_large_windows_on_ethos_u85(window: tuple[int, int]) -> None:
    """Beyond 8 rows or columns they are scaled sums."""
    net = GraphBuilder("averages")
    x = net.conv2d(net.input((1, 27, 9, 2)), 20, 1, name="features")
    assert_runs(net.build(net.average_pool2d(x, window, 1, name="y")), EVERY[-2], "nhcwb16")
