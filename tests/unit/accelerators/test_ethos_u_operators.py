"""ethos_u: each operator by itself, of drawn shapes and scales, in every configuration."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offloading import assert_exact, compiled
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph, Value
from penstock.ir.tensor import Quantisation
from penstock.ops.mean import Mean
from penstock.ops.sum import Sum

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


@every_accelerator
@settings(max_examples=8)
@given(graph=totals(), layout=layouts)
def test_totals(graph: Graph, accelerator: str, layout: str) -> None:
    assert_runs(graph, accelerator, layout)
