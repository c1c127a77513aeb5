"""half_precision: stores real numbers in float16, as the user asks for with `--float16`.

    x (float32) --- Cast --- x/float16 --- Cast --- conv --- Cast --- y (float16) --- Cast --- ..

Each float32 tensor that a node computes, or that the caller supplies, is rounded to float16, and
converted back where a node reads it; so nodes compute in float32, and sums keep its precision.
Outputs and states of the network remain float32.  Constants are rounded, but not biases, which are
added to sums.  A clamp after a layer is part of the layer, and a reshaped tensor is not converted.

This is no pass of the stage `simplify`, since it changes the outputs: the network that it returns
is the one that is verified.  Source: SMAUG's engine SMV, which copies float16 and adds float32
(`smv/kernels/load_store_fp16_data.c`, `convolution_simd.c`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from penstock.errors import UsageError
from penstock.ir.graph import Graph, GraphWriter, Node, Value
from penstock.ir.tensor import Data, DType
from penstock.opkit.rearrangement import Rearrangement
from penstock.ops.conversions import Cast
from penstock.ops.reshape import Reshape
from penstock.passes.folding import fuse_activation


def half_precision(graph: Graph) -> Graph:
    """Return the network with its real numbers in float16.  Raises UsageError if it has none."""
    if all(value.dtype is not DType.FLOAT32 for value in graph.variables()):
        raise UsageError(
            "usage-216",
            "--float16 takes networks with real numbers only",
            where=graph.name,
            why="no tensor of this one is float32",
            help="leave --float16 out",
        )
    graph = fuse_activation(graph)
    writer = _Writer(graph, {value.name for value in graph.results})
    for value in graph.inputs:
        writer.narrow(value, value.name, writer.fresh(f"{value.name}/float16"))
    for node in graph.nodes:
        writer.take(node)
    return graph.with_nodes(tuple(writer.nodes))


@dataclass(slots=True)
class _Writer(GraphWriter):
    """Writes the nodes of the new network.

    halves: the float16 tensor in place of a float32 one, by name."""

    results: set[str]
    halves: dict[str, Value] = field(default_factory=dict[str, Value])

    def take(self, node: Node) -> None:
        output, is_result = node.output, node.name in self.results
        if (
            isinstance(node.op, Reshape | Rearrangement)
            and node.inputs[0].name in self.halves
            and not is_result
        ):
            half = replace(output, type=replace(output.type, dtype=DType.FLOAT16))
            self.halves[node.name] = half
            self.nodes.append(
                replace(node, inputs=(self.halves[node.inputs[0].name],), output=half)
            )
            return
        inputs = tuple(self._read(node, k, value) for k, value in enumerate(node.inputs))
        if output.dtype is not DType.FLOAT32:
            self.nodes.append(replace(node, inputs=inputs))
            return
        exact = replace(output, name=self.fresh(f"{node.name}/exact"))
        self.nodes.append(replace(node, inputs=inputs, output=exact))
        half = self.fresh(f"{node.name}/float16") if is_result else node.name
        self.narrow(exact, node.name, half)
        if is_result:
            self.append(Cast(DType.FLOAT32), (self.halves[node.name],), output)

    def narrow(self, value: Value, replaced: str, name: str) -> None:
        """Append the node that rounds a float32 tensor, to one of that name."""
        if value.dtype is DType.FLOAT32:
            self.halves[replaced] = self._cast(value, DType.FLOAT16, name)

    def _read(self, node: Node, k: int, value: Value) -> Value:
        if value.data is not None and value.dtype is DType.FLOAT32:
            return value if k == node.op.BIAS_INPUT else _rounded(value)
        half = self.halves.get(value.name)
        if half is None:
            return value
        return self._cast(half, DType.FLOAT32, self.fresh(f"{node.name}/input{k}"))

    def _cast(self, value: Value, dtype: DType, name: str) -> Value:
        output = Value(name, replace(value.type, dtype=dtype))
        return self.append(Cast(dtype), (value,), output)


def _rounded(value: Value) -> Value:
    """A float32 constant with the nearest numbers of float16."""
    assert value.data is not None
    with np.errstate(over="ignore"):
        halves = value.data.array(value.type).astype(np.float16)
    return replace(value, data=Data.of(halves.astype(np.float32)))
