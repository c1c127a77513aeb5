"""Operators that TFLite and ONNX define: one class, two numerics, and the kernels of each."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.small_tensors import int8
from offloading import assert_exact, claimed, compiled
from onnx_models import graph_of
from penstock.backends.pattern import is_op, wildcard
from penstock.backends.pattern_matching import matches
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Value
from penstock.ir.tensor import Quantisation
from penstock.opkit.lookup import Lookup, Numerics
from penstock.ops.unary import Abs, Exp, Gelu, HardSwish, LeakyRelu, Logistic, Tanh
from strategies import node_of
from tools.onnx_writer import Model

REAL = Numerics.REAL
TWINS: dict[str, tuple[Lookup, Callable[[float], float]]] = {
    "Abs": (Abs(REAL), abs),
    "Exp": (Exp(REAL), math.exp),
    "Gelu": (Gelu(False, REAL), lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2),
    "HardSwish": (HardSwish(REAL), lambda x: x * min(6.0, max(0.0, x + 3)) / 6),
    "LeakyRelu": (LeakyRelu(0.01, REAL), lambda x: max(x, 0.01 * x)),
    "Sigmoid": (Logistic(REAL), lambda x: 1 / (1 + math.exp(-x))),
    "Tanh": (Tanh(REAL), math.tanh),
}


@pytest.mark.parametrize("name", TWINS)
def test_an_onnx_function_that_tflite_has_is_the_same_operator(name: str) -> None:
    model = Model()
    graph = graph_of(model.raw(model.node(name, model.input(1, 3, 6, 5), scale=1 / 64)))
    assert [node.op for node in graph.nodes] == [TWINS[name][0]]


@pytest.mark.parametrize("name", TWINS)
def test_real_numerics_are_within_half_a_step_of_the_function(name: str) -> None:
    op, function = TWINS[name]
    x, y = int8(2, 3, scale=0.03, zero=5), int8(2, 3, scale=1 / 30, zero=-100)
    exact = np.array([function(0.03 * (e - 5)) * 30 - 100 for e in range(-128, 128)])
    assert np.abs(op.table(x, y) - np.clip(exact, -128, 127)).max() <= 0.5 + 1e-9


def test_a_pattern_matches_both_numerics_unless_it_asks_for_one() -> None:
    x = Value("x", int8(1, 4))
    either = is_op("sigmoid")(wildcard())
    tflite = either.has_attr({"numerics": "TFLITE"})
    for numerics in Numerics:
        node = node_of("y", Logistic(numerics), (x,))
        assert matches(either, node, {"y": node})
        assert bool(matches(tflite, node, {"y": node})) is (numerics is Numerics.TFLITE)


@pytest.mark.parametrize("name", ["HardSwish", "LeakyRelu", "Sigmoid", "Tanh"])
def test_ethos_u_runs_real_numerics_exactly(name: str) -> None:
    """A table of the NPU holds the results of either numerics."""
    pytest.importorskip("ethosu.vela.api", reason="the package ethos-u-vela is not installed")
    op, _ = TWINS[name]
    net = GraphBuilder("net")
    x = net.input((1, 5, 7, 18), scale=0.05)
    y = net.apply(op, x, quantisation=Quantisation((1 / 100,), (-20,)), name="y")
    done = compiled(net.build(y), "ethos_u55")
    assert list(claimed(done.graph)) == ["y"]
    assert_exact(done, "machine")
