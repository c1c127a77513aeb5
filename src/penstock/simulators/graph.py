"""Runs a Graph with the operators' own arithmetic: the meaning of a model."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.ir.graph import Graph, Node
from penstock.ir.region import Region
from penstock.ir.tensor import Array


def run_graph(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Every computed value of one inference by name, the graph's inputs included.

    `inputs`: by name of a graph input, its elements."""
    values = dict(inputs)
    for node in graph.nodes:
        values[node.name] = evaluate_node(node, values)
    return values


def evaluate_node(node: Node, values: Mapping[str, Array]) -> Array:
    """The node's whole output."""
    inputs = tuple(values[v.name] if v.data is None else v.data.array(v.type) for v in node.inputs)
    return node.op.evaluate(node.site, inputs, Region.whole(node.output.type.shape))
