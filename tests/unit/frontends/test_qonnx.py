"""QONNX's quantisers, against their definition in NumPy and the specification's table of rounding
modes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from onnx_models import graph_of, kinds
from penstock.errors import ModelError, UnsupportedError
from penstock.frontends.reading import Reading
from penstock.ir.tensor import Array, DType
from penstock.simulators.graph import run_graph
from tools.onnx_writer import Model

DOMAIN = "qonnx.custom_op.general"
REALS = Reading(same_interface=True)
Number = Array | np.float32
ROUNDED: Mapping[str, Callable[[Array], Array]] = {
    "ROUND": np.round,
    "HALF_EVEN": np.round,
    "CEIL": np.ceil,
    "FLOOR": np.floor,
    "UP": lambda x: np.sign(x) * np.ceil(np.abs(x)),
    "DOWN": np.trunc,
    "HALF_UP": lambda x: np.sign(x) * np.floor(np.abs(x) + np.float32(0.5)),
    "HALF_DOWN": lambda x: np.sign(x) * np.ceil(np.abs(x) - np.float32(0.5)),
}
TABLE = {
    "ROUND": (6, 2, 2, 1, 1, -1, -1, -2, -2, -6),
    "CEIL": (6, 3, 2, 2, 1, -1, -1, -1, -2, -5),
    "FLOOR": (5, 2, 1, 1, 1, -1, -2, -2, -3, -6),
    "UP": (6, 3, 2, 2, 1, -1, -2, -2, -3, -6),
    "DOWN": (5, 2, 1, 1, 1, -1, -1, -1, -2, -5),
    "HALF_UP": (6, 3, 2, 1, 1, -1, -1, -2, -3, -6),
    "HALF_DOWN": (5, 2, 2, 1, 1, -1, -1, -2, -2, -5),
}
TABLE_INPUTS = (5.5, 2.5, 1.6, 1.1, 1.0, -1.0, -1.1, -1.6, -2.5, -5.5)


def limits(bits: int, signed: int, narrow: int) -> tuple[int, int]:
    if signed:
        return narrow - 2 ** (bits - 1), 2 ** (bits - 1) - 1
    return 0, 2**bits - 1 - narrow


def quantised(
    x: Array, scale: Number, zero: Number, bits: int, signed: int, narrow: int, mode: str
) -> Array:
    lower, upper = (np.float32(bound) for bound in limits(bits, signed, narrow))
    steps = np.clip(x / scale + zero, lower, upper)
    return (ROUNDED[mode](steps) - zero) * scale


def quantiser(
    model: Model,
    x: str,
    scale: object,
    zero: object = 0.0,
    bits: float = 8,
    name: str = "Quant",
    domain: str = DOMAIN,
    **attributes: object,
) -> str:
    parts = (np.array(part, np.float32) for part in (scale, zero, bits))
    constants = map(model.constant, parts)
    return model.node(name, x, *constants, domain=domain, scale=None, **attributes)


def only_quantiser(shape: tuple[int, ...], *numbers: object, **attributes: object) -> bytes:
    model = Model(quantised=False)
    return model.raw(quantiser(model, model.input(*shape), *numbers, **attributes))


def computed(raw: bytes, x: Array) -> Array:
    graph = graph_of(raw, REALS)
    return run_graph(graph, {graph.inputs[0].name: x})[graph.outputs[0].name]


def reals(*shape: int, seed: int = 0, size: float = 3.0) -> Array:
    """Real numbers, and halves of 1 / 16, whose rounding the modes decide."""
    rng = np.random.default_rng(seed)
    halves = rng.integers(-99, 99, shape).astype(np.float32) / 32
    return np.where(rng.random(shape) < 0.5, halves, rng.normal(0, size, shape)).astype(np.float32)


@pytest.mark.parametrize("mode", TABLE)
def test_rounding_modes_are_those_of_the_specification(mode: str) -> None:
    raw = only_quantiser((1, 10), 1.0, signed=1, rounding_mode=mode.lower())
    found = computed(raw, np.array([TABLE_INPUTS], np.float32))
    assert found.ravel().tolist() == list(TABLE[mode])


@pytest.mark.parametrize("mode", ROUNDED)
@pytest.mark.parametrize(("signed", "narrow"), [(1, 0), (1, 1), (0, 0), (0, 1)])
@pytest.mark.parametrize(("bits", "zero"), [(8, 0.0), (4, 0.0), (3, 2.0), (8, 0.5), (11, 0.0)])
def test_inputs_are_rounded_as_defined(
    mode: str, signed: int, narrow: int, bits: int, zero: float
) -> None:
    x = reals(1, 4, 5, 6)
    raw = only_quantiser(
        x.shape, 0.0625, zero, bits, signed=signed, narrow=narrow, rounding_mode=mode
    )
    parts = (np.float32(0.0625), np.float32(zero), bits, signed, narrow, mode)
    assert np.array_equal(computed(raw, x), quantised(x, *parts))


def test_divisions_are_rounded_as_the_reference_rounds_them() -> None:
    """The reciprocal of 0.1 would yield other multiples of a step than the division."""
    x = (np.arange(-64, 64, dtype=np.float32) * np.float32(0.1)).reshape(1, 128)
    raw = only_quantiser(x.shape, 0.1, signed=1, rounding_mode="FLOOR")
    expected = quantised(x, np.float32(0.1), np.float32(0), 8, 1, 0, "FLOOR")
    assert np.array_equal(computed(raw, x), expected)


def test_scales_of_channels() -> None:
    x = reals(2, 3, 4, 4)
    scale = np.array([0.5, 0.02, 0.125], np.float32).reshape(1, 3, 1, 1)
    raw = only_quantiser(x.shape, scale, 0.0, 6, signed=1, rounding_mode="ROUND")
    expected = quantised(x, scale, np.float32(0), 6, 1, 0, "ROUND")
    assert np.array_equal(computed(raw, x), expected)


@pytest.mark.parametrize(("name", "domain"), [("IntQuant", DOMAIN), ("Quant", "onnx.brevitas")])
def test_names_and_domains(name: str, domain: str) -> None:
    x = reals(1, 7)
    raw = only_quantiser(x.shape, 0.25, name=name, domain=domain, signed=1)
    expected = quantised(x, np.float32(0.25), np.float32(0), 8, 1, 0, "ROUND")
    assert np.array_equal(computed(raw, x), expected)


@pytest.mark.parametrize("scale", [1.0, 0.375])
def test_signs(scale: float) -> None:
    x = np.array([[-2.5, -1e-30, -0.0, 0.0, 1e-30, 0.5, 7]], np.float32)
    model = Model(quantised=False)
    parts = model.input(*x.shape), model.constant(np.array(scale, np.float32))
    raw = model.raw(model.node("BipolarQuant", *parts, domain=DOMAIN))
    signs = np.where(x >= 0, np.float32(scale), -np.float32(scale))
    assert np.array_equal(computed(raw, x), signs)
    one_bit = only_quantiser(x.shape, scale, 0.0, 1, signed=1)
    assert np.array_equal(computed(one_bit, x), signs)


@pytest.mark.parametrize("mode", ["FLOOR", "CEIL", "ROUND"])
def test_truncations(mode: str) -> None:
    """Of 10 bits to 6: by a shift, and by the ratio of two scales, which clamps."""
    step = np.float32(0.125)
    x = (np.arange(-512, 512, dtype=np.float32) * step).reshape(1, 1024)
    cut = ROUNDED[mode](x / step / 16)
    model = Model(quantised=False)
    parts = (np.array(n, np.float32) for n in (step, 0, 10, 6))
    inputs = (model.input(*x.shape), *map(model.constant, parts))
    raw = model.raw(model.node("Trunc", *inputs, domain=DOMAIN, rounding_mode=mode))
    assert np.array_equal(computed(raw, x), cut * step)
    model = Model(quantised=False)
    parts = (np.array(n, np.float32) for n in (step, 0, 10, step * 16, 5))
    inputs = (model.input(*x.shape), *map(model.constant, parts))
    raw = model.raw(model.node("Trunc", *inputs, domain=DOMAIN, rounding_mode=mode, signed=1))
    expected = ROUNDED[mode](np.clip(x / step / 16, -16, 15)) * step * 16
    assert np.array_equal(computed(raw, x), expected)


def network(bits: int, domain: str = "onnx.brevitas") -> bytes:
    """A convolution, a normalisation and a layer as exporters write them."""
    rng = np.random.default_rng(bits)
    model = Model(opset=11, quantised=False)
    x = quantiser(model, model.input(1, 3, 8, 8), 0.03125, bits=8, domain=domain, signed=1)
    drawn = model.constant(rng.normal(0, 0.2, (4, 3, 3, 3)).astype(np.float32))
    scales = rng.uniform(0.02, 0.1, (4, 1, 1, 1)).astype(np.float32)
    common = {"domain": domain, "rounding_mode": "ROUND"}
    weights = quantiser(model, drawn, scales, bits=bits, signed=1, narrow=1, **common)
    y = model.node("Conv", x, weights, pads=[1] * 4)
    parts = (rng.uniform(0.5, 1.5, 4), rng.normal(0, 1, 4), rng.normal(0, 1, 4), np.ones(4))
    y = model.node("BatchNormalization", y, *(model.constant(p.astype(np.float32)) for p in parts))
    y = quantiser(model, model.node("Relu", y), 0.2, bits=bits, signed=0, narrow=0, **common)
    flat = model.node("Flatten", y)
    drawn = model.constant(rng.normal(0, 0.2, (5, 256)).astype(np.float32))
    weights = quantiser(model, drawn, 0.1, bits=bits, signed=1, narrow=1, **common)
    turned = model.node("Transpose", weights, perm=[1, 0])
    y = model.node("MatMul", flat, turned)
    return model.raw(quantiser(model, y, 0.25, bits=8, signed=1, **common))


@pytest.mark.parametrize("bits", [8, 4, 2])
def test_layers_of_quantised_tensors_compute_on_integers(bits: int) -> None:
    graph = graph_of(network(bits))
    assert {v.type.dtype for v in graph.variables()} == {DType.INT8}
    assert {"Conv2D", "FullyConnected"} <= set(kinds(graph))


def test_weights_keep_their_values_and_fill_their_bytes() -> None:
    """So that the accumulators, to which biases are rounded, are as fine as possible."""
    graph = graph_of(network(3))
    (conv,) = (node for node in graph.nodes if node.kind == "Conv2D")
    elements = conv.site.constant(1)
    assert 64 <= np.abs(elements.astype(int)).max() <= 127
    assert set(np.unique(np.abs(elements))) == {0, 32, 64, 96}


def test_a_normalisation_of_a_dead_channel_is_folded() -> None:
    """Training leaves variances and factors that are denormal numbers."""
    model = Model(opset=11, quantised=False)
    x = quantiser(model, model.input(1, 2, 4, 4), 0.1, signed=1)
    drawn = model.constant(np.random.default_rng(0).normal(0, 0.2, (2, 2, 1, 1)).astype(np.float32))
    weights = quantiser(model, drawn, np.array([1e-12, 0.01]).reshape(2, 1, 1, 1), signed=1)
    y = model.node("Conv", x, weights)
    parts = ([-1e-41, 0.5], [-0.3, 0.1], [0.1, 0.1], [5e-45, 1.0])
    y = model.node(
        "BatchNormalization", y, *(model.constant(np.array(p, np.float32)) for p in parts)
    )
    raw = model.raw(quantiser(model, y, 0.01, signed=1))
    found = computed(raw, reals(1, 2, 4, 4))
    assert np.allclose(found[0, 0], -0.3, atol=0.006)
    assert np.abs(found[0, 1] - 0.05).max() > 0.01


@pytest.mark.parametrize("width", [0.0, 2.5, 33.0])
def test_a_bit_width_that_is_none_is_named(width: float) -> None:
    with pytest.raises(UnsupportedError, match=f"its bit width is {width:g}, must be"):
        graph_of(only_quantiser((1, 4), 1.0, 0.0, width, signed=1))


def test_bit_widths_of_channels_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="2 bit widths"):
        graph_of(only_quantiser((1, 2), 1.0, 0.0, [4.0, 8.0], signed=1))


def test_an_unknown_rounding_mode_is_named() -> None:
    with pytest.raises(UnsupportedError, match="rounding_mode is ODD"):
        graph_of(only_quantiser((1, 4), 1.0, signed=1, rounding_mode="odd"))


def test_a_missing_input_is_named() -> None:
    model = Model(quantised=False)
    raw = model.raw(model.node("BipolarQuant", model.input(1, 4), domain=DOMAIN))
    with pytest.raises(ModelError, match="it has 1 inputs, must have 2"):
        graph_of(raw)
