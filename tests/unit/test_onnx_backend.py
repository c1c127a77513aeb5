"""penstock.onnx_backend: ONNX's interface of backends, and ONNX's node tests through it."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from benchmarks import onnx_nodes
from beside import CASES, needed
from onnx_node_tests import exported_tests
from penstock import onnx_backend

LEAST_PASSED = 929
"""Of the tests that `onnx_backend_node_tests.txt` lists."""


def test_a_node_is_compiled_to_c_and_run() -> None:
    x = np.array([[-1.5, 0.0, 2.25]], np.float32)
    (y,) = onnx_backend.run_node(helper.make_node("Abs", ["x"], ["y"]), [x])
    assert np.array_equal(y, np.abs(x))


def test_inputs_that_decide_shapes_become_constants() -> None:
    info = helper.make_tensor_value_info
    borders = [info("x", 1, (2, 3)), info("shape", 7, (1,))]
    node = helper.make_node("Reshape", ["x", "shape"], ["y"])
    graph = helper.make_graph([node], "g", borders, [info("y", 1, ("n",))])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)])
    prepared = onnx_backend.prepare(model)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    (flat,) = prepared.run([x, np.array([-1])])
    (column,) = prepared.run({"x": x, "shape": np.array([6])})
    assert flat.shape == column.shape == (6,)
    with pytest.raises(ValueError, match="3 inputs, the model has 2"):
        prepared.run([x, np.array([6]), x])


def test_the_device_is_the_cpu() -> None:
    assert onnx_backend.supports_device("CPU:0")
    assert not onnx_backend.supports_device("CUDA")


@pytest.mark.parametrize("expanded", [False, True])
def test_no_result_of_onnx_s_node_tests_is_wrong(expanded: bool) -> None:
    """By the arithmetic of operators, which the laws compare with C."""
    tests = onnx_nodes.node_tests((), expanded=expanded)
    found = [onnx_nodes.judged(test, arithmetic=True) for test in tests]
    assert [one for one in found if one.kind == onnx_nodes.WRONG] == []
    assert all(one.reason for one in found if one.kind == onnx_nodes.REFUSED)
    if not expanded:
        listed = set(needed(CASES / "onnx_backend_node_tests.txt").read_text("utf-8").split())
        passed = {one.test for one in found if one.kind == onnx_nodes.PASSED}
        assert len(passed & listed) >= LEAST_PASSED


def test_no_result_of_pytorch_s_exports_is_wrong() -> None:
    """Most use opset 6, which has other rules of broadcasting."""
    found = [onnx_nodes.judged(test, arithmetic=True) for test in exported_tests()]
    assert [one for one in found if one.kind == onnx_nodes.WRONG] == []
    assert sum(one.kind == onnx_nodes.PASSED for one in found) == 108
    assert sum("opset" in one.reason for one in found) == 3  # the slopes of a PRelu by channel
