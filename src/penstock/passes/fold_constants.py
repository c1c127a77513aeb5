"""fold_constants: replaces a node whose inputs are all constant by its value.

A view of a constant that becomes the new elements of a state is replaced by a copy of its value,
because a node must compute these.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from penstock.ir.graph import Graph, Node, Value, free_name, whole_work
from penstock.ir.region import Region
from penstock.ir.tensor import Data
from penstock.ops.registry import COPY

MAX_BYTES = 16 << 20  # Larger values are not folded: a small file must not need a large compiler.
# Limit on the multiply-accumulates and elements of a folded node, for the same reason.
MAX_WORK = 1 << 28


def fold_constants(graph: Graph) -> Graph:
    """Returns the graph with constant nodes evaluated by their reference arithmetic."""
    updates = {state.after.name for state in graph.states}
    known: dict[str, Value] = {}
    kept: list[Node] = []
    for node in graph.nodes:
        node = node.reading(known)
        if node.variable_inputs or not (node.op.ALIAS or _is_small(node)):
            kept.append(node)
        elif node.name in updates:
            kept.append(_copied(node, graph.names()) if node.op.ALIAS else node)
        else:
            known[node.output.name] = replace(node.output, data=_evaluated(node))
    outputs = tuple(known.get(v.name, v) for v in graph.outputs)
    return replace(graph, outputs=outputs, nodes=tuple(kept))


def _copied(view: Node, taken: Collection[str]) -> Node:
    """A node that copies the value of a view of a constant."""
    name = free_name(f"{view.name}/constant", taken)
    constant = Value(name, view.output.type, _evaluated(view))
    return replace(view, op=COPY, inputs=(constant,))


def _is_small(node: Node) -> bool:
    """Whether a value is within the limits on bytes and work."""
    work = whole_work(node)
    size = node.output.type.size_bytes
    return size <= MAX_BYTES and work.macs + work.elements <= MAX_WORK


def _evaluated(node: Node) -> Data:
    inputs = tuple(v.array for v in node.inputs if v.data is not None)
    return Data.of(node.op.evaluate(node.site, inputs, Region.whole(node.output.shape)))
