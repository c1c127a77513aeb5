"""Definitions, by ONNX's operators, of those of ai.onnx.ml around networks of scikit-learn.

    Scaler                  input and features of StandardScaler
    ArrayFeatureExtractor   the label of the most likely class
    LinearRegressor         a linear layer
    LinearClassifier        a linear layer with a row of coefficients for each class, its label
    Normalizer              scores of one class against all others, made to add up to 1

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


_LINKS = {"NONE": "", "LOGISTIC": "Sigmoid", "SOFTMAX": "Softmax"}


def _classifier(new: Definition) -> bool:
    """False if two classes share coefficients, or labels are no integers."""
    attributes = new.node.attributes
    coefficients, labels = _reals(new, "coefficients"), attributes.get("classlabels_ints")
    link = _LINKS.get(str(attributes.get("post_transform", "NONE")))
    shape = new.shapes.get(new.given(0))
    if coefficients is None or not isinstance(labels, tuple) or link is None or shape is None:
        return False
    if len(shape) != 2 or coefficients.size != len(labels) * shape[1]:
        return False
    x = new.as_real(new.given(0))
    scores = new.made("MatMul", x, new.constant(coefficients.reshape(len(labels), -1).T))
    if (intercepts := _reals(new, "intercepts")) is not None:
        scores = new.made("Add", scores, new.constant(intercepts))
    best = new.made("ArgMax", scores, axis=1, keepdims=0)
    new.name_output(new.made("Gather", new.constant(np.array(labels)), best))
    new.name_output(new.made(link, scores) if link else scores, 1)
    return True


def _normalised(new: Definition) -> bool:
    """False if rows are divided by their largest element.  Rows of zeros stay."""
    kind = {"L1": "ReduceL1", "L2": "ReduceL2"}.get(str(new.node.attributes.get("norm")))
    if kind is None:
        return False
    x = new.as_real(new.given(0))
    size = new.made("Max", new.made_along(kind, x, -1), float(np.finfo(np.float32).tiny))
    new.name_output(new.made("Div", x, size))
    return True


DEFINITIONS: Mapping[str, Define] = {
    "ai.onnx.ml.Scaler": _scaler,
    "ai.onnx.ml.ArrayFeatureExtractor": _extracted,
    "ai.onnx.ml.LinearRegressor": _regressor,
    "ai.onnx.ml.LinearClassifier": _classifier,
    "ai.onnx.ml.Normalizer": _normalised,
}
