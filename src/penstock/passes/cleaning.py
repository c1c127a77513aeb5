"""Passes that remove what a graph need not compute: identities, constants, dead nodes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from penstock.ir.graph import Graph, Node, Value, free_name, whole_work
from penstock.ir.tensor import Data, Region, TensorType
from penstock.ops.conversions import Quantize
from penstock.ops.pad import Pad
from penstock.ops.registry import COPY
from penstock.ops.reshape import Reshape


def free_identities(graph: Graph) -> Graph:
    """Returns the graph with identities as aliases of their inputs, which cost nothing: Quantize
    between equal types, and Pad without a border."""
    return graph.with_nodes(tuple(_freed(node) for node in graph.nodes))


def _freed(node: Node) -> Node:
    if not _is_identity(node):
        return node
    return replace(node, op=Reshape(node.output.shape), inputs=node.inputs[:1])


def _is_identity(node: Node) -> bool:
    match node.op:
        case Quantize():
            return node.inputs[0].type == node.output.type
        case Pad(before=before, after=after):
            return not any((*before, *after))
        case _:
            return False


MAX_BYTES = 16 << 20  # Larger values are not folded: a small file must not need a large compiler.
# Limit on the multiply-accumulates and elements of a folded node, for the same reason.
MAX_WORK = 1 << 28


def fold_constants(graph: Graph) -> Graph:
    """Returns the graph with constant nodes evaluated by their reference arithmetic.

    A view of a constant that becomes the new elements of a state is replaced by a copy of its
    value, because a node must compute these."""
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


def share_constants(graph: Graph) -> Graph:
    """Returns the graph in which constants of equal types and elements are one, the first.

    Unrolled loops, and the forms of several operators, write the same constant for each node."""
    firsts: dict[tuple[TensorType, Data], Value] = {}

    def shared(value: Value) -> Value:
        return value if value.data is None else firsts.setdefault((value.type, value.data), value)

    return graph.with_nodes(
        tuple(replace(node, inputs=tuple(map(shared, node.inputs))) for node in graph.nodes)
    )


def drop_dead(graph: Graph) -> Graph:
    """Returns the graph without nodes whose output is neither read, nor an output of the graph, nor
    the new elements of a state."""
    wanted = {value.name for value in graph.results}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if node.output.name in wanted:
            wanted |= {value.name for value in node.inputs}
            kept.append(node)
    return graph.with_nodes(tuple(reversed(kept)))
