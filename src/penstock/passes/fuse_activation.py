"""fuse_activation: makes a Relu the activation of the operator before it.

Conditions:

1. Input and output of Relu have the same type, so that Relu is nothing but a clamp.
2. Relu is the only reader of its input, which is not an output of the graph.  Reshapes that only
   add or drop axes of extent 1 may come between, as after convolutions of one axis, if each is the
   only reader of its input, too.
3. The operator that computes the input has an `activation`, and it is NONE, or, of real numbers, it
   has `limits`.

The last of the fused nodes keeps the name of Relu's output.  What is clamped before a reshape
gets a name of its own: goldens know the value under the old name before the clamp.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from penstock.ir.graph import Graph, Node, Value
from penstock.ir.op import Op
from penstock.opkit.activation import Activation
from penstock.ops.plain import PlainRelu
from penstock.ops.reshape import keeps_extents
from penstock.ops.unary import Relu


def fuse_activation(graph: Graph) -> Graph:
    """Returns the graph with clamps fused into the operators before them."""
    producers, consumers = graph.producers(), graph.consumers()
    outputs = {value.name for value in graph.results}
    fused: dict[str, Node] = {}

    def makers(value: Value) -> Iterator[Node]:
        """The nodes before Relu, last first: reshapes, and the first other node."""
        maker = producers.get(value.name)
        while maker is not None and len(consumers[maker.output.name]) == 1:
            if maker.output.name in outputs:
                return
            yield maker
            if not keeps_extents(maker):
                return
            maker = producers.get(maker.inputs[0].name)

    gone: set[str] = set()
    for node in graph.nodes:
        *reshapes, maker = (*makers(node.inputs[0]),) or (node,)
        op = clamped(maker.op, node.op)
        if op is None or maker is node or node.inputs[0].type != node.output.type:
            continue
        if maker.name in gone:  # a clamp itself: in the next round
            continue
        gone.add(node.name)
        output = node.output
        for reshape in reshapes:
            before = replace(reshape.inputs[0], name=f"{reshape.inputs[0].name}/clamped")
            fused[reshape.name] = replace(reshape, inputs=(before,), output=output)
            output = before
        fused[maker.name] = replace(maker, op=op, output=output)
    kept = (fused.get(node.name, node) for node in graph.nodes if node.name not in gone)
    return fuse_activation(graph.with_nodes(tuple(kept))) if gone else graph


def clamped(maker: Op, clamp: Op) -> Op | None:
    """Return an operator with a clamp of its results; None if it takes none, or there is none."""
    fused: Any = maker
    names = {f.name for f in fields(fused)} if is_dataclass(maker) else set[str]()
    if isinstance(clamp, PlainRelu) and "limits" in names:
        return replace(fused, limits=fused.limits.then(clamp.limits))
    if isinstance(clamp, Relu) and "activation" in names and fused.activation is Activation.NONE:
        return replace(fused, activation=clamp.activation)
    return None
