"""Fully connected layers of weights with a zero point, and of computed weights, against the
reference."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import ModelError
from penstock.frontends.open import parse
from penstock.simulators.graph import run_graph
from penstock.simulators.tflite_micro import run_tflite_micro
from tools.tflite_writer import OperatorSpec, TensorSpec, write_tflite

pytest.importorskip("tflite_micro", reason="the extra 'reference' is not installed")

OUTPUTS, DEPTH = 7, 12


def layer(
    shape: tuple[int, ...],
    zero: int,
    *,
    computed: bool = False,
    activation: str = "NONE",
    keep: bool = False,
    bias: bool = True,
) -> bytes:
    """A layer whose input has a shape, and whose weights have a zero point."""
    rng = np.random.default_rng([zero + 128, len(shape)])
    w = rng.integers(-128, 128, (OUTPUTS, DEPTH)).astype(np.int8)
    result = (*shape[:-1], OUTPUTS) if keep else (int(np.prod(shape)) // DEPTH, OUTPUTS)
    scale = 0.05 * 0.02
    tensors = (
        TensorSpec("x", shape, scales=(0.05,), zero_points=(-9,)),
        TensorSpec("w", w.shape, scales=(0.02,), zero_points=(zero,), data=None if computed else w),
        TensorSpec("y", result, scales=(0.2,), zero_points=(4,)),
        TensorSpec(
            "b",
            (OUTPUTS,),
            "int32",
            (scale,),
            (0,),
            data=rng.integers(-9999, 9999, OUTPUTS, "int32"),
        ),
    )
    options = {"fused_activation_function": activation, "keep_num_dims": keep}
    node = OperatorSpec("FULLY_CONNECTED", (0, 1, 3 if bias else -1), (2,), options)
    return write_tflite(tensors, (node,), (0, 1) if computed else (0,), (2,))


def compare(raw: bytes) -> None:
    graph = parse(raw, "m.tflite")
    rng = np.random.default_rng(5)
    inputs = tuple(rng.integers(-128, 128, v.type.shape).astype(np.int8) for v in graph.inputs)
    named = {v.name: x for v, x in zip(graph.inputs, inputs, strict=True)}
    expected = run_tflite_micro(raw, inputs).outputs[0]
    assert np.unique(expected).size > 8
    np.testing.assert_array_equal(run_graph(graph, named)[graph.outputs[0].name], expected)


@pytest.mark.parametrize("zero", [-128, -5, 1, 5, 127])
@pytest.mark.parametrize(("shape", "keep"), [((3, 12), False), ((1, 2, 3, 12), True)])
def test_weights_with_a_zero_point_are_the_references(
    shape: tuple[int, ...], keep: bool, zero: int
) -> None:
    compare(layer(shape, zero, keep=keep))


def test_the_product_of_scales_has_double_precision() -> None:
    """Accumulators that a multiplier in single precision would round to another step."""
    x, w, y = (float(np.float32(v)) for v in (0.010382891, 0.001485042, 0.03296916))
    bias = np.array([246963, -246963], np.int32)
    tensors = (
        TensorSpec("x", (1, 4), scales=(x,), zero_points=(0,)),
        TensorSpec("w", (2, 4), scales=(w,), zero_points=(0,), data=np.zeros((2, 4), np.int8)),
        TensorSpec("y", (1, 2), scales=(y,), zero_points=(0,)),
        TensorSpec("b", (2,), "int32", (float(np.float32(x * w)),), (0,), data=bias),
    )
    node = OperatorSpec("FULLY_CONNECTED", (0, 1, 3), (2,), {})
    raw = write_tflite(tensors, (node,), (0,), (2,))
    zeros = np.zeros((1, 4), np.int8)
    graph = parse(raw, "m.tflite")
    found = run_graph(graph, {graph.inputs[0].name: zeros})[graph.outputs[0].name]
    np.testing.assert_array_equal(found, run_tflite_micro(raw, (zeros,)).outputs[0])


def test_inputs_whose_weights_fit_8_bits_are_read_once() -> None:
    tensors = (
        TensorSpec("x", (1, 3), scales=(0.05,), zero_points=(-9,)),
        TensorSpec(
            "w", (2, 3), scales=(0.02,), zero_points=(40,),
            data=np.array([[-88, 127, 0], [-128, 5, 1]], np.int8),
        ),
        TensorSpec("y", (1, 2), scales=(0.2,), zero_points=(4,)),
    )  # fmt: skip
    node = OperatorSpec("FULLY_CONNECTED", (0, 1), (2,))
    graph = parse(write_tflite(tensors, (node,), (0,), (2,)), "m.tflite")
    product = next(node for node in graph.nodes if node.kind == "FullyConnected")
    assert product.inputs[1].type.shape == (2, 4)


@pytest.mark.parametrize("zero", [0, 7])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("activation", ["NONE", "RELU"])
def test_computed_weights_are_the_references(zero: int, bias: bool, activation: str) -> None:
    compare(layer((3, 12), zero, computed=True, bias=bias, activation=activation))


def test_computed_weights_and_several_axes() -> None:
    compare(layer((2, 2, 12), 3, computed=True, keep=True))


@pytest.mark.parametrize("shape", [(3, 12), (2, 2, 12)])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("activation", ["NONE", "RELU6"])
def test_computed_weights_of_real_numbers_are_the_references(
    shape: tuple[int, ...], bias: bool, activation: str
) -> None:
    rng = np.random.default_rng(7)
    keep = len(shape) > 2
    result = (*shape[:-1], OUTPUTS) if keep else (3, OUTPUTS)
    offsets = rng.normal(0, 3, OUTPUTS).astype(np.float32)
    tensors = (
        TensorSpec("x", shape, "float32"),
        TensorSpec("w", (OUTPUTS, DEPTH), "float32"),
        TensorSpec("y", result, "float32"),
        TensorSpec("b", (OUTPUTS,), "float32", data=offsets),
    )
    options = {"fused_activation_function": activation, "keep_num_dims": keep}
    node = OperatorSpec("FULLY_CONNECTED", (0, 1, 3 if bias else -1), (2,), options)
    raw = write_tflite(tensors, (node,), (0, 1), (2,))
    x, w = (rng.normal(0, 1, t.shape).astype(np.float32) for t in tensors[:2])
    expected = run_tflite_micro(raw, (x, w)).outputs[0]
    found = run_graph(parse(raw, "m.tflite"), {"x": x, "w": w})["y"]
    np.testing.assert_array_equal(found, expected)


def test_a_zero_point_for_each_channel_is_refused() -> None:
    """The reference ignores it."""
    scales, zeros = (0.02,) * OUTPUTS, (0,) * (OUTPUTS - 1) + (3,)
    w = np.ones((OUTPUTS, DEPTH), np.int8)
    tensors = (
        TensorSpec("x", (1, DEPTH), scales=(0.05,), zero_points=(-9,)),
        TensorSpec("w", w.shape, scales=scales, zero_points=zeros, data=w),
        TensorSpec("y", (1, OUTPUTS), scales=(0.2,), zero_points=(4,)),
    )
    node = OperatorSpec("FULLY_CONNECTED", (0, 1), (2,))
    with pytest.raises(ModelError, match="weights have a zero point for each channel"):
        parse(write_tflite(tensors, (node,), (0,), (2,)), "m.tflite")
