"""fold_constants: a node whose inputs are all constant becomes its value."""

from __future__ import annotations

from dataclasses import replace

from penstock.ir.graph import Graph, Node, Value, whole_work
from penstock.ir.region import Region
from penstock.ir.tensor import Data

MOST_BYTES = 16 << 20
MOST_WORK = 1 << 28


def fold_constants(graph: Graph) -> Graph:
    """The graph with constant nodes evaluated by their own arithmetic."""
    known: dict[str, Value] = {}
    kept: list[Node] = []
    for node in graph.nodes:
        node = replace(node, inputs=tuple(known.get(v.name, v) for v in node.inputs))
        if node.variable_inputs or not _is_small(node):
            kept.append(node)
        else:
            known[node.output.name] = replace(node.output, data=_value(node))
    outputs = tuple(known.get(v.name, v) for v in graph.outputs)
    return Graph(graph.name, graph.inputs, outputs, tuple(kept))


def _is_small(node: Node) -> bool:
    """Whether the value takes little to compute and to keep; what is large is left as it is."""
    work = whole_work(node)
    size = node.output.type.size_bytes
    return size <= MOST_BYTES and work.macs + work.elements <= MOST_WORK


def _value(node: Node) -> Data:
    inputs = tuple(v.data.array(v.type) for v in node.inputs if v.data is not None)
    return Data.of(node.op.evaluate(node.site, inputs, Region.whole(node.output.type.shape)))
