"""share_constants: lets nodes that read equal constants read one of them.

Unrolled loops, and the forms of several operators, write the same constant once for each node."""

from __future__ import annotations

from dataclasses import replace

from penstock.ir.graph import Graph, Value
from penstock.ir.tensor import Data, TensorType


def share_constants(graph: Graph) -> Graph:
    """Returns the graph in which constants of equal types and elements are one, the first."""
    firsts: dict[tuple[TensorType, Data], Value] = {}

    def shared(value: Value) -> Value:
        return value if value.data is None else firsts.setdefault((value.type, value.data), value)

    return graph.with_nodes(
        tuple(replace(node, inputs=tuple(map(shared, node.inputs))) for node in graph.nodes)
    )
