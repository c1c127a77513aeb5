"""ONNX's own node tests for operators on integers, with scales and zero points as constants.

Each test compiles and is within one step of the expected elements, or is refused for a reason that
is listed here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from onnx_models import graph_of
from onnx_node_tests import one_node_tests
from penstock.errors import PenstockError
from penstock.ir.tensor import Array, DType, TensorType
from penstock.simulators.graph import run_graph

OPERATORS = (
    "QLinearConv",
    "QLinearMatMul",
    "ConvInteger",
    "MatMulInteger",
    "QuantizeLinear",
    "DequantizeLinear",
    "DynamicQuantizeLinear",
)
_SCALES = "scales, must have one"
_BLOCKS = "scales in blocks, must have one for each tensor or channel"
_TYPE = "has element type (FLOAT8E4M3FN|FLOAT8E5M2|FLOAT4E2M1|U?INT4|U?INT2)"
_SUM = "Integer: operator is not supported"
REFUSED: Mapping[str, str] = {
    # Sums in int32 are no tensors of the model's operators; their scales come with the input.
    "test_convinteger_with_padding": _SUM,
    "test_convinteger_without_padding": _SUM,
    "test_matmulinteger": _SUM,
    "test_dynamicquantizelinear": "operator is not supported",
    "test_dynamicquantizelinear_max_adjusted": "operator is not supported",
    "test_dynamicquantizelinear_min_adjusted": "operator is not supported",
    # Computed tensors have one scale.
    "test_dequantizelinear_axis": _SCALES,
    "test_quantizelinear_axis": _SCALES,
    "test_dequantizelinear_blocked": _BLOCKS,
    "test_quantizelinear_blocked_asymmetric": _BLOCKS,
    "test_quantizelinear_blocked_symmetric": _BLOCKS,
    # Elements have 8 bits.
    "test_dequantizelinear_int16": "between int16 and real numbers",
    "test_dequantizelinear_uint16": "the input is uint16",
    "test_quantizelinear_int16": "between real numbers and int16",
    "test_quantizelinear_uint16": "between real numbers and uint16",
    **{
        f"test_{kind}linear_{type}": _TYPE
        for kind in ("quantize", "dequantize")
        for type in ("e4m3fn", "e5m2", "float4e2m1", "int2", "int4", "uint2", "uint4")
    },
    "test_dequantizelinear_e4m3fn_float16": _TYPE,
    "test_dequantizelinear_e4m3fn_zero_point": _TYPE,
}
"""What the message says, by test."""
COMPUTED: Mapping[str, tuple[int, ...]] = {"QLinearMatMul": (0, 3)}
"""Positions of the inputs that are not made constant, by operator; the first one by default."""


@cache
def node_tests() -> Mapping[str, Any]:
    return {
        test.name: test
        for test in one_node_tests()
        if test.model.graph.node[0].op_type in OPERATORS
    }


def with_constants(model: onnx.ModelProto, inputs: list[Array]) -> tuple[bytes, dict[str, Array]]:
    """The model with constants for inputs that are no computed tensors, and the elements of the
    others."""
    found: Any = onnx.ModelProto.FromString(model.SerializeToString())
    (node,) = found.graph.node
    computed = {node.input[k] for k in COMPUTED.get(node.op_type, (0,))}
    elements = {value.name: x for value, x in zip(found.graph.input, inputs, strict=True)}
    kept = [value for value in found.graph.input if value.name in computed]
    found.graph.initializer.extend(
        constant(x, name) for name, x in elements.items() if name not in computed
    )
    del found.graph.input[:]
    found.graph.input.extend(kept)
    return found.SerializeToString(), {value.name: elements[value.name] for value in kept}


def constant(x: Array | onnx.TensorProto, name: str) -> onnx.TensorProto:
    """A constant; tests store element types that NumPy lacks as they are in the file."""
    if not isinstance(x, onnx.TensorProto):
        return numpy_helper.from_array(np.asarray(x), name)
    found = onnx.TensorProto()
    found.CopyFrom(x)
    found.name = name
    return found


def in_the_graph(x: Array, type: TensorType) -> Array:
    """Elements as the graph takes them."""
    if type.dtype is DType.INT8 and x.dtype.kind == "f":
        steps = np.rint(x / np.float32(type.scale)) + type.zero_point
        return np.clip(steps, -128, 127).astype(np.int8)
    return (x.astype(np.int16) - 128).astype(np.int8) if x.dtype == np.uint8 else x


def test_the_list_of_refusals_names_tests() -> None:
    assert set(REFUSED) <= set(node_tests())


@pytest.mark.parametrize("name", sorted(node_tests()))
def test_a_node_test_of_onnx_passes_or_is_refused_clearly(name: str) -> None:
    test = node_tests()[name]
    ((inputs, outputs),) = test.data_sets
    raw, computed = with_constants(test.model, inputs)
    if name in REFUSED:
        with pytest.raises(PenstockError, match=REFUSED[name]) as caught:
            graph_of(raw)
        assert "malformed" not in f"{caught.value.what} {caught.value.why} {caught.value.help}"
        assert caught.value.help
        return
    graph = graph_of(raw)
    (y,), (expected,) = graph.outputs, outputs
    elements = {v.name: in_the_graph(computed[v.name], v.type) for v in graph.inputs}
    found = run_graph(graph, elements)[y.name].astype(np.float64)
    if expected.dtype.kind == "f" and y.type.dtype is DType.INT8:
        found = (found - y.type.zero_point) * y.type.scale
        np.testing.assert_allclose(found, expected, rtol=0, atol=y.type.scale)
    else:
        found = found + (128 if expected.dtype == np.uint8 else 0)
        assert found.shape == expected.shape
        assert np.abs(found - expected).max() <= 1
