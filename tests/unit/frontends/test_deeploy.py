"""Deeploy's dialect, against its definition in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator
from onnx import numpy_helper

import deeploy_reference
from onnx_models import graph_of, kinds
from penstock.backends.operator_names import is_called
from penstock.errors import ModelError, UnsupportedError
from penstock.frontends.reading import Reading
from penstock.ir.tensor import DType
from penstock.simulators.graph import run_graph
from tools.onnx_writer import Model

RANGES = {"int8": (-128, 128), "uint8": (0, 256), "int32": (-20000, 20001)}


@dataclass
class Network:
    """A network of integers under construction; `dtype`: of its inputs."""

    seed: int = 0
    dtype: str = "int8"
    model: Model = field(default_factory=lambda: Model(opset=10, quantised=False))

    def __post_init__(self) -> None:
        self.rng: Generator = np.random.default_rng(self.seed)

    def input(self, *shape: int) -> str:
        return self.model.input(*shape, name=f"x{len(self.model.inputs)}")

    def integers(self, low: int, high: int, *shape: int) -> str:
        numbers = self.rng.integers(low, high, shape)
        return self.model.constant(numbers.astype(np.float32))

    def node(self, operator: str, *inputs: str, domain: str = "PACTOps", **given: Any) -> str:
        """A node, whose attributes that are real numbers are tensors, as quantlib exports them."""
        tensors: dict[str, Any] = {
            name: numpy_helper.from_array(np.array([value], np.float32), name)
            for name, value in given.items()
            if isinstance(value, float)
        }
        return self.model.node(operator, *inputs, domain=domain, **{**given, **tensors})

    def plain(self, operator: str, *inputs: str, **given: Any) -> str:
        return self.model.node(operator, *inputs, **given)

    def requantised(
        self, x: str, shape: tuple[int, ...] = (), low: int = 60, high: int = 900, **given: Any
    ) -> str:
        multiplier, addend = (
            self.integers(low, high, *shape),
            self.integers(-(2**20), 2**20, *shape),
        )
        stated: dict[str, Any] = {"div": 65536.0, "n_levels_out": 256.0, "signed": 1.0, **given}
        return self.node("RequantShift", x, multiplier, addend, **stated)

    def dense(self, x: str, depth: int, outputs: int, **given: Any) -> str:
        product = self.plain("MatMul", x, self.integers(-128, 128, depth, outputs))
        total = self.plain("Add", self.integers(-4000, 4000, outputs), product)
        return self.requantised(total, **given)

    def shaped(self, x: str, *shape: int) -> str:
        return self.plain("Reshape", x, self.model.constant(np.array(shape, np.int64)))

    def check(self, *outputs: str) -> list[str]:
        """Asserts that every output is as defined; returns the operators of the graph."""
        raw = self.model.raw(*outputs)
        names = [value.name for value in self.model.inputs]
        graph = graph_of(raw, Reading(integers=tuple((name, self.dtype) for name in names)))
        shapes = [value.type.shape for value in graph.inputs]
        given = [self.rng.integers(*RANGES[self.dtype], shape) for shape in shapes]
        offset = 128 if self.dtype == "uint8" else 0
        stored = [
            (x - offset).astype(value.type.dtype.value)
            for x, value in zip(given, graph.inputs, strict=True)
        ]
        found = run_graph(graph, dict(zip(names, stored, strict=True)))
        wanted = deeploy_reference.run(raw, dict(zip(names, given, strict=True)))
        for value, expected in zip(graph.outputs, wanted, strict=True):
            q = value.type.quantisation
            integers = found[value.name].astype(np.int64)
            integers = integers - q.zero_points[0] if q is not None else integers
            assert np.array_equal(integers, expected), value.name
            assert q is None or q.scales == (1.0,)
        return kinds(graph)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("seed", range(4))
def test_convolutions(dtype: str, seed: int) -> None:
    """Per channel, with negative multipliers and biases; grouped; with a residual connection."""
    new = Network(seed, dtype)
    x = new.input(1, 3, 9, 8)
    conv = new.plain("Conv", x, new.integers(-128, 128, 6, 3, 3, 3), pads=[1, 1, 1, 1])
    x = new.requantised(conv, (6, 1, 1), -900, 900, signed=0.0)
    pooled = new.plain("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    taps, bias = new.integers(-128, 128, 6, 1, 3, 3), new.integers(-9000, 9000, 6)
    conv = new.plain("Conv", pooled, taps, bias, group=6, pads=[1, 1, 1, 1])
    y = new.requantised(conv, (1, 6, 1, 1), signed=float(seed % 2))
    conv = new.plain("Conv", y, new.integers(-128, 128, 6, 6, 1, 1))
    y = new.requantised(conv, (6,), div=131072.0)
    again = new.requantised(pooled, low=20000, high=40000)
    total = new.requantised(new.plain("Add", again, y), low=20000, high=60000)
    flat = new.plain("Flatten", total, axis=1)
    weights, offset = new.integers(-128, 128, 5, 96), new.integers(-4000, 4000, 5)
    last = new.plain("Gemm", flat, weights, offset, alpha=1.0, beta=1.0, transB=1)
    found = new.check(new.requantised(last, (1, 5)))
    assert {"Conv2D", "DepthwiseConv2D", "FullyConnected"} <= set(found)
    assert not any(kind.startswith("Plain") for kind in found)


@pytest.mark.parametrize("softmax", ["iSoftmax", "ITAMax", "ITAPartialMax"])
@pytest.mark.parametrize("norm", ["iLayerNorm", "iRMSNorm"])
def test_transformers(softmax: str, norm: str) -> None:
    new = Network(3)
    x = new.input(1, 12, 16)
    queries, keys, values = (
        new.plain("Transpose", new.shaped(new.dense(x, 16, 16), 1, 12, 4, 4), perm=order)
        for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
    )
    scores = new.requantised(new.plain("MatMul", queries, keys), low=500)
    scores = new.node("TrueIntegerDiv", scores, Delta=16384, eps=1, eta=2000, y=2)
    scores = new.requantised(scores, low=7, high=9)
    every: dict[str, dict[str, Any]] = {
        "iSoftmax": {"coeffA": 1.0, "coeffB": 84.0, "coeffC": 3735.0, "log2": 62.0},
        "ITAMax": {},
        "ITAPartialMax": {"group_width": 4},
    }
    weights = new.node(softmax, scores, n_levels=256.0, **every[softmax])
    y = new.requantised(new.plain("MatMul", weights, values))
    y = new.shaped(new.plain("Transpose", y, perm=[0, 2, 1, 3]), 1, 12, 16)
    total = new.plain("Add", new.requantised(x, low=20000, high=40000), new.dense(y, 16, 16))
    parameters = [new.integers(2**20, 2**22, 16)]
    parameters += [new.integers(-9000, 9000, 16)] if norm == "iLayerNorm" else []
    y = new.requantised(total, low=20000, high=60000)
    y = new.node(norm, y, *parameters, D=65536.0, n_levels=256.0)
    bent = new.node("iGELU", new.dense(y, 16, 24), b=-40, one=1743)
    gate = new.node("iHardswish", new.dense(y, 16, 24), one_over_six=42, six=245, three=122)
    product = new.plain(
        "Mul", new.requantised(bent, low=5, high=9), new.requantised(gate, low=3, high=9)
    )
    y = new.dense(new.requantised(product, low=700), 24, 16)
    y = new.node("IntegerMean", y, axes=1 if softmax == "ITAMax" else [1], keepdims=0)
    assert "BatchMatmul" in new.check(new.requantised(y, low=60000, high=70000))


def test_outputs_of_32_bits() -> None:
    new = Network(5)
    x = new.input(2, 8)
    swish = new.node("iHardswish", x, one_over_six=33, six=1530, three=765)
    sums = new.plain("MatMul", x, new.integers(-128, 128, 8, 3))
    rows = new.plain("Sub", new.requantised(x), x)
    new.check(swish, sums, rows)


def test_parameters_of_rows_and_of_channels_of_sums() -> None:
    new = Network(6)
    x = new.input(5, 9)
    offset = new.integers(-4000, 4000, 5, 7)
    product = new.plain("Gemm", x, new.integers(-128, 128, 9, 7), offset, alpha=2.0, beta=3.0)
    y = new.requantised(product, (5, 1))
    new.check(y, new.requantised(new.plain("Add", y, y), (1, 7), 20000, 40000))


@pytest.mark.parametrize("seed", range(3))
def test_signals_and_few_levels(seed: int) -> None:
    new = Network(seed, "uint8")
    x = new.input(1, 4, 11)
    conv = new.plain("Conv", x, new.integers(-128, 128, 6, 4, 3), strides=[2])
    few = new.requantised(conv, (6, 1), low=4, high=30, n_levels_out=16.0, signed=float(seed % 2))
    new.check(few, new.requantised(few, (6, 1), 2**18, 2**20, n_levels_out=64.0))


def test_norms_of_elements() -> None:
    new = Network(8)
    x = new.input(1, 6, 7)
    parameters = new.integers(-128, 128, 6, 7), new.integers(-5000, 5000, 7)
    new.check(new.node("iNoNorm", x, *parameters, D=65536.0, mul=425.0, n_levels=256.0))


def test_inputs_of_32_bits() -> None:
    new = Network(9, "int32")
    x = new.requantised(new.input(1, 6, 7), low=300)
    concat = new.plain("Concat", x, x, axis=1)
    new.check(new.requantised(concat, low=20000, high=40000))


def test_divisors_of_one_do_not_round() -> None:
    new = Network(10)
    x = new.input(3, 4)
    new.check(new.requantised(x, low=1, high=3, div=1.0), new.requantised(x, (4,), 1, 3, div=1.0))


@pytest.mark.parametrize("domain", ["", "ai.onnx.contrib"])
def test_domains_of_other_exporters(domain: str) -> None:
    new = Network(11)
    x = new.input(2, 4)
    parameters = new.integers(500, 600), new.integers(-5, 5)
    given = {"div": 1024.0, "n_levels_out": 256.0, "signed": 0.0}
    new.check(new.node("RequantShift", x, *parameters, domain=domain, **given))


def test_inputs_hold_int8_by_default() -> None:
    new = Network(12)
    graph = graph_of(new.model.raw(new.requantised(new.input(2, 4))))
    (x,) = graph.inputs
    assert (x.type.dtype, x.type.scale, x.type.zero_point) == (DType.INT8, 1.0, 0)


def test_no_name_of_a_backend_denotes_layers_that_state_their_multipliers() -> None:
    new = Network(13)
    conv = new.plain("Conv", new.input(1, 3, 4, 4), new.integers(-9, 9, 2, 3, 1, 1))
    graph = graph_of(new.model.raw(new.requantised(conv)))
    (node,) = (node for node in graph.nodes if node.kind == "Conv2D")
    names = ("Conv2D", "CONV_2D", "nn.conv2d", "qnn.conv2d")
    assert not any(is_called(name, node) for name in names)


def _wrong(change: Callable[[Network, str], str]) -> bytes:
    new = Network(14)
    return new.model.raw(change(new, new.input(2, 4)))


Change = Callable[[Network, str], str]
REFUSED: tuple[tuple[Change, str], ...] = (
    (lambda new, x: new.requantised(x, div=48.0), "div is 48, must be a power of two"),
    (lambda new, x: new.requantised(x, n_levels_out=300.0), "n_levels is 300"),
    (lambda new, x: new.requantised(x, n_levels_out=15.0), "must be even"),
    (lambda new, x: new.requantised(x, div=float("inf")), "div is inf, must be an integer"),
    (
        lambda new, x: new.node("iHardswish", x, one_over_six=2**20, six=2**20, three=5),
        "must fit int32",
    ),
    (lambda new, x: new.requantised(x, (2, 4)), "differ along several axes"),
    (
        lambda new, x: new.requantised(
            new.plain("MatMul", x, new.model.constant(np.full((4, 3), 0.5, np.float32)))
        ),
        "holds other numbers than integers",
    ),
    (
        lambda new, x: new.requantised(new.node("iGELU", new.plain("Add", x, x), b=-40, one=9)),
        "must be elements of 8 bits",
    ),
    (
        lambda new, x: new.node("iRMSNorm", x, x, D=4.0, n_levels=256.0),
        "is computed, must be constant",
    ),
    (lambda new, x: new.requantised(new.plain("Exp", x)), "Exp: .* holds real numbers"),
    (
        lambda new, x: new.requantised(new.plain("Neg", new.plain("Exp", x))),
        "Exp: .* holds real numbers",
    ),
)


@pytest.mark.parametrize(("change", "why"), REFUSED)
def test_what_has_no_form_on_integers_is_refused(change: Change, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        graph_of(_wrong(change))


@pytest.mark.parametrize("operator", ["iLayerNorm", "iRMSNorm", "RequantShift", "iNoNorm"])
def test_missing_inputs_are_malformed(operator: str) -> None:
    given: dict[str, Any] = {"D": 4.0, "n_levels": 256.0, "div": 4.0, "mul": 3.0, "signed": 1.0}
    with pytest.raises(ModelError, match="it has 1 inputs, must have"):
        graph_of(_wrong(lambda new, x: new.node(operator, x, **given)))


def test_missing_attributes_are_malformed() -> None:
    def change(new: Network, x: str) -> str:
        return new.node("RequantShift", x, new.integers(1, 2), new.integers(1, 2), signed=1.0)

    with pytest.raises(ModelError, match="no number as attribute div"):
        graph_of(_wrong(change))
