"""quantised_interface: moves conversions at the border of a network out of it.

A float32 or uint8 graph input that is only converted to int8 becomes the int8 tensor, and so does a
graph output that is only converted from int8.  Callers then pass int8 elements, and the network
needs neither the memory of the converted tensors nor the code of the conversions.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.ir.graph import Graph, Node, Value, Values
from penstock.ir.tensor import DType
from penstock.ops.conversions import Dequantize, Quantize, QuantizeReal


def quantised_interface(graph: Graph) -> Graph:
    """Returns the graph without conversions of whole inputs and outputs; others stay."""
    inputs = {node.inputs[0].name: node for node in graph.nodes if _converts_input(graph, node)}
    outputs = {node.name: node for node in graph.nodes if _converts_output(graph, node)}
    moved = {node.name for node in (*inputs.values(), *outputs.values())}
    return replace(
        graph,
        inputs=tuple(inputs[v.name].output if v.name in inputs else v for v in graph.inputs),
        outputs=tuple(outputs[v.name].inputs[0] if v.name in outputs else v for v in graph.outputs),
        nodes=tuple(node for node in graph.nodes if node.name not in moved),
    )


def _is_conversion(node: Node, inside: Value) -> bool:
    """Whether a node converts between another element type and int8, which `inside` has."""
    is_quantisation = isinstance(node.op, (Quantize, QuantizeReal, Dequantize))
    types = {node.inputs[0].dtype, node.output.dtype}
    return is_quantisation and inside.dtype is DType.INT8 and len(types) > 1


def _converts_input(graph: Graph, node: Node) -> bool:
    """Whether a node converts a graph input, which nothing else reads, to an int8 tensor inside the
    graph."""
    return (
        _is_conversion(node, node.output)
        and not _contains(graph.results, node.output)
        and _contains(graph.inputs, node.inputs[0])
        and _uses(graph, node.inputs[0]) == 1
    )


def _converts_output(graph: Graph, node: Node) -> bool:
    """Whether a node converts an int8 tensor, which is no graph output itself, to one."""
    if not _is_conversion(node, node.inputs[0]):
        return False
    source = node.inputs[0]
    conversions = [n for n in graph.nodes if _is_conversion(n, source) and n.inputs[0] == source]
    return (
        _contains(graph.outputs, node.output)
        and _uses(graph, node.output) == 1
        and source.data is None
        and not _contains((*graph.sources, *graph.results), source)
        and len(conversions) == 1
    )


def _contains(values: Values, value: Value) -> bool:
    return any(value.name == other.name for other in values)


def _uses(graph: Graph, value: Value) -> int:
    operands = (v for node in graph.nodes for v in node.inputs)
    return sum(v.name == value.name for v in (*operands, *graph.results))
