"""LSTM nodes of TFLite files: refusals, and the order of axes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from penstock.errors import ModelError
from penstock.frontends.open import parse
from tools.lstm_network import LayerSpec, LstmNetwork
from tools.tflite_writer import OperatorSpec

INPUT_WEIGHTS, RECURRENT, PEEPHOLE, BIAS = 1, 5, 9, 12
PROJECTION, HIDDEN, CELL, NORM = 16, 18, 19, 20
"""Positions of inputs."""
ANY_CONSTANT = 1
"""Index of a tensor that stands where a variant has one."""


def network(**changes: object) -> LstmNetwork:
    net = LstmNetwork(np.random.default_rng(0))
    layer = replace(LayerSpec(4), **changes)  # pyright: ignore[reportArgumentType]
    net.lstm(net.input((1, 3, 5), 0.1, 0), layer)
    return net


def refusal(net: LstmNetwork) -> ModelError:
    with pytest.raises(ModelError) as caught:
        parse(net.tflite(0, len(net.tensors) - 1), "m.tflite")
    return caught.value


def operand(k: int, tensor: int) -> Callable[[OperatorSpec], OperatorSpec]:
    """Replaces input k of the operator."""
    return lambda op: replace(op, inputs=(*op.inputs[:k], tensor, *op.inputs[k + 1 :]))


def option(name: str, value: int | str) -> Callable[[OperatorSpec], OperatorSpec]:
    return lambda op: replace(op, options={**op.options, name: value})


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (operand(PEEPHOLE, ANY_CONSTANT), "peephole connections"),
        (operand(PROJECTION, ANY_CONSTANT), "a projection"),
        (operand(NORM + 2, ANY_CONSTANT), "layer normalisation"),
        (operand(INPUT_WEIGHTS, -1), "coupled to the forget gate"),
        (option("fused_activation_function", "RELU"), "activation is RELU"),
        (option("diagonal_recurrent_tensors", 1), "recurrent weights are diagonal"),
    ],
)
def test_variants_are_refused(change: Callable[[OperatorSpec], OperatorSpec], cause: str) -> None:
    net = network()
    net.operators[0] = change(net.operators[0])
    error = refusal(net)
    assert error.code == "model-020"
    assert cause in error.what
    assert "TensorFlow Lite Micro supports no other" in error.help


@pytest.mark.parametrize(
    ("k", "changes", "cause"),
    [
        (CELL, {"scales": (0.0003,)}, "must have a power of two"),
        (CELL, {"zero_points": (1,)}, "must have a power of two"),
        (CELL, {"scales": (2.0**-30,)}, "must have a power of two"),
        (CELL, {"is_variable": False}, "is not a variable tensor"),
        (CELL, {"dtype": "int8"}, "cell state is int8, must be int16"),
        (CELL, {"shape": (2, 4)}, "cell state has 8 elements, must have 1 x 4"),
        (HIDDEN, {"shape": (4, 2)}, "hidden state has 8 elements"),
        (HIDDEN, {"dtype": "int16"}, "hidden state is int16, must be int8"),
        (0, {"dtype": "int16"}, "input is int16, must be int8"),
        (0, {"shape": (3, 5)}, "its rank must be 3"),
        (0, {"shape": (1, 3, 6)}, "contradict each other"),
        (INPUT_WEIGHTS, {"zero_points": (2,)}, "zero point 2, must be 0"),
        (INPUT_WEIGHTS, {"data": None}, "is computed, must be constant"),
        (INPUT_WEIGHTS, {"scales": (0.1,) * 4, "zero_points": (0,) * 4}, "have 4 scales"),
        (RECURRENT, {"data": np.zeros((3, 4), np.int8), "shape": (3, 4)}, "have shapes"),
        (BIAS, {"data": np.full(4, 2**31 - 1, np.int32)}, "must fit int32"),
        (INPUT_WEIGHTS, {"scales": (1e6,)}, "output's scale, must stay below"),
        (HIDDEN, {"scales": (3e-10,)}, "times the next power of two below"),
    ],
)
def test_operands_that_contradict_the_specification_are_refused(
    k: int, changes: dict[str, object], cause: str
) -> None:
    net = network()
    index = net.operators[0].inputs[k]
    net.tensors[index] = replace(net.tensors[index], **changes)  # pyright: ignore[reportArgumentType]
    error = refusal(net)
    assert cause in error.what


def test_the_clip_is_quantised_as_the_reference_does_it() -> None:
    for clip, exponent, expected in (
        (0.0, -12, 2**15), (1.0, -12, 4096), (0.7, -11, 1433), (100.0, -12, 2**15 - 1),
    ):  # fmt: skip
        net = network(cell_clip=clip, cell_exponent=exponent)
        graph = parse(net.tflite(0, len(net.tensors) - 1), "m.tflite")
        found = next(node.op for node in graph.nodes if node.kind == "Lstm")
        assert getattr(found, "clip", None) == expected
