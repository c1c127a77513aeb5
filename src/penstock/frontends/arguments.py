"""Arguments of GraphBuilder's methods: words and numbers of the caller, checked and understood."""

from __future__ import annotations

from typing import Literal, get_args

from penstock.frontends.growing import GrowingGraph
from penstock.ir.graph import Value
from penstock.ops.activation import Activation
from penstock.ops.window import Window

Pair = int | tuple[int, int]
"""A number for rows and one for columns, or one for both."""
Padding = Literal["same", "valid"]
Clamp = Literal["none", "relu", "relu6", "relu_n1_to_1"]


def windows(
    graph: GrowingGraph, x: Value, kernel: Pair, stride: Pair, dilation: Pair, padding: Padding
) -> tuple[Window, Window]:
    """Windows along rows and columns of x."""
    if padding not in get_args(Padding):
        raise graph.usage(f"padding is {padding!r}", get_args(Padding))
    extents = image(graph, x)[1:3]
    sizes = _pair(graph, kernel, "kernel")
    strides = _pair(graph, stride, "stride")
    dilations = _pair(graph, dilation, "dilation")
    make = Window.same if padding == "same" else _valid
    rows, columns = (make(*each) for each in zip(extents, sizes, strides, dilations, strict=True))
    return rows, columns


def image(graph: GrowingGraph, x: Value) -> tuple[int, ...]:
    """The shape of x, which must be (N, H, W, C)."""
    if x.type.rank != 4:
        raise graph.usage(f"input has shape {list(x.type.shape)}, its rank must be 4")
    return x.type.shape


def positive(graph: GrowingGraph, number: int, role: str) -> int:
    """The number, which must be at least 1."""
    if number < 1:
        raise graph.usage(f"{role} is {number}, must be at least 1")
    return number


def clamped(graph: GrowingGraph, name: Clamp) -> Activation:
    """The activation of that name."""
    if name not in get_args(Clamp):
        raise graph.usage(f"activation is {name!r}", get_args(Clamp))
    return Activation[name.upper()]


def _pair(graph: GrowingGraph, number: Pair, role: str) -> tuple[int, int]:
    rows, columns = (number, number) if isinstance(number, int) else number
    return positive(graph, rows, role), positive(graph, columns, role)


def _valid(_: int, size: int, stride: int, dilation: int) -> Window:
    return Window(size, stride, dilation)
