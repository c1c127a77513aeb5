"""A builder of small ONNX models for tests and benchmarks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

Array = NDArray[Any]


@dataclass
class Model:
    """A model under construction.  `quantised`: every tensor passes a QuantizeLinear and a
    DequantizeLinear node."""

    opset: int = 13
    quantised: bool = True
    zero: int = -3
    kind: str = "int8"
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    outputs: list[onnx.ValueInfoProto] = field(default_factory=list)

    def constant(self, array: Array, name: str = "") -> str:
        name = name or f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def input(self, *shape: int | str, name: str = "x", scale: float = 0.05) -> str:
        info = helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, list(shape))
        self.inputs.append(info)
        return self.qdq(name, scale) if self.quantised else name

    def qdq(self, name: str, scale: float = 0.05, zero: int | None = None) -> str:
        """Adds QuantizeLinear and DequantizeLinear nodes; returns the dequantised tensor."""
        point = self.zero if zero is None else zero
        point = point + 128 if self.kind == "uint8" else point
        s = self.constant(np.array(scale, np.float32))
        z = self.constant(np.array(point, self.kind))
        self.nodes.append(helper.make_node("QuantizeLinear", [name, s, z], [f"{name}_q"]))
        self.nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", s, z], [f"{name}_d"]))
        return f"{name}_d"

    def node(
        self,
        operator: str,
        *inputs: str,
        scale: float | None = 0.05,
        count: int = 1,
        domain: str = "",
        **attributes: Any,
    ) -> str:
        """Adds a node; returns its first output, quantised if the model is and `scale` is given."""
        names = [f"{operator.lower()}{len(self.nodes)}_{k}" for k in range(count)]
        made = helper.make_node(operator, inputs, names, domain=domain, **attributes)
        self.nodes.append(made)
        return self.qdq(names[0], scale) if self.quantised and scale else names[0]

    def weights(self, *shape: int, axis: int = 0, seed: int = 0) -> str:
        """Constant weights; in quantised models int8, dequantised per index of `axis`."""
        rng = np.random.default_rng([seed, *shape])
        if not self.quantised:
            return self.constant(rng.normal(0, 0.3, shape).astype(np.float32))
        name = self.constant(rng.integers(-127, 128, shape).astype(np.int8))
        scales = (0.002 * (1 + np.arange(shape[axis]) % 5)).astype(np.float32)
        zeros = np.zeros(shape[axis], np.int8)
        parts = [name, self.constant(scales), self.constant(zeros)]
        made = helper.make_node("DequantizeLinear", parts, [f"{name}_d"], axis=axis)
        self.nodes.append(made)
        return f"{name}_d"

    def reals(self, *shape: int, seed: int = 1) -> str:
        return self.constant(np.random.default_rng(seed).normal(0, 0.5, shape).astype(np.float32))

    def output(self, name: str, kind: int = onnx.TensorProto.FLOAT) -> None:
        self.outputs.append(helper.make_tensor_value_info(name, kind, None))

    def proto(self) -> onnx.ModelProto:
        graph = helper.make_graph(self.nodes, "g", self.inputs, self.outputs, self.constants)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def raw(self, *outputs: str) -> bytes:
        for name in outputs:
            self.output(name)
        return self.proto().SerializeToString()
