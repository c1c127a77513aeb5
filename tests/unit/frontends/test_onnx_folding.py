"""Constant folding equals ONNX's reference evaluator."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from penstock.errors import ModelError
from penstock.frontends.onnx.file import decode
from penstock.frontends.onnx.folding import FOLDS, folded
from penstock.ir.tensor import Array

X = np.arange(-6, 18).reshape(2, 3, 4).astype(np.float32) / 4
ONE = np.ones((2, 1, 4), np.float32)
SHAPE = np.array([2, 3, 4])


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


def test_there_is_a_case_of_every_operator_that_is_folded() -> None:
    assert {name for name, _, _ in CASES} == set(FOLDS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_a_folded_node_equals_the_reference_evaluator(case: Case) -> None:
    name, inputs, attributes = case
    names = [f"x{k}" for k in range(len(inputs))]
    node = helper.make_node(name, names, ["y"], **attributes)
    empty = [onnx.ValueInfoProto(name=n) for n in names]
    graph = helper.make_graph([node], "g", empty, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (expected,) = ReferenceEvaluator(model).run(None, dict(zip(names, inputs, strict=True)))
    graph = helper.make_graph(
        [node],
        "g",
        [],
        [],
        [numpy_helper.from_array(x, n) for x, n in zip(inputs, names, strict=True)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (read,) = decode(model.SerializeToString(), "m.onnx", None).nodes
    found = folded(read, inputs)
    assert found is not None
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    assert np.allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "case",
    [
        ("Reshape", (X, ints(5, -1)), {}),
        ("Squeeze", (X, ints(1)), {}),
        ("Transpose", (X,), {"perm": [0, 0, 1]}),
        ("Expand", (ONE, ints(2**20, 1, 2**20, 1)), {}),
        ("ConstantOfShape", (ints(2**40),), {}),
        ("Range", (np.array(0), np.array(2**40), np.array(1)), {}),
        ("Gather", (X, ints(9)), {"axis": 1}),
        ("Unsqueeze", (X, ints(0, 0)), {}),
    ],
    ids=lambda case: case[0],
)
def test_inconsistent_operands_are_refused_with_a_reason(case: Case) -> None:
    name, inputs, attributes = case
    names = [f"x{k}" for k in range(len(inputs))]
    node = helper.make_node(name, names, ["y"], **attributes)
    constants = [numpy_helper.from_array(x, n) for x, n in zip(inputs, names, strict=True)]
    graph = helper.make_graph([node], "g", [], [], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (read,) = decode(model.SerializeToString(), "m.onnx", None).nodes
    with pytest.raises(ModelError, match=f"{name} cannot be computed") as caught:
        folded(read, inputs)
    assert caught.value.why
