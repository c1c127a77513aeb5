"""Constants of 4 bits that DequantizeLinear reads, with scales by channel or in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from penstock.errors import UnsupportedError
from penstock.frontends.open import parse
from penstock.simulators.graph import run_graph

WHOLE = np.arange(48).reshape(8, 6) * 7 % 16
X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(1, 8)


def weights_only(code: int, block: int, offset: int) -> bytes:
    """x times weights of that element type; offset: of the elements, and the zero point."""
    shape = (8 // block, 6) if block else (6,)
    scales = np.linspace(0.05, 0.2, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    constants = (
        helper.make_tensor("steps", code, (8, 6), (WHOLE - offset).ravel().tolist()),
        numpy_helper.from_array(scales, "scales"),
        helper.make_tensor("zeros", code, shape, [7 - offset] * scales.size),
    )
    layout: dict[str, Any] = {"axis": 0, "block_size": block} if block else {"axis": 1}
    nodes = (
        helper.make_node("DequantizeLinear", ["steps", "scales", "zeros"], ["w"], **layout),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    )
    return raw(nodes, constants, (1, 6))


def raw(
    nodes: Sequence[NodeProto], constants: Sequence[TensorProto], shape: tuple[int, ...]
) -> bytes:
    borders = [helper.make_tensor_value_info(*b) for b in (("x", 1, X.shape), ("y", 1, shape))]
    graph = helper.make_graph(nodes, "g", borders[:1], borders[1:], constants)
    opsets = [helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return model.SerializeToString()


@pytest.mark.parametrize("block", [0, 4])
@pytest.mark.parametrize(
    ("code", "offset"), [(TensorProto.INT4, 8), (TensorProto.UINT4, 0), (TensorProto.INT8, 8)]
)
def test_weights_are_those_of_onnxruntime(code: int, offset: int, block: int) -> None:
    runtime = pytest.importorskip("onnxruntime")
    model = weights_only(code, block, offset)
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    graph = parse(model, "m.onnx")
    found = run_graph(graph, {graph.inputs[0].name: X})[graph.outputs[0].name]
    assert np.allclose(found, session.run(None, {"x": X})[0], rtol=0, atol=1e-6)


def test_a_quantisation_to_4_bits_is_refused() -> None:
    """Its zero point says that the results have 4 bits."""
    constants = (
        numpy_helper.from_array(np.array(0.1, np.float32), "scale"),
        helper.make_tensor("zero", TensorProto.INT4, (), [0]),
    )
    nodes = (
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["steps"]),
        helper.make_node("DequantizeLinear", ["steps", "scale", "zero"], ["y"]),
    )
    with pytest.raises(UnsupportedError, match='"zero" has element type INT4'):
        parse(raw(nodes, constants, X.shape), "m.onnx")
