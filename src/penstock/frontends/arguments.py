"""Arguments of GraphBuilder's methods: checks and conversions."""

from __future__ import annotations

from typing import Literal, get_args

from penstock.frontends.calibrated_graph import CalibratedGraph
from penstock.ir.graph import Value
from penstock.opkit.activation import Activation
from penstock.opkit.window import Window

Pair = int | tuple[int, int]
"""(rows, columns), or one number for both."""
Padding = Literal["same", "valid"]
Clamp = Literal["none", "relu", "relu6", "relu_n1_to_1"]


def windows(
    graph: CalibratedGraph, x: Value, kernel: Pair, stride: Pair, dilation: Pair, padding: Padding
) -> tuple[Window, Window]:
    """Windows along rows and columns of x.  Raises UsageError for wrong arguments."""
    if padding not in get_args(Padding):
        raise graph.usage(f"padding is {padding!r}", get_args(Padding))
    extents = image(graph, x)[1:3]
    sizes = _pair(graph, kernel, "kernel")
    strides = _pair(graph, stride, "stride")
    dilations = _pair(graph, dilation, "dilation")
    make = Window.same if padding == "same" else _valid
    rows, columns = (make(*each) for each in zip(extents, sizes, strides, dilations, strict=True))
    return rows, columns


def image(graph: CalibratedGraph, x: Value) -> tuple[int, ...]:
    """The shape (N, H, W, C) of x.  Raises UsageError for another rank."""
    if x.type.rank != 4:
        raise graph.usage(f"input has shape {list(x.type.shape)}, its rank must be 4")
    return x.type.shape


def positive(graph: CalibratedGraph, number: int, role: str) -> int:
    """The number.  Raises UsageError if it is below 1."""
    if number < 1:
        raise graph.usage(f"{role} is {number}, must be at least 1")
    return number


def clamped(graph: CalibratedGraph, name: Clamp) -> Activation:
    """The activation of that name.  Raises UsageError for an unknown name."""
    if name not in get_args(Clamp):
        raise graph.usage(f"activation is {name!r}", get_args(Clamp))
    return Activation[name.upper()]


def _pair(graph: CalibratedGraph, number: Pair, role: str) -> tuple[int, int]:
    rows, columns = (number, number) if isinstance(number, int) else number
    return positive(graph, rows, role), positive(graph, columns, role)


def _valid(_: int, size: int, stride: int, dilation: int) -> Window:
    return Window(size, stride, dilation)
