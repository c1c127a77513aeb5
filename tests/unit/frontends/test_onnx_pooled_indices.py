"""The places of maxima under windows: judged by onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx
import pytest

from onnx_judge import judged_by_onnxruntime
from tools.onnx_writer import Model

FORMS: Mapping[str, tuple[tuple[int, ...], Mapping[str, Any]]] = {
    "windows": ((2, 3, 5, 6), {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1]}),
    "columns first": ((1, 2, 4, 6), {"kernel_shape": [2, 2], "storage_order": 1}),
    "the last partly": ((1, 2, 6, 8), {"kernel_shape": [3, 3], "strides": [2, 3], "ceil_mode": 1}),
    "dilated": ((1, 1, 5, 5), {"kernel_shape": [2, 2], "dilations": [2, 3]}),
    "same": ((1, 2, 5, 5), {"kernel_shape": [2, 2], "auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    "signal": ((1, 3, 8), {"kernel_shape": [3]}),
    "volume": ((1, 2, 3, 4, 5), {"kernel_shape": [2, 2, 2], "strides": [1, 2, 2]}),
}


@pytest.mark.parametrize("form", FORMS)
def test_places_of_maxima(form: str) -> None:
    shape, attributes = FORMS[form]
    model = Model(quantised=False)
    model.output(model.node("MaxPool", model.input(*shape), count=2, **attributes))
    model.output(model.nodes[-1].output[1], onnx.TensorProto.INT64)
    assert judged_by_onnxruntime(model.raw()).steps <= 1


def test_elements_go_back_to_their_places() -> None:
    model = Model(quantised=False)
    window: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2]}
    y = model.node("MaxPool", model.input(2, 3, 4, 6), count=2, **window)
    indices = model.nodes[-1].output[1]
    y = model.node("MaxUnpool", model.node("Neg", y), indices, **window)
    assert judged_by_onnxruntime(model.raw(y)).steps == 0
