"""fuse_activation: makes a Relu the activation of the operator before it.

Conditions:

1. Input and output of Relu have the same type, so that Relu is nothing but a clamp.
2. Relu is the only reader of its input, which is not an output of the graph.
3. The operator that computes the input has an `activation`, and it is NONE.

The fused node keeps the name and origin of Relu's output.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

from penstock.ir.graph import Graph, Node
from penstock.ir.op import Op
from penstock.opkit.activation import Activation
from penstock.ops.unary import Relu


def fuse_activation(graph: Graph) -> Graph:
    """Returns the graph with clamps fused into the operators before them."""
    producers, consumers = graph.producers(), graph.consumers()
    outputs = {value.name for value in graph.results}
    fused: dict[str, Node] = {}
    for node in graph.nodes:
        maker = producers.get(node.inputs[0].name)
        if maker is None or not isinstance(node.op, Relu) or not _takes_clamp(maker.op):
            continue
        alone = len(consumers[maker.output.name]) == 1 and maker.output.name not in outputs
        if alone and maker.output.type == node.output.type:
            fused[maker.name] = _clamped(maker, node)
    gone = {node.name for node in fused.values()}
    kept = (fused.get(node.name, node) for node in graph.nodes if node.name not in gone)
    return graph.with_nodes(tuple(kept))


def _takes_clamp(op: Op) -> bool:
    """Whether the operator has an `activation` field whose value is NONE."""
    names = {f.name for f in fields(op)} if is_dataclass(op) else set[str]()
    return "activation" in names and getattr(op, "activation") is Activation.NONE  # noqa: B009


def _clamped(maker: Node, clamp: Node) -> Node:
    op: Any = maker.op
    assert isinstance(clamp.op, Relu)
    op = replace(op, activation=clamp.op.activation)
    return replace(maker, op=op, output=clamp.output)
