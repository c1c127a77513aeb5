"""with_single_rounding: fully connected layers round once, as newer LiteRT does.

Not one of `PASSES`: it changes what is computed, at the user's word (`--rounding single`).
"""

from __future__ import annotations

from dataclasses import replace

from penstock.fixedpoint import Rounding
from penstock.ir.graph import Graph, Node
from penstock.ops.fully_connected import FullyConnected


def with_single_rounding(graph: Graph) -> Graph:
    """The graph whose fully connected layers round once."""
    return graph.with_nodes(tuple(_once(node) for node in graph.nodes))


def _once(node: Node) -> Node:
    if not isinstance(node.op, FullyConnected):
        return node
    return replace(node, op=replace(node.op, rounding=Rounding.SINGLE))
