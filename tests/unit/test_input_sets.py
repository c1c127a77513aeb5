"""Inputs of `penstock.run`: wrong names, shapes and element types are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import penstock

MODEL = "zoo:lenet5"


@pytest.fixture(scope="module")
def inputs() -> Mapping[str, np.ndarray]:
    """Inputs of the model, by name."""
    (value,) = penstock.compile(MODEL, "host").compilation.model.inputs
    return {value.name: np.zeros(value.type.shape, value.type.dtype.value)}


def changed(inputs: Mapping[str, np.ndarray], how: str) -> Mapping[str, Any]:
    ((name, array),) = inputs.items()
    return {
        "float32": {name: array.astype(np.float32)},
        "int64": {name: array.astype(np.int64)},
        "uint8": {name: array.astype(np.uint8)},
        "shape": {name: array.reshape(-1)},
        "size": {name: array[:, 1:]},
        "list": {name: array.tolist()},
        "misspelt": {"x" + name: array},
        "further": {name: array, "x": array},
        "none": {},
    }[how]


@pytest.mark.parametrize("how", ["float32", "int64", "uint8", "shape", "size"])
def test_other_shapes_and_element_types_are_refused(
    inputs: Mapping[str, np.ndarray], how: str
) -> None:
    with pytest.raises(penstock.ModelError, match=r"must be int8\[") as caught:
        penstock.run(MODEL, "host", [inputs, changed(inputs, how)])
    assert caught.value.code == "input-003"
    assert caught.value.where.startswith("sets[1], input ")
    assert ("compiled.inputs[0].quantize(array)" in caught.value.help) == (how == "float32")


@pytest.mark.parametrize("how", ["list", "misspelt", "further", "none"])
def test_other_names_and_types_are_usage_errors(inputs: Mapping[str, np.ndarray], how: str) -> None:
    with pytest.raises(penstock.UsageError) as caught:
        penstock.run(MODEL, "host", [changed(inputs, how)])
    assert caught.value.where.startswith("sets[0]")


def test_inputs_of_the_model_are_accepted(inputs: Mapping[str, np.ndarray]) -> None:
    assert len(penstock.run(MODEL, "host", [inputs]).outputs) == 1
