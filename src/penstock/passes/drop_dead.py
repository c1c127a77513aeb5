"""drop_dead: removes nodes whose output is neither read, nor an output of the graph, nor the new
elements of a state."""

from __future__ import annotations

from penstock.ir.graph import Graph, Node


def drop_dead(graph: Graph) -> Graph:
    """Returns the graph without dead nodes."""
    wanted = {value.name for value in graph.results}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if node.output.name in wanted:
            wanted |= {value.name for value in node.inputs}
            kept.append(node)
    return graph.with_nodes(tuple(reversed(kept)))
