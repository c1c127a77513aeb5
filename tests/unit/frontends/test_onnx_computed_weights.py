"""Convolutions whose weights are inputs of the model or computed: judged by onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from onnx_judge import judged_by_onnxruntime
from onnx_models import graph_of
from penstock.errors import UnsupportedError
from tools.onnx_writer import Model

Case = tuple[tuple[int, ...], tuple[int, ...], Mapping[str, Any]]


def layer(operator: str, case: Case, bias: int = 0) -> Model:
    x, w, attributes = case
    model = Model(quantised=False)
    inputs = [model.input(*x, name="x"), model.node("Neg", model.input(*w, name="w"))]
    if bias:
        inputs.append(model.input(bias, name="b"))
    model.output(model.node(operator, *inputs, **attributes))
    return model


CONVOLUTIONS: Mapping[str, Case] = {
    "pixels": ((1, 3, 4, 5), (4, 3, 1, 1), {}),
    "windows": ((2, 3, 6, 5), (4, 3, 3, 2), {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
    "dilated": ((1, 3, 7, 7), (4, 3, 2, 3), {"dilations": [3, 2]}),
    "groups": ((1, 4, 5, 5), (6, 2, 3, 3), {"group": 2, "auto_pad": "SAME_UPPER",
                                            "strides": [2, 2]}),
    "depthwise": ((1, 4, 5, 5), (4, 1, 3, 3), {"group": 4, "auto_pad": "SAME_LOWER"}),
    "signal": ((1, 4, 9), (3, 4, 2), {"strides": [2]}),
    "volume": ((1, 2, 3, 4, 5), (3, 2, 2, 3, 2), {}),
}  # fmt: skip


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolutions(case: str) -> None:
    model = layer("Conv", CONVOLUTIONS[case], CONVOLUTIONS[case][1][0])
    assert judged_by_onnxruntime(model.raw()).steps <= 1


TRANSPOSED: Mapping[str, Case] = {
    "pixels": ((1, 3, 2, 3), (3, 4, 1, 1), {}),
    "windows": ((2, 3, 4, 5), (3, 4, 3, 2), {"pads": [1, 0, 2, 1], "strides": [2, 3],
                                             "output_padding": [1, 2]}),
    "beyond the window": ((1, 3, 4, 5), (3, 4, 2, 2), {"pads": [2, 2, 0, 1], "strides": [3, 3]}),
    "dilated": ((1, 3, 3, 3), (3, 2, 2, 3), {"dilations": [3, 2]}),
    "groups": ((1, 4, 3, 3), (4, 3, 3, 3), {"group": 2, "auto_pad": "SAME_UPPER",
                                            "strides": [2, 2]}),
    "shape": ((1, 2, 3, 3), (2, 3, 3, 3), {"output_shape": [6, 5], "strides": [2, 2]}),
    "signal": ((1, 4, 5), (4, 3, 2), {"strides": [2]}),
    "volume": ((1, 2, 2, 3, 2), (2, 3, 2, 3, 2), {"strides": [1, 2, 1]}),
}  # fmt: skip


@pytest.mark.parametrize("case", TRANSPOSED)
def test_transposed_convolutions(case: str) -> None:
    model = layer("ConvTranspose", TRANSPOSED[case])
    assert judged_by_onnxruntime(model.raw()).steps <= 1


def test_weights_that_constants_determine_are_constant() -> None:
    model = Model(quantised=False)
    w = model.node("Mul", model.reals(4, 3, 3, 3), model.reals(4, 1, 1, 1))
    y = model.node("Conv", model.input(1, 3, 5, 5), w)
    kinds = {node.kind for node in graph_of(model.raw(y)).nodes}
    assert "PlainConv2D" in kinds


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UnsupportedError) as caught:
        graph_of(layer("Conv", ((1, 3, 4, 5), (4, 2, 1, 1), {})).raw())
    assert "is computed, must be constant" in caught.value.what


def test_an_input_that_must_be_constant_is_named() -> None:
    model = Model(quantised=False)
    x, scale = model.input(1, 3, 4, name="x"), model.input(3, name="scale")
    variance = model.node("Abs", scale)
    y = model.node("BatchNormalization", x, scale, scale, scale, variance)
    with pytest.raises(UnsupportedError) as caught:
        graph_of(model.raw(y))
    assert '--constant "scale=FILE.npy"' in caught.value.help
    assert "x=" not in caught.value.help
