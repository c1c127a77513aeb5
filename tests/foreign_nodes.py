"""Foreign nodes for tests of operator files."""

from __future__ import annotations

import numpy as np

from penstock.frontends.open import import_tflite
from penstock.ir.foreign import Attribute, ForeignModel, ForeignNode
from penstock.ir.graph import Graph, Value
from penstock.ir.tensor import Array, Data, DType, Quantisation, TensorType
from penstock.simulators.graph import run_graph


def int8(name: str, *shape: int, scale: float = 0.5, zero: int = 3) -> Value:
    """A variable int8 value."""
    return Value(name, TensorType(shape, DType.INT8, Quantisation((scale,), (zero,))))


def ints(name: str, numbers: object) -> Value:
    """A constant int32 value."""
    array = np.array(numbers, np.int32)
    return Value(name, TensorType(array.shape, DType.INT32), Data.of(array))


def graph_of(
    kind: str, inputs: tuple[Value, ...], outputs: tuple[Value, ...], **attributes: Attribute
) -> Graph:
    """The graph of a single foreign node; its variable inputs are the inputs of the graph."""
    node = ForeignNode(kind, f"node 0 {kind}", inputs, outputs, attributes)
    computed = tuple(value for value in inputs if value.data is None)
    return import_tflite(ForeignModel("one_node", computed, outputs, (node,)))


def result(graph: Graph, *inputs: Array) -> tuple[Array, ...]:
    """The outputs of the graph for these inputs."""
    values = run_graph(graph, {v.name: x for v, x in zip(graph.inputs, inputs, strict=True)})
    return tuple(values[v.name] for v in graph.outputs)


def counting(*shape: int) -> Array:
    """Distinct int8 elements."""
    return np.arange(int(np.prod(shape))).astype(np.int8).reshape(shape)
