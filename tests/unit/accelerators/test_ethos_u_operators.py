"""ethos_u: each operator by itself, of drawn shapes and scales, in every configuration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offloading import assert_exact, claimed, compiled
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph, Value
from penstock.ir.tensor import Quantisation
from penstock.ops.activation import Activation
from penstock.ops.mean import Mean
from penstock.ops.sum import Sum
from penstock.ops.transpose_conv import Spread, TransposeConv

pytest.importorskip("ethosu.vela.api", reason="the package ethos-u-vela is not installed")

EVERY = (*(f"ethos_u55:macs={macs}" for macs in (32, 64, 128, 256)), "ethos_u65:macs=256")
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
    assert not done.parts.left, done.parts.left[0].reason
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
@settings(max_examples=8)
@given(graph=transposed(), layout=layouts)
def test_transposed_convolutions(graph: Graph, accelerator: str, layout: str) -> None:
    assert_runs(graph, accelerator, layout)


@every_accelerator
@settings(max_examples=8)
@given(graph=totals(), layout=layouts)
def test_totals(graph: Graph, accelerator: str, layout: str) -> None:
    assert_runs(graph, accelerator, layout)


def transposed_by(stride: int, size: int, before: int, outputs: int) -> Graph:
    """A transposed convolution of four rows and columns."""
    net = GraphBuilder("refused")
    x = net.input((1, 4, 4, 2))
    weights = net.constant(np.ones((3, size, size, 2), np.int8), Quantisation((0.01,), (0,)), "w")
    bias = net.constant(np.zeros(3, np.int32), Quantisation((x.type.scale * 0.01,), (0,)), "b")
    axis = Spread(outputs, size, stride, before)
    y = net.apply(TransposeConv(axis, axis), x, weights, bias, name="y")
    return net.build(y)


REFUSED = {
    "one moves by 3 x 3": transposed_by(3, 3, 0, 12),
    "one is of 1 x 1": transposed_by(2, 1, 0, 7),
    "elements at a border see none": transposed_by(2, 2, 0, 9),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_the_npu_does_not_take_is_refused_in_words(why: str) -> None:
    done = compiled(REFUSED[why], "ethos_u55")
    assert not claimed(done.graph)
    assert why in done.parts.left[0].reason
