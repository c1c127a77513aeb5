"""Comparisons, choices and connectives of plain numbers, and quotients, against the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from penstock.frontends.open import parse
from penstock.simulators.graph import run_graph
from penstock.simulators.tflite_micro import run_tflite_micro
from tools.tflite_writer import OperatorSpec, TensorSpec, write_tflite

Array = NDArray[Any]

RELATIONS = {
    "LESS": np.less,
    "LESS_EQUAL": np.less_equal,
    "EQUAL": np.equal,
    "NOT_EQUAL": np.not_equal,
    "GREATER": np.greater,
    "GREATER_EQUAL": np.greater_equal,
}
SHAPES = ((2, 3, 4, 5), (3, 1, 5))
INTEGERS = np.array([-(2**31), -7, -1, 0, 1, 6, 2**31 - 1])
REALS = np.array([-np.inf, -1.5, -0.0, 0.0, 2.0, np.inf, np.nan])


def one(operator: str, inputs: tuple[Array, ...], output: TensorSpec) -> bytes:
    """A model of one operator on tensors without quantisation."""
    specs = [TensorSpec(f"x{k}", x.shape, x.dtype.name) for k, x in enumerate(inputs)]
    places = tuple(range(len(inputs)))
    node = OperatorSpec(operator, places, (len(inputs),))
    return write_tflite((*specs, output), (node,), places, (len(inputs),))


def ours(raw: bytes, inputs: tuple[Array, ...]) -> Array:
    graph = parse(raw, "m.tflite")
    values = {v.name: x for v, x in zip(graph.inputs, inputs, strict=True)}
    return run_graph(graph, values)[graph.outputs[0].name]


def drawn(dtype: str, shape: tuple[int, ...], seed: int) -> Array:
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(dtype)
    return rng.choice(REALS if dtype == "float32" else INTEGERS, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "bool"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_comparisons_of_plain_numbers_are_the_references(relation: str, dtype: str) -> None:
    pytest.importorskip("tflite_micro", reason="the extra 'reference' is not installed")
    if dtype == "bool" and relation not in ("EQUAL", "NOT_EQUAL"):
        pytest.skip("the reference compares truth values for equality only")
    inputs = tuple(drawn(dtype, shape, k) for k, shape in enumerate(SHAPES))
    raw = one(relation, inputs, TensorSpec("y", SHAPES[0], "bool"))
    expected = run_tflite_micro(raw, inputs).outputs[0]
    assert 0 < expected.sum() < expected.size
    np.testing.assert_array_equal(ours(raw, inputs), expected)


@pytest.mark.parametrize("dtype", ["uint8", "int16"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_narrow_integers_are_compared(relation: str, dtype: str) -> None:
    inputs = tuple(drawn(dtype, shape, k) for k, shape in enumerate(SHAPES))
    raw = one(relation, inputs, TensorSpec("y", SHAPES[0], "bool"))
    np.testing.assert_array_equal(ours(raw, inputs), RELATIONS[relation](*inputs))


@pytest.mark.parametrize("operator", ["LOGICAL_AND", "LOGICAL_OR"])
def test_connectives_are_the_references(operator: str) -> None:
    pytest.importorskip("tflite_micro", reason="the extra 'reference' is not installed")
    inputs = tuple(drawn("bool", shape, k) for k, shape in enumerate((SHAPES[0], SHAPES[0])))
    raw = one(operator, inputs, TensorSpec("y", SHAPES[0], "bool"))
    np.testing.assert_array_equal(ours(raw, inputs), run_tflite_micro(raw, inputs).outputs[0])


def test_a_negation_is_the_references() -> None:
    pytest.importorskip("tflite_micro", reason="the extra 'reference' is not installed")
    x = drawn("bool", SHAPES[0], 1)
    raw = one("LOGICAL_NOT", (x,), TensorSpec("y", SHAPES[0], "bool"))
    np.testing.assert_array_equal(ours(raw, (x,)), run_tflite_micro(raw, (x,)).outputs[0])


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64", "bool", "float32"])
@pytest.mark.parametrize("operator", ["SELECT", "SELECT_V2"])
def test_any_type_is_selected(operator: str, dtype: str) -> None:
    a, b = (drawn(dtype, SHAPES[0], seed) for seed in (1, 2))
    condition = drawn("bool", SHAPES[0], 3)
    raw = one(operator, (condition, a, b), TensorSpec("y", SHAPES[0], dtype))
    np.testing.assert_array_equal(ours(raw, (condition, a, b)), np.where(condition, a, b))


@pytest.mark.parametrize("shape", [(), (2,)])
def test_select_chooses_whole_slices_by_a_condition_of_lower_rank(shape: tuple[int, ...]) -> None:
    a, b = (drawn("int32", SHAPES[0], seed) for seed in (1, 2))
    condition = np.array([True, False])[: shape[0]] if shape else np.array(False)
    raw = one("SELECT", (condition, a, b), TensorSpec("y", SHAPES[0], "int32"))
    expected = np.stack([a[0], b[1]]) if shape else b
    np.testing.assert_array_equal(ours(raw, (condition, a, b)), expected)


@pytest.mark.parametrize(("operator", "expected"), [("REDUCE_ANY", np.any), ("REDUCE_ALL", np.all)])
def test_truth_values_are_reduced(operator: str, expected: Any) -> None:
    x = np.random.default_rng(1).integers(0, 4, SHAPES[0]) > (2 if operator == "REDUCE_ANY" else 0)
    axes = TensorSpec("axes", (2,), "int32", data=np.array([1, -1], np.int32))
    tensors = (TensorSpec("x", SHAPES[0], "bool"), axes, TensorSpec("y", (2, 4), "bool"))
    raw = write_tflite(tensors, (OperatorSpec(operator, (0, 1), (2,)),), (0,), (2,))
    np.testing.assert_array_equal(ours(raw, (x,)), expected(x, axis=(1, 3)))


@pytest.mark.parametrize("axis", [-1, 0, 1, 2])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_one_hot_vectors_are_those_of_the_identity(dtype: str, axis: int) -> None:
    indices = np.array([[0, 3, -1], [4, 5, 2]], dtype)
    expected = np.moveaxis(np.where(np.arange(5) == indices[..., None], 7, -2), -1, axis)
    tensors = (
        TensorSpec("indices", (2, 3), dtype),
        TensorSpec("depth", (), "int32", data=np.array(5, np.int32)),
        TensorSpec("on", (), "int32", data=np.array(7, np.int32)),
        TensorSpec("off", (), "int32", data=np.array(-2, np.int32)),
        TensorSpec("y", expected.shape, "int32"),
    )
    node = OperatorSpec("ONE_HOT", (0, 1, 2, 3), (4,), {"axis": axis})
    raw = write_tflite(tensors, (node,), (0,), (4,))
    np.testing.assert_array_equal(ours(raw, (indices,)), expected)


EVERY = np.arange(-128, 128).astype(np.int8)


def quotient(
    scales: tuple[float, ...], zeros: tuple[int, ...], activation: str = "NONE"
) -> tuple[bytes, tuple[Array, Array]]:
    """Quotients of every int8 element by every other."""
    a, b = (np.ascontiguousarray(x) for x in np.meshgrid(EVERY, EVERY))
    tensors = [
        TensorSpec(name, a.shape, scales=(float(np.float32(scale)),), zero_points=(zero,))
        for name, scale, zero in zip("aby", scales, zeros, strict=True)
    ]
    options = {"fused_activation_function": activation}
    node = OperatorSpec("DIV", (0, 1), (2,), options)
    return write_tflite(tensors, (node,), (0, 1), (2,)), (a, b)


@pytest.mark.parametrize(
    ("scales", "zeros", "activation"),
    [
        ((0.05, 0.04, 1 / 128), (3, -128, 0), "NONE"),
        ((0.5, 0.003, 0.4), (-128, 11, -9), "RELU"),
        ((0.02, 0.021, 0.0117), (127, -7, -128), "RELU6"),
        ((2.0, 0.02, 0.7), (0, 0, 0), "NONE"),
    ],
)
def test_quotients_are_the_references(
    scales: tuple[float, ...], zeros: tuple[int, ...], activation: str
) -> None:
    pytest.importorskip("tflite_micro", reason="the extra 'reference' is not installed")
    raw, (a, b) = quotient(scales, zeros, activation)
    expected = run_tflite_micro(raw, (a, b)).outputs[0]
    np.testing.assert_array_equal(ours(raw, (a, b)), expected)
    assert np.unique(expected).size > 60


def test_quotients_that_the_reference_shifts_too_far_are_within_a_step_of_the_real_ones() -> None:
    """In the reference, shifts by more than 31 bits are undefined."""
    raw, (a, b) = quotient((0.02, 0.25, 0.33), (8, -37, 44))
    dividends, divisors = 0.02 * (a.astype(float) - 8), 0.25 * (b.astype(float) + 37)
    is_defined = divisors != 0
    real = dividends[is_defined] / divisors[is_defined] / 0.33 + 44
    found = ours(raw, (a, b))[is_defined]
    assert np.abs(found - np.clip(real, -128, 127)).max() <= 1
