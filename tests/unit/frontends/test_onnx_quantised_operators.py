"""Operators with scales beside their inputs: QLinearConv and its kin, against real arithmetic that
is spelled out here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

from onnx_judge import worst_steps
from onnx_models import drawn, graph_of, judged, kinds
from penstock.errors import ModelError, UnsupportedError
from penstock.ir.tensor import Array
from penstock.simulators.graph import run_graph
from tools.onnx_writer import Model

Zero = tuple[float, int]


class Quantised(Model):
    """A model whose tensors are int8 or uint8 throughout."""

    def scale(self, scale: float, zero: int) -> tuple[str, str]:
        """Names of a scale and a zero point, given as of int8."""
        point = zero + 128 if self.kind == "uint8" else zero
        return self.constant(np.float32(scale)), self.constant(np.array(point, self.kind))

    def quantised_input(self, *shape: int, name: str, scale: float, zero: int) -> tuple[str, ...]:
        self.input(*shape, name=name)
        self.nodes.clear()
        s, z = self.scale(scale, zero)
        self._quantisers = [*getattr(self, "_quantisers", []), (name, s, z)]
        return f"{name}_q", s, z

    def finished(self, last: str, scale: float, zero: int) -> bytes:
        """The inputs quantised first, the last tensor dequantised."""
        from onnx import helper

        quantise = [
            helper.make_node("QuantizeLinear", [n, s, z], [f"{n}_q"])
            for n, s, z in self._quantisers
        ]
        s, z = self.scale(scale, zero)
        self.nodes = [*quantise, *self.nodes]
        self.nodes.append(helper.make_node("DequantizeLinear", [last, s, z], ["y"]))
        return self.raw("y")


def real(elements: Array, scale: float, zero: int) -> Array:
    return (elements.astype(np.float64) - zero) * np.float32(scale)


def rounded(reals: Array, scale: float, zero: int) -> Array:
    return np.clip(np.rint(reals / np.float64(np.float32(scale))) + zero, -128, 127)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def leaky(x: Array) -> Array:
    return np.where(x < 0, 0.1 * x, x)


X, W, Y = (0.05, -3), (0.03, 7), (0.07, 11)
ONE: dict[str, tuple[dict[str, object], Zero, Callable[[Array], Array]]] = {
    "QLinearGlobalAveragePool": ({}, (0.02, 4), lambda x: x.mean(axis=(2, 3), keepdims=True)),
    "QLinearSigmoid": ({}, (1 / 255, -128), sigmoid),
    "QLinearLeakyRelu": ({"alpha": 0.1}, Y, leaky),
    "QLinearAveragePool": (
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        (0.03, 4),
        lambda x: x.reshape(1, 3, 3, 2, 2, 2).mean(axis=(3, 5)),
    ),
}
TWO: dict[str, Callable[[Array, Array], Array]] = {"QLinearAdd": np.add, "QLinearMul": np.multiply}


def is_within_a_step(raw: bytes, expected: Callable[..., Array], out: Zero) -> bool:
    """Whether the graph's output is, for several inputs, within a step of what is expected of the
    real numbers that its inputs stand for."""
    graph = graph_of(raw)
    for number in range(4):
        inputs = drawn(graph, number)
        found = run_graph(graph, inputs)[graph.outputs[0].name].astype(np.int64)
        reals = [
            real(inputs[v.name], v.type.scale, v.type.zero_point) for v in graph.inputs
        ]  # scales as the graph has them; that those are the model's is tested below
        if np.abs(found - rounded(expected(*reals), *out)).max() > 1:
            return False
    return True


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("name", ONE)
def test_an_operator_of_one_tensor(name: str, kind: str) -> None:
    attributes, out, expected = ONE[name]
    model = Quantised(kind=kind)
    x = model.quantised_input(1, 3, 6, 4, name="x", scale=X[0], zero=X[1])
    y = model.scale(*out)
    last = model.node(name, *x, *y, scale=None, domain="com.microsoft", **attributes)
    assert is_within_a_step(model.finished(last, *out), expected, out)


POOLS: dict[str, tuple[int, dict[str, object]]] = {
    "one cell beyond the padding": (
        8,
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4},
    ),
    "beyond no padding": (7, {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "uneven pads": (9, {"kernel_shape": [4, 2], "strides": [3, 2], "pads": [1, 0, 0, 1]}),
    "strides that skip": (5, {"kernel_shape": [2, 2], "strides": [4, 3]}),
}


@pytest.mark.parametrize("channels_last", [0, 1])
@pytest.mark.parametrize("count_include_pad", [0, 1])
@pytest.mark.parametrize("ceil_mode", [0, 1])
@pytest.mark.parametrize("name", POOLS)
def test_cells_beyond_the_padding_of_an_average(
    name: str, ceil_mode: int, count_include_pad: int, channels_last: int
) -> None:
    """onnxruntime counts them in QLinearAveragePool, but not in AveragePool."""
    extent, window = POOLS[name]
    attributes = window | {"ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
    shape = (1, extent, extent, 2) if channels_last else (1, 2, extent, extent)
    model = Quantised(kind="uint8")
    x = model.quantised_input(*shape, name="x", scale=X[0], zero=X[1])
    last = model.node(
        "QLinearAveragePool", *x, *model.scale(0.03, 4), scale=None, domain="com.microsoft",
        channels_last=channels_last, **attributes,
    )  # fmt: skip
    assert worst_steps(model.finished(last, 0.03, 4)) <= 1


@pytest.mark.parametrize("shape", [(1, 3, 4, 5), (2, 6, 5)])
def test_a_global_average_of_channels_that_come_last(shape: tuple[int, ...]) -> None:
    model = Quantised()
    x = model.quantised_input(*shape, name="x", scale=X[0], zero=X[1])
    last = model.node(
        "QLinearGlobalAveragePool", *x, *model.scale(0.02, 4), scale=None, domain="com.microsoft",
        channels_last=1,
    )  # fmt: skip
    assert worst_steps(model.finished(last, 0.02, 4)) <= 1


def test_a_convolution_of_channels_that_come_last() -> None:
    rng = np.random.default_rng(3)
    model = Quantised(kind="uint8")
    x = model.quantised_input(1, 6, 5, 3, name="x", scale=X[0], zero=X[1])
    w = model.constant(rng.integers(-127, 128, (4, 3, 3, 2)).astype(np.int8))
    parts = model.constant(np.float32(0.002)), model.constant(np.int8(0))
    last = model.node(
        "QLinearConv", *x, w, *parts, *model.scale(*Y), scale=None, domain="com.microsoft",
        channels_last=1, pads=[1, 0, 1, 1],
    )  # fmt: skip
    assert worst_steps(model.finished(last, *Y)) <= 1


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("name", TWO)
def test_an_operator_of_two_tensors(name: str, kind: str) -> None:
    model = Quantised(kind=kind)
    a = model.quantised_input(1, 3, 4, 5, name="a", scale=X[0], zero=X[1])
    b = model.quantised_input(1, 3, 1, 1, name="b", scale=W[0], zero=W[1])
    last = model.node(name, *a, *b, *model.scale(*Y), scale=None, domain="com.microsoft")
    raw = model.finished(last, *Y)
    assert is_within_a_step(raw, TWO[name], Y)
    assert [(round(v.type.scale, 6), v.type.zero_point) for v in graph_of(raw).inputs] == [X, W]


def test_a_concatenation() -> None:
    model = Quantised(kind="uint8")
    a = model.quantised_input(1, 3, 4, 5, name="a", scale=X[0], zero=X[1])
    b = model.quantised_input(1, 2, 4, 5, name="b", scale=W[0], zero=W[1])
    y = model.scale(*Y)
    last = model.node("QLinearConcat", *y, *a, *b, scale=None, domain="com.microsoft", axis=1)
    raw = model.finished(last, *Y)
    assert is_within_a_step(raw, lambda a, b: np.concatenate([a, b], axis=1), Y)


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("channels", [1, 4], ids=["one scale", "a scale per channel"])
def test_a_convolution(kind: str, channels: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    model = Quantised(kind=kind)
    x = model.quantised_input(1, 3, 6, 5, name="x", scale=X[0], zero=X[1])
    w = model.constant(rng.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8))
    scales = (0.001 * (1 + np.arange(channels))).astype(np.float32)
    parts = model.constant(scales), model.constant(np.zeros(channels, np.int8))
    bias = model.constant(rng.integers(-2000, 2000, 4).astype(np.int32))
    last = model.node("QLinearConv", *x, w, *parts, *model.scale(*Y), bias, scale=None)
    found = judged(model.finished(last, *Y), tmp_path)
    assert found.comparison.mismatches == 0, found.comparison.first


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_a_matrix_product(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    model = Quantised(kind=kind)
    x = model.quantised_input(2, 7, name="x", scale=X[0], zero=X[1])
    matrix = rng.integers(-127, 128, (7, 5)).astype(np.int8)
    scales = (0.001 * (1 + np.arange(5))).astype(np.float32)
    w = model.constant(matrix)
    parts = model.constant(scales), model.constant(np.zeros(5, np.int8))
    last = model.node("QLinearMatMul", *x, w, *parts, *model.scale(*Y), scale=None)
    raw = model.finished(last, *Y)
    assert is_within_a_step(raw, lambda x: x @ (matrix * scales.astype(np.float64)), Y)
    assert kinds(graph_of(raw)) == ["FullyConnected"]


def test_a_matrix_product_with_scales_for_each_matrix() -> None:
    model = Quantised()
    x = model.quantised_input(2, 3, 7, name="x", scale=X[0], zero=X[1])
    w = model.constant(np.ones((2, 7, 5), np.int8))
    parts = (
        model.constant(np.full((2, 1, 5), 0.01, np.float32)),
        model.constant(np.zeros((2, 1, 5), np.int8)),
    )
    last = model.node("QLinearMatMul", *x, w, *parts, *model.scale(*Y), scale=None)
    with pytest.raises(UnsupportedError, match=r"scales of shape \[2, 1, 5\]"):
        graph_of(model.finished(last, *Y))


def test_a_gemm() -> None:
    rng = np.random.default_rng(3)
    model = Quantised(kind="uint8")
    x = model.quantised_input(2, 7, name="x", scale=X[0], zero=X[1])
    matrix = rng.integers(-127, 128, (5, 7)).astype(np.int8)
    bias = rng.integers(-2000, 2000, 5).astype(np.int32)
    parts = (model.constant(np.float32(0.002)), model.constant(np.int8(0)))
    last = model.node(
        "QGemm", *x, model.constant(matrix), *parts, model.constant(bias), *model.scale(*Y),
        scale=None, domain="com.microsoft", transB=1,
    )  # fmt: skip
    step = np.float64(np.float32(0.002))

    def expected(x: Array) -> Array:
        return x @ (matrix.T * step) + bias * step * np.float32(X[0])

    assert is_within_a_step(model.finished(last, *Y), expected, Y)


def test_weights_have_a_zero_point() -> None:
    model = Quantised()
    x = model.quantised_input(1, 1, 4, 4, name="x", scale=X[0], zero=X[1])
    w = model.constant(np.ones((1, 1, 1, 1), np.int8))
    parts = model.constant(np.float32(0.1)), model.constant(np.int8(3))
    last = model.node("QLinearConv", *x, w, *parts, *model.scale(*Y), scale=None)
    assert is_within_a_step(model.finished(last, *Y), lambda x: x * np.float32(0.1) * (1 - 3), Y)


def test_weights_that_float32_does_not_hold_are_refused() -> None:
    text = """<ir_version: 8, opset_import: ["" : 13]>
        net (int8[1,1,2,2] x) => (int8[1,2,2,2] y)
        <float[1] s = {0.05}, int8[1] z = {-3}, int8[2,1,1,1] w = {74, 108},
         float[2] each = {0.002, 3e+38}, int8[2] zeros = {0, 0}, int32[2] b = {1, 2}>
        { y = QLinearConv (x, s, z, w, each, zeros, s, z, b) }"""
    raw = onnx.parser.parse_model(text).SerializeToString()
    with pytest.raises(ModelError, match=r"input 1 reaches 3\.24e\+40, must stay below 2\*\*128"):
        graph_of(raw)
