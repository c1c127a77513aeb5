"""fold_constants: replaces a node whose inputs are all constant by its value."""

from __future__ import annotations

from dataclasses import replace

from penstock.ir.graph import Graph, Node, Value, whole_work
from penstock.ir.region import Region
from penstock.ir.tensor import Data

MAX_BYTES = 16 << 20
"""Larger values are not folded: a small file must not need a large compiler."""
MAX_WORK = 1 << 28
"""Limit on the multiply-accumulates and elements of a folded node, for the same reason."""


def fold_constants(graph: Graph) -> Graph:
    """Returns the graph with constant nodes evaluated by their reference arithmetic."""
    updates = {state.after.name for state in graph.states}
    known: dict[str, Value] = {}
    kept: list[Node] = []
    for node in graph.nodes:
        node = replace(node, inputs=tuple(known.get(v.name, v) for v in node.inputs))
        if node.variable_inputs or node.name in updates or not _is_small(node):
            kept.append(node)
        else:
            known[node.output.name] = replace(node.output, data=_evaluated(node))
    outputs = tuple(known.get(v.name, v) for v in graph.outputs)
    return replace(graph, outputs=outputs, nodes=tuple(kept))


def _is_small(node: Node) -> bool:
    """Whether a value is within the limits on bytes and work."""
    work = whole_work(node)
    size = node.output.type.size_bytes
    return size <= MAX_BYTES and work.macs + work.elements <= MAX_WORK


def _evaluated(node: Node) -> Data:
    inputs = tuple(v.data.array(v.type) for v in node.inputs if v.data is not None)
    return Data.of(node.op.evaluate(node.site, inputs, Region.whole(node.output.type.shape)))
