"""with_single_rounding: makes fully connected layers round once, as newer versions of LiteRT do.

Not one of `order.PASSES`: it changes results, on request (`--rounding single`).
"""

from __future__ import annotations

from dataclasses import replace

from penstock.choices import Rounding
from penstock.ir.graph import Graph, Node
from penstock.ops.fully_connected import FullyConnected


def with_single_rounding(graph: Graph) -> Graph:
    """Returns the graph with single rounding in all fully connected layers."""
    return graph.with_nodes(tuple(_once(node) for node in graph.nodes))


def _once(node: Node) -> Node:
    if not isinstance(node.op, FullyConnected):
        return node
    return replace(node, op=replace(node.op, rounding=Rounding.SINGLE))
