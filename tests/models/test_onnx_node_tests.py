"""ONNX's own node tests of operators on integers: exact, or refused with a remedy.

Every input but the first is a constant, as scales and weights are in models.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from penstock.errors import InternalError, PenstockError
from penstock.frontends.onnx.file import decode
from penstock.frontends.onnx.importer import import_onnx
from penstock.frontends.reading import AS_IT_IS
from penstock.ir.graph import Graph, Value
from penstock.ir.tensor import Array
from penstock.simulators.graph import run_graph

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the arithmetic in other operators' tests
    from onnx.backend.test.case.node import collect_testcases
    from onnx.backend.test.case.test_case import TestCase

    OPERATORS = (
        *("QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger"),
        *("QuantizeLinear", "DequantizeLinear"),
    )
    CASES = {
        case.name: case
        for case in collect_testcases(None)  # pyright: ignore[reportArgumentType]
        if case.model and case.model.graph.node[0].op_type in OPERATORS
    }
COMPUTED = {
    *("test_dequantizelinear", "test_qlinearconv", "test_quantizelinear"),
    *("test_qlinearmatmul_2D_int8_float16", "test_qlinearmatmul_2D_int8_float32"),
    *("test_qlinearmatmul_2D_uint8_float16", "test_qlinearmatmul_2D_uint8_float32"),
}
"""These compile; others may be refused."""


def with_constants(case: TestCase) -> tuple[bytes, Array, Array]:
    """The model with constants, its input and its output."""
    assert case.model is not None
    assert case.data_sets is not None
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    (inputs, outputs), *_ = case.data_sets
    for border, given in list(zip(model.graph.input, inputs, strict=True))[1:]:
        tensor = onnx.TensorProto()
        is_tensor = isinstance(given, onnx.TensorProto)
        tensor.CopyFrom(given if is_tensor else numpy_helper.from_array(np.asarray(given)))
        tensor.name = border.name
        model.graph.initializer.append(tensor)
    del model.graph.input[1:]
    return model.SerializeToString(), inputs[0], outputs[0]


def stored(array: Array, value: Value) -> Array:
    """Elements as penstock stores them: uint8 shifted, real numbers quantised."""
    type = value.type
    if array.dtype == np.uint8 and type.dtype.value == "int8":
        return (array.astype(np.int16) - 128).astype(np.int8)
    if array.dtype.kind == "f" and type.dtype.value == "int8":
        steps = np.rint(array / np.float32(type.scale)) + type.zero_point
        return np.clip(steps, -128, 127).astype(np.int8)
    return array


def imported(raw: bytes, folder: Path) -> Graph | PenstockError:
    """The graph of a model, or why there is none."""
    try:
        return import_onnx(decode(raw, "m.onnx", folder), AS_IT_IS).graph
    except PenstockError as error:
        return error


def test_there_are_tests_of_every_operator() -> None:
    assert CASES.keys() >= COMPUTED
    found = {case.model.graph.node[0].op_type for case in CASES.values() if case.model}
    assert found == set(OPERATORS)


@pytest.mark.parametrize("name", CASES)
def test_a_node_test_is_exact_or_refused_with_a_remedy(name: str, tmp_path: Path) -> None:
    raw, given, wanted = with_constants(CASES[name])
    graph = imported(raw, tmp_path)
    if isinstance(graph, PenstockError):
        assert not isinstance(graph, InternalError)
        assert graph.help, str(graph)
        assert "malformed" not in str(graph)
        assert name not in COMPUTED, str(graph)
        return
    (x,), (y,) = graph.inputs, graph.outputs
    found = run_graph(graph, {x.name: stored(given, x).reshape(x.type.shape)})[y.name]
    assert (found == stored(wanted, y).reshape(found.shape)).all()
