"""drop_dead: nodes whose outputs nobody reads, and that are no outputs of the graph, go."""

from __future__ import annotations

from penstock.ir.graph import Graph, Node


def drop_dead(graph: Graph) -> Graph:
    """The graph without dead nodes."""
    wanted = {value.name for value in graph.outputs}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if node.output.name in wanted:
            wanted |= {value.name for value in node.inputs}
            kept.append(node)
    return graph.with_nodes(tuple(reversed(kept)))
