"""Accelerators with invalid descriptions, and calls that raise the resulting errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from accelerators import NAME, accelerator, implementation, named, strategy
from benchmarks.small_tensors import bias, int8, weights
from penstock.backends.accelerator import NamedPattern, Strategy
from penstock.backends.partition import choose, partition
from penstock.backends.pattern import Pattern, is_op, wildcard
from penstock.ir.graph import Graph, Node, Value
from penstock.opkit.sliding import Window
from penstock.ops.convolutions import Conv2D
from strategies import node_of

CONVOLUTION = is_op("Conv2D")(wildcard(), wildcard())


def network() -> Graph:
    """One convolution."""
    x = Value("x", int8(1, 4, 4, 2))
    node = node_of("y", Conv2D(Window(1), Window(1)), (x,), weights(3, 1, 1, 2), bias(3))
    return Graph("network", (x,), (node.output,), (node,))


def partitioned(pattern: Pattern = CONVOLUTION, rule: Any = None) -> Graph:
    return partition(network(), (NamedPattern("conv", pattern, rule),), (), NAME)[0]


def chosen(*strategies: Strategy) -> object:
    return choose(
        partitioned(), accelerator((named(CONVOLUTION, "conv"),), strategies), lambda _: 0
    )


def at_most_8_channels(node: Node) -> Any:
    """At most 8 channels."""
    return node.inputs[7].type.shape[3] <= 8


def forgets_to_answer(node: Node) -> Any:
    """Strides are 1."""


def _with_a_cost(cost: object) -> object:
    return chosen(strategy("nn.conv2d", 11, implementation("fast", cost)))


WRONG_BACKENDS: dict[str, Callable[[], object]] = {
    "backend-001": lambda: is_op("nn.conv2"),
    "backend-002": lambda: is_op("nn.relu")("nn.conv2d"),
    "backend-003": lambda: is_op("nn.conv2d")(wildcard()),
    "backend-004": lambda: is_op("nn.bias_add")(wildcard(), wildcard()),
    "backend-005": lambda: is_op("nn.softmax")(wildcard()).has_attr({"axis": -1}),
    "backend-006": lambda: partitioned(rule=at_most_8_channels),
    "backend-007": lambda: partitioned(rule=forgets_to_answer),
    "backend-008": lambda: chosen(Strategy("nn.conv2d", lambda node, op, target: None, 11)),
    "backend-009": lambda: _with_a_cost(lambda rows: -rows),
    "backend-010": lambda: partitioned(wildcard()),
    "backend-011": lambda: chosen(strategy("nn.dense", 11, implementation("dense"))),
}
"""By code, the call that meets it."""
