"""Interprets a Graph with the reference arithmetic of its operators."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.ir.graph import Graph, Node
from penstock.ir.region import Region
from penstock.ir.tensor import Array


def run_graph(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """All values of one inference by name, including the graph's inputs.

    `inputs` maps the name of each graph input to its elements."""
    values = dict(inputs)
    for node in graph.nodes:
        values[node.name] = evaluate_node(node, values)
    return values


def evaluate_node(node: Node, values: Mapping[str, Array]) -> Array:
    """The whole output of a node."""
    inputs = tuple(values[v.name] if v.data is None else v.data.array(v.type) for v in node.inputs)
    return node.op.evaluate(node.site, inputs, Region.whole(node.output.type.shape))
