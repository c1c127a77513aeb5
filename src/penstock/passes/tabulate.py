"""tabulate: a chain of element-wise operators between 8-bit tensors becomes a 256-entry table.

An example is DEQUANTIZE, a function of real numbers, QUANTIZE.  Conditions on a chain:

1. It begins and ends with 8-bit tensors; every tensor between them is wider.
2. Every operator is element-wise; its constant inputs are at most one finite number.
3. Tensors between have one reader, and are no outputs of the graph.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from penstock.ir.graph import Graph, Node
from penstock.opkit.broadcast import Elementwise
from penstock.ops.conversions import EIGHT_BITS
from penstock.ops.tabulated import Step, Tabulated


def tabulate(graph: Graph) -> Graph:
    """Returns the graph with tables; the operators of a chain but the last are left without
    readers."""
    producers = graph.producers()
    uses = Counter(value.name for node in graph.nodes for value in node.inputs)
    uses.update(value.name for value in graph.results)
    single = {name for name, count in uses.items() if count == 1}
    return graph.with_nodes(tuple(_rewritten(node, producers, single) for node in graph.nodes))


def _rewritten(node: Node, producers: Mapping[str, Node], single: set[str]) -> Node:
    steps: list[Step] = []
    last: Node | None = node
    while last is not None and (step := _step(last)) is not None:
        steps.insert(0, step)
        (source,) = last.variable_inputs
        if source.dtype in EIGHT_BITS:
            ends_narrow = node.output.dtype in EIGHT_BITS
            if len(steps) == 1 or not ends_narrow:
                return node
            return replace(node, op=Tabulated(tuple(steps)), inputs=(source,))
        last = producers.get(source.name) if source.name in single else None
    return node


def _step(node: Node) -> Step | None:
    """The node as a step of a chain, if it can be one."""
    if not isinstance(node.op, Elementwise) or len(node.variable_inputs) != 1:
        return None
    (x,) = node.variable_inputs
    constants = [value for value in node.inputs if value.data is not None]
    if x.shape != node.output.shape or len(constants) > 1:
        return None
    if not constants:
        return Step(node.op)
    (constant,) = constants
    if constant.elements != 1 or constant.dtype is not x.dtype:
        return None
    number = float(node.site.constant(node.inputs.index(constant)).item())
    if not math.isfinite(number):
        return None
    is_first = node.inputs[0] is constant
    if constant.quantisation is None:
        return Step(node.op, number, is_first)
    return Step(node.op, number, is_first, constant.scale, constant.zero_point)
