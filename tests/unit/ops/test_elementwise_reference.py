"""Element-wise operators against TensorFlow Lite Micro, over many scales and zero points."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from penstock.frontends.open import parse
from penstock.opkit.checks import LEAST_SCALE
from penstock.simulators.graph import run_graph
from penstock.simulators.tflite_micro import run_tflite_micro
from tools.tflite_writer import OperatorSpec, OptionValue, TensorSpec, write_tflite

pytest.importorskip("tflite_micro", reason="the extra 'reference' is not installed")

CASES = 8
SHAPE = (1, 2, 8, 16)
FIXED_OUTPUTS = {
    "LOGISTIC": (1 / 256, -128),
    "TANH": (1 / 128, 0),
    "L2_NORMALIZATION": (1 / 128, 0),
    "LOG_SOFTMAX": (1 / 16, 127),
    "SOFTMAX": (1 / 256, -128),
}
ONE_SCALE = {"MAXIMUM", "MINIMUM"}
COMPARISONS = {"LESS", "LESS_EQUAL", "EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL"}
UNARY: dict[str, Mapping[str, OptionValue]] = {
    "ABS": {},
    "HARD_SWISH": {},
    "L2_NORMALIZATION": {},
    "LEAKY_RELU": {"alpha": 0.3},
    "LOGISTIC": {},
    "LOG_SOFTMAX": {},
    "QUANTIZE": {},
    "RELU": {},
    "SOFTMAX": {"beta": 1.0},
    "TANH": {},
}
BINARY: dict[str, Mapping[str, OptionValue]] = {
    "ADD": {"fused_activation_function": "RELU"},
    "MAXIMUM": {},
    "MINIMUM": {},
    "MUL": {"fused_activation_function": "RELU6"},
    "PRELU": {},
    "SQUARED_DIFFERENCE": {},
    "SUB": {},
    **{name: {} for name in sorted(COMPARISONS)},
}


def spec(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> TensorSpec:
    """An int8 tensor with a scale between 0.01 and 0.3."""
    scale = float(np.float32(10 ** rng.uniform(-2, -0.5)))
    return TensorSpec(name, shape, scales=(scale,), zero_points=(int(rng.integers(-80, 80)),))


def like(name: str, shape: tuple[int, ...], other: TensorSpec) -> TensorSpec:
    return TensorSpec(name, shape, scales=other.scales, zero_points=other.zero_points)


def output(operator: str, case: int, x: TensorSpec, rng: np.random.Generator) -> TensorSpec:
    name = f"y{case}"
    if operator in COMPARISONS:
        return TensorSpec(name, x.shape, "bool")
    if operator in ONE_SCALE:
        return like(name, x.shape, x)
    if operator in FIXED_OUTPUTS:
        scale, zero_point = FIXED_OUTPUTS[operator]
        return TensorSpec(name, x.shape, scales=(scale,), zero_points=(zero_point,))
    return spec(name, x.shape, rng)


def model(operator: str, shapes: tuple[tuple[int, ...], ...]) -> tuple[bytes, int]:
    """`CASES` nodes of the operator beside one another, each with scales of its own; and the number
    of the model's inputs.  The first input has the shape of the output."""
    rng = np.random.default_rng([len(operator), ord(operator[0]), ord(operator[-1])])
    options = (UNARY | BINARY)[operator]
    tensors: list[TensorSpec] = []
    nodes: list[OperatorSpec] = []
    for case in range(CASES):
        operands = [spec(f"x{case}_{k}", shape, rng) for k, shape in enumerate(shapes)]
        if operator in ONE_SCALE or (operator in COMPARISONS and case % 2):
            operands = [like(x.name, x.shape, operands[0]) for x in operands]
        first = len(tensors)
        tensors += [*operands, output(operator, case, operands[0], rng)]
        last = len(tensors) - 1
        nodes.append(OperatorSpec(operator, tuple(range(first, last)), (last,), options))
    inputs = [k for node in nodes for k in node.inputs]
    return write_tflite(tensors, nodes, inputs, [n.outputs[0] for n in nodes]), len(inputs)


def assert_the_reference_agrees(operator: str, *shapes: tuple[int, ...]) -> None:
    model_bytes, count = model(operator, shapes)
    rng = np.random.default_rng(7)
    graph = parse(model_bytes, operator)
    inputs = tuple(
        rng.permutation(np.resize(np.arange(-128, 128), shapes[k % len(shapes)]).ravel())
        .reshape(shapes[k % len(shapes)])
        .astype(np.int8)
        for k in range(count)
    )
    ours = run_graph(graph, {v.name: x for v, x in zip(graph.inputs, inputs, strict=True)})
    answer = run_tflite_micro(model_bytes, inputs)
    telling = sum(np.unique(expected).size > 1 for expected in answer.outputs)
    assert telling >= 3, "most cases have one value everywhere and say nothing"
    for value, expected in zip(graph.outputs, answer.outputs, strict=True):
        found = ours[value.name]
        np.testing.assert_array_equal(found, expected, err_msg=f"{operator} {value.type}")


@pytest.mark.parametrize("operator", UNARY)
def test_functions_of_one_variable_are_the_references(operator: str) -> None:
    assert_the_reference_agrees(operator, SHAPE)


@pytest.mark.parametrize("operator", BINARY)
def test_functions_of_two_variables_are_the_references(operator: str) -> None:
    assert_the_reference_agrees(operator, SHAPE, SHAPE)


@pytest.mark.parametrize("operator", sorted(BINARY))
def test_a_second_operand_stretches_as_in_the_reference(operator: str) -> None:
    assert_the_reference_agrees(operator, SHAPE, (1, 1, 16) if operator == "PRELU" else (2, 1, 16))


@pytest.mark.parametrize("operator", ["ADD", "GREATER", "PRELU"])
def test_a_second_operand_of_rank_two_stretches_as_in_the_reference(operator: str) -> None:
    assert_the_reference_agrees(operator, SHAPE, SHAPE[2:])


@pytest.mark.parametrize("operator", sorted(BINARY.keys() - ONE_SCALE))
def test_an_operand_of_the_smallest_scale_is_read_as_in_the_reference(operator: str) -> None:
    """Converters give such scales to operands that are zero in all calibration data."""
    x = TensorSpec("x", SHAPE, scales=(0.1,), zero_points=(3,))
    tiny = TensorSpec(
        "tiny", SHAPE, scales=(float(np.float32(1.5 * LEAST_SCALE)),), zero_points=(-7,)
    )
    y = output(operator, 0, x, np.random.default_rng(1))
    node = OperatorSpec(operator, (0, 1), (2,), BINARY[operator])
    raw = write_tflite((x, tiny, y), (node,), (0, 1), (2,))
    rng = np.random.default_rng(7)
    inputs = tuple(rng.integers(-128, 128, SHAPE).astype(np.int8) for _ in range(2))
    graph = parse(raw, operator)
    ours = run_graph(graph, {v.name: x for v, x in zip(graph.inputs, inputs, strict=True)})
    answer = run_tflite_micro(raw, inputs)
    np.testing.assert_array_equal(ours[graph.outputs[0].name], answer.outputs[0])


MASK = float(np.float32(2.0**119.3))
LOWEST = 3.4028234e38  # The magnitude of the lowest number of single precision.
"""The scale of a mask of attention, which adds the lowest number of single precision."""


@pytest.mark.parametrize(
    ("operator", "scales", "zero"),
    [
        ("ADD", (0.1, MASK, MASK), 127),
        ("ADD", (0.1, LOWEST / 127, LOWEST / 255), 127),
        ("SUB", (MASK, 0.1, MASK), -128),
        ("MUL", (0.004, MASK, MASK / 256), 3),
        ("SOFTMAX", (MASK, 1 / 256), -128),
    ],
)
def test_masks_of_attention_are_read_as_in_the_reference(
    operator: str, scales: tuple[float, ...], zero: int
) -> None:
    *operands, last = [
        TensorSpec(f"t{k}", SHAPE, scales=(float(np.float32(scale)),), zero_points=(-7,))
        for k, scale in enumerate(scales)
    ]
    y = TensorSpec("y", SHAPE, scales=last.scales, zero_points=(zero,))
    places = tuple(range(len(operands)))
    options = {"beta": 1.0} if operator == "SOFTMAX" else {}
    node = OperatorSpec(operator, places, (len(operands),), options)
    raw = write_tflite((*operands, y), (node,), places, (len(operands),))
    rng = np.random.default_rng(7)
    inputs = tuple(rng.integers(-128, 128, SHAPE).astype(np.int8) for _ in operands)
    graph = parse(raw, operator)
    ours = run_graph(graph, {v.name: x for v, x in zip(graph.inputs, inputs, strict=True)})
    answer = run_tflite_micro(raw, inputs)
    assert np.unique(answer.outputs[0]).size > 1
    np.testing.assert_array_equal(ours[graph.outputs[0].name], answer.outputs[0])
