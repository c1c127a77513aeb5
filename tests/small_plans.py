"""Small networks whose tensors differ in size, so that recomputation saves memory."""

from __future__ import annotations

from hypothesis import strategies as st

from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph, Value


@st.composite
def narrow_and_wide(draw: st.DrawFn) -> Graph:
    """Layers of changing width, some with a residual connection."""
    net = GraphBuilder("chains")
    x = net.input((1, draw(st.integers(4, 9)), draw(st.integers(2, 6)), draw(st.integers(1, 3))))
    x = net.conv2d(x, 2, 3)
    for _ in range(draw(st.integers(2, 5))):
        x = _layer(draw, net, x)
    return net.build(net.max_pool2d(x, 2, stride=2, padding="same"))


def _layer(draw: st.DrawFn, net: GraphBuilder, x: Value) -> Value:
    stride = (draw(st.sampled_from((1, 1, 2))), 1)
    match draw(st.sampled_from(("widen", "narrow", "depthwise", "residual"))):
        case "widen":
            return net.conv2d(x, 8, 1)
        case "narrow":
            return net.conv2d(x, 2, 3, stride)
        case "depthwise":
            return net.depthwise_conv2d(x, 3, stride)
        case _:
            return net.add(x, net.conv2d(x, x.type.shape[3], 3))
