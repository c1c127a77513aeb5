"""Operators that onnxruntime's optimisers and quantisers write, against onnxruntime."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from onnx_models import graph_of
from penstock.errors import UnsupportedError
from penstock.frontends.reading import Reading
from penstock.ir.tensor import Array
from penstock.simulators.graph import run_graph
from tools.onnx_writer import Model

REALS = Reading(same_interface=True)
Build = Callable[[Model], str]


def both(build: Build, opset: int = 17) -> tuple[Array, Array]:
    """What penstock and onnxruntime compute."""
    runtime = pytest.importorskip("onnxruntime")
    model = Model(opset=opset, quantised=False)
    raw = model.raw(build(model))
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(raw, options, providers=["CPUExecutionProvider"])
    graph, rng = graph_of(raw, REALS), np.random.default_rng(3)
    given = {v.name: rng.normal(0, 1, v.type.shape).astype(np.float32) for v in graph.inputs}
    (expected,) = session.run(None, given)
    return run_graph(graph, given)[graph.outputs[0].name], expected


def node(model: Model, name: str, *inputs: str, **given: object) -> str:
    return model.node(name, *inputs, domain="com.microsoft", scale=None, **given)  # pyright: ignore[reportArgumentType]


def integers(model: Model, *shape: int, dtype: str = "int8") -> str:
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(shape)
    return model.constant(rng.integers(limits.min, limits.max, shape).astype(dtype))


def number(model: Model, value: float, dtype: str = "float32") -> str:
    return model.constant(np.array(value, dtype))


CASES: dict[str, Build] = {
    "FusedMatMul": lambda m: node(
        m, "FusedMatMul", m.input(2, 3, 4), m.input(2, 5, 4, name="b"), transB=1, alpha=0.25
    ),
    "FusedMatMul of a constant": lambda m: node(
        m, "FusedMatMul", m.input(4, 3), m.reals(4, 5), transA=1
    ),
    "FusedGemm": lambda m: node(
        m,
        "FusedGemm",
        m.input(3, 4),
        m.reals(4, 5),
        m.reals(5),
        activation="LeakyRelu",
        activation_alpha=0.2,
        alpha=0.5,
    ),
    "FusedConv": lambda m: node(
        m,
        "FusedConv",
        m.input(1, 3, 6, 5),
        m.reals(4, 3, 3, 3),
        m.reals(4),
        m.input(1, 4, 4, 3, name="added"),
        activation="Relu",
    ),
    "FusedConv, clipped": lambda m: node(
        m,
        "FusedConv",
        m.input(1, 3, 6, 5),
        m.reals(4, 3, 3, 3),
        activation="Clip",
        activation_params=[-0.5, 0.5],
    ),
    "BiasGelu": lambda m: node(m, "BiasGelu", m.input(2, 3, 8), m.reals(8)),
    "FastGelu": lambda m: node(m, "FastGelu", m.input(2, 3, 8), m.reals(8)),
    "QuickGelu": lambda m: node(m, "QuickGelu", m.input(2, 3, 8), alpha=1.5),
    "SkipLayerNormalization": lambda m: node(
        m,
        "SkipLayerNormalization",
        m.input(2, 3, 8),
        m.input(2, 3, 8, name="skip"),
        m.reals(8),
        m.reals(8, seed=2),
        m.reals(8, seed=3),
        epsilon=1e-6,
    ),
    "SkipSimplifiedLayerNormalization": lambda m: node(
        m,
        "SkipSimplifiedLayerNormalization",
        m.input(2, 3, 8),
        m.input(2, 3, 8, name="skip"),
        m.reals(8),
        epsilon=1e-6,
    ),
    "SimplifiedLayerNormalization": lambda m: m.node(
        "SimplifiedLayerNormalization", m.input(2, 3, 8), m.reals(8), axis=-1, epsilon=1e-6
    ),
    "DynamicQuantizeMatMul": lambda m: node(
        m,
        "DynamicQuantizeMatMul",
        m.input(3, 12),
        integers(m, 12, 5),
        number(m, 0.02),
        number(m, 0, "int8"),
        m.reals(5),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_onnxruntimes(name: str) -> None:
    found, expected = both(CASES[name])
    assert np.unique(expected).size > 3
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


def test_products_of_integers_as_real_numbers() -> None:
    def build(model: Model) -> str:
        parts = [model.input(3, 12), number(model, 0.02), number(model, 7, "uint8")]
        a = model.node("QuantizeLinear", *parts)
        scales = number(model, 0.02), number(model, 0.03)
        zeros = parts[2], number(model, 0, "int8")
        weights = integers(model, 12, 5)
        return node(model, "MatMulIntegerToFloat", a, weights, *scales, *zeros, model.reals(5))

    np.testing.assert_allclose(*both(build), rtol=2e-5, atol=2e-6)


def test_an_activation_that_is_unknown_is_refused() -> None:
    model = Model(opset=17, quantised=False)
    activated = node(model, "FusedGemm", model.input(3, 4), model.reals(4, 5), activation="Cosh")
    with pytest.raises(UnsupportedError, match="FusedGemm"):
        graph_of(model.raw(activated), REALS)
