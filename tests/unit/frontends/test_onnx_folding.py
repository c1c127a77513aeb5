"""Constant folding equals onnxruntime, which evaluates the node without optimisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from penstock.errors import ModelError
from penstock.frontends.onnx.file import FileNode, decode
from penstock.frontends.onnx.folding import folded
from penstock.ir.tensor import Array

X = np.arange(-6, 18).reshape(2, 3, 4).astype(np.float32) / 4
ONE = np.ones((2, 1, 4), np.float32)
SHAPE = np.array([2, 3, 4])
WEIGHTS = np.linspace(-3, 3, 24).reshape(3, 2, 4).astype(np.float32)
STEPS = np.array([0.01, 0.02, 0.05], np.float32)
BYTES = np.arange(0, 240, 10, dtype=np.uint8).reshape(2, 3, 4)


def ints(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


Case = tuple[str, tuple[Array, ...], dict[str, object]]
CASES: tuple[Case, ...] = (
    ("Abs", (X,), {}),
    ("Add", (X, X[0]), {}),
    ("Cast", (X,), {"to": onnx.TensorProto.INT64}),
    ("Ceil", (X,), {}),
    ("Concat", (X, X), {"axis": -2}),
    ("Constant", (), {"value": numpy_helper.from_array(X)}),
    ("Constant", (), {"value_ints": [3, 1]}),
    ("Constant", (), {"value_float": 0.5}),
    ("ConstantOfShape", (ints(2, 3),), {"value": numpy_helper.from_array(ints(7))}),
    ("ConstantOfShape", (ints(2, 3),), {}),
    ("CumSum", (X, np.array(1)), {}),
    ("CumSum", (X[:1, :1, :1].ravel(), ints(0)), {"exclusive": 1}),
    ("Div", (X, X + 9), {}),
    ("Div", (ints(7, -7, 6), ints(2, 2, -4)), {}),
    ("Exp", (X,), {}),
    ("Expand", (ONE, ints(2, 3, 1)), {}),
    ("Flatten", (X,), {"axis": 2}),
    ("Flatten", (X,), {"axis": -1}),
    ("Floor", (X,), {}),
    ("Gather", (X, ints(0, -1)), {"axis": 1}),
    ("Gather", (SHAPE, np.array(1)), {}),
    ("Identity", (X,), {}),
    ("Mul", (X, ONE), {}),
    ("Neg", (X,), {}),
    ("Cast", (BYTES,), {"to": onnx.TensorProto.INT8}),
    ("Clip", (X, np.float32(-1), np.float32(2)), {}),
    ("Clip", (BYTES, np.uint8(7), np.uint8(99)), {}),
    ("Erf", (X,), {}),
    ("MatMul", (X, WEIGHTS[0, :1].T), {}),
    ("Max", (X, ONE), {}),
    ("Pad", (X, ints(0, 0, 1, 1, 0, 0)), {}),
    ("Pow", (X, np.float32(2)), {}),
    ("QuantizeLinear", (WEIGHTS, STEPS, np.zeros(3, np.int8)), {"axis": 0}),
    ("QuantizeLinear", (X, np.float32(0.1), np.uint8(3)), {}),
    ("ReduceMean", (X,), {"axes": [0, 2], "keepdims": 0}),
    ("Split", (X, ints(1, 3)), {"axis": 2}),
    ("Tile", (X, ints(1, 2, 1)), {}),
    ("Where", (X > 0, X, ONE), {}),
    ("Range", (np.array(2), np.array(9), np.array(3)), {}),
    ("Reciprocal", (X + 9,), {}),
    ("Relu", (X,), {}),
    ("Reshape", (X, ints(0, -1)), {}),
    ("Reshape", (X, ints(4, 2, 3)), {}),
    ("Shape", (X,), {}),
    ("Sigmoid", (X,), {}),
    ("Slice", (X, ints(1, 3), ints(3, 0), ints(1, -1), ints(1, -2)), {}),
    ("Slice", (X, ints(1), ints(9)), {}),
    ("Sqrt", (np.abs(X),), {}),
    ("Squeeze", (ONE, ints(1)), {}),
    ("Squeeze", (ONE,), {}),
    ("Sub", (X, X[:, :1]), {}),
    ("Tanh", (X,), {}),
    ("Transpose", (X,), {"perm": [2, 0, 1]}),
    ("Transpose", (X,), {}),
    ("Unsqueeze", (X, ints(0, -1)), {}),
)


def single(case: Case) -> tuple[onnx.ModelProto, list[str]]:
    """A model of one node of constants, and the names of its outputs."""
    name, inputs, attributes = case
    names, outputs = [f"x{k}" for k in range(len(inputs))], ["y"]
    if name == "Split":
        outputs = ["y", "z"]
    node = helper.make_node(name, names, outputs, **attributes)
    constants = [
        numpy_helper.from_array(np.asarray(x), n) for x, n in zip(inputs, names, strict=True)
    ]
    shaped = [onnx.ValueInfoProto(name=n) for n in outputs]
    graph = helper.make_graph([node], "g", [], shaped, constants)
    return (
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8),
        outputs,
    )


def read_node(model: onnx.ModelProto) -> FileNode:
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    del bare.graph.output[:]
    (node,) = decode(bare.SerializeToString(), "m.onnx", None).nodes
    return node


def by_onnxruntime(model: onnx.ModelProto) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session: Any = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, {})


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_a_folded_node_equals_onnxruntime(case: Case) -> None:
    model, outputs = single(case)
    read = read_node(model)
    found = folded(read, case[1], 13)
    assert found is not None
    assert len(found) == len(outputs)
    for mine, theirs in zip(found, by_onnxruntime(model), strict=True):
        assert mine.shape == theirs.shape
        assert mine.dtype == theirs.dtype
        assert np.allclose(mine, theirs, rtol=1e-6)


def test_an_operator_without_a_function_is_left() -> None:
    model, _ = single(("RandomNormalLike", (X,), {}))
    read = read_node(model)
    assert folded(read, (X,), 13) is None


@pytest.mark.parametrize(
    "case",
    [
        ("Reshape", (X, ints(5, -1)), {}),
        ("Squeeze", (X, ints(1)), {}),
        ("Transpose", (X,), {"perm": [0, 0, 1]}),
        ("Expand", (ONE, ints(2**20, 1, 2**20, 1)), {}),
        ("ConstantOfShape", (ints(2**40),), {}),
        ("Tile", (X, ints(2**20, 2**20, 1)), {}),
        ("Pad", (X, ints(0, 0, 0, 2**40, 0, 0)), {}),
        ("Range", (np.array(0), np.array(2**40), np.array(1)), {}),
        ("Gather", (X, ints(9)), {"axis": 1}),
        ("Unsqueeze", (X, ints(0, 0)), {}),
    ],
    ids=lambda case: case[0],
)
def test_inconsistent_operands_are_refused_with_a_reason(case: Case) -> None:
    model, _ = single(case)
    read = read_node(model)
    with pytest.raises(ModelError, match=f"{case[0]} cannot be computed") as caught:
        folded(read, case[1], 13)
    assert caught.value.why


def test_a_range_to_a_list_of_one_number() -> None:
    """As ONNX defines AffineGrid."""
    node = FileNode("Range", "node 0", ("a", "b", "c"), ("y",))
    (found,) = folded(node, (np.array(0), ints(3), np.array(1)), 18) or (None,)
    np.testing.assert_array_equal(found, np.arange(3))
