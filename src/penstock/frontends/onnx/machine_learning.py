"""Definitions, by ONNX's operators, of those of ai.onnx.ml around networks of scikit-learn.

    Scaler                  input and features of StandardScaler
    ArrayFeatureExtractor   the label of the most likely class
    LinearRegressor         a linear layer

Source: Operators-ml.md of ONNX.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from penstock.frontends.onnx.definitions import Define, Definition
from penstock.ir.tensor import Array


def _reals(new: Definition, name: str) -> Array | None:
    found = new.node.attributes.get(name)
    return np.array(found, np.float32) if isinstance(found, tuple) else None


def _scaler(new: Definition) -> bool:
    offset, scale = (_reals(new, name) for name in ("offset", "scale"))
    if offset is None or scale is None:
        return False
    x = new.made("Sub", new.as_real(new.given(0)), new.constant(offset))
    new.name_output(new.made("Mul", x, new.constant(scale)))
    return True


def _extracted(new: Definition) -> bool:
    """False if a shape is not known."""
    shape = new.shapes.get(new.given(0))
    if shape is None:
        return False
    indices = new.made("Reshape", new.given(1), (-1,))
    x = new.given(0) if len(shape) > 1 else new.made("Reshape", new.given(0), (1, *shape))
    new.name_output(new.made("Gather", x, indices, axis=-1))
    return True


def _regressor(new: Definition) -> bool:
    coefficients, targets = _reals(new, "coefficients"), int(new.number("targets", 1))
    is_plain = new.node.attributes.get("post_transform", "NONE") == "NONE"
    if coefficients is None or not is_plain or coefficients.size % targets:
        return False
    x = new.as_real(new.given(0))
    y = new.made("MatMul", x, new.constant(coefficients.reshape(targets, -1).T))
    if (intercepts := _reals(new, "intercepts")) is not None:
        y = new.made("Add", y, new.constant(intercepts))
    new.name_output(y)
    return True


DEFINITIONS: Mapping[str, Define] = {
    "ai.onnx.ml.Scaler": _scaler,
    "ai.onnx.ml.ArrayFeatureExtractor": _extracted,
    "ai.onnx.ml.LinearRegressor": _regressor,
}
