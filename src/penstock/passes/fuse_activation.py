"""fuse_activation: makes a Relu the activation of the operator before it.

Conditions:

1. Input and output of Relu have the same type, so that Relu is nothing but a clamp.
2. Relu is the only reader of its input, which is not an output of the graph.
3. The operator that computes the input has an `activation`, and it is NONE, or, of real numbers, it
   has `limits`.

The fused node keeps the name and origin of Relu's output.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

from penstock.ir.graph import Graph, Node
from penstock.ir.op import Op
from penstock.opkit.activation import Activation
from penstock.ops.plain import PlainRelu
from penstock.ops.unary import Relu


def fuse_activation(graph: Graph) -> Graph:
    """Returns the graph with clamps fused into the operators before them."""
    producers, consumers = graph.producers(), graph.consumers()
    outputs = {value.name for value in graph.results}
    fused: dict[str, Node] = {}
    for node in graph.nodes:
        maker = producers.get(node.inputs[0].name)
        op = None if maker is None else _clamped(maker.op, node.op)
        if maker is None or op is None:
            continue
        alone = len(consumers[maker.output.name]) == 1 and maker.output.name not in outputs
        if alone and maker.output.type == node.output.type:
            fused[maker.name] = replace(maker, op=op, output=node.output)
    gone = {node.name for node in fused.values()}
    kept = (fused.get(node.name, node) for node in graph.nodes if node.name not in gone)
    return graph.with_nodes(tuple(kept))


def _clamped(maker: Op, clamp: Op) -> Op | None:
    """The operator `maker` with a clamp of its results; None if it takes none, or there is none."""
    fused: Any = maker
    names = {f.name for f in fields(fused)} if is_dataclass(maker) else set[str]()
    if isinstance(clamp, PlainRelu) and "limits" in names:
        return replace(fused, limits=fused.limits.then(clamp.limits))
    if isinstance(clamp, Relu) and "activation" in names and fused.activation is Activation.NONE:
        return replace(fused, activation=clamp.activation)
    return None
