"""The oracle of Deeploy's dialect: its operators on int64 arrays, and the run of a model.

Written from the definitions in quantlib (`algorithms/pact/pact_ops.py`); it computes every public
test network of Deeploy as the outputs that are published with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.lib.stride_tricks import sliding_window_view
from onnx import helper, numpy_helper

from penstock.ir.tensor import Array

Attributes = Mapping[str, Any]
Operator = Callable[[Sequence[Array], Attributes], Array]


def run(raw: bytes, inputs: Mapping[str, Array]) -> list[Array]:
    """The outputs of a model of integers."""
    graph = onnx.load_from_string(raw).graph
    found = {t.name: numpy_helper.to_array(t).astype(np.int64) for t in graph.initializer}
    found |= {name: x.astype(np.int64) for name, x in inputs.items()}
    for node in graph.node:
        attributes = {a.name: _number(helper.get_attribute_value(a)) for a in node.attribute}
        operands = [found[name] for name in node.input]
        found[node.output[0]] = OPERATORS[node.op_type](operands, attributes)
    return [found[y.name] for y in graph.output]


def _number(value: Any) -> Any:
    return numpy_helper.to_array(value).item() if isinstance(value, onnx.TensorProto) else value


def _towards_zero(a: Array, b: Array | int) -> Array:
    return np.sign(a) * (np.abs(a) // b)


def _requant_shift(x: Sequence[Array], given: Attributes) -> Array:
    multiplier, addend = (_channels(part, x[0].ndim) for part in x[1:])
    levels, div = int(given["n_levels_out"]), int(given["div"])
    lower = -(levels // 2) if given["signed"] else 0
    # Half up, as floor(y / div + 0.5).
    rounded = (2 * (x[0] * multiplier + addend) + div) // (2 * div)
    return np.clip(rounded, lower, lower + levels - 1)


def _channels(parameter: Array, rank: int) -> Array:
    return parameter.reshape(-1, *(1,) * (rank - 2)) if parameter.ndim == 1 else parameter


def _convolution(x: Sequence[Array], given: Attributes) -> Array:
    image, weights, *_ = x
    axes = weights.ndim - 2
    pads = given.get("pads", [0] * 2 * axes)
    strides = given.get("strides", [1] * axes)
    around = [(pads[k], pads[k + axes]) for k in range(axes)]
    image = np.pad(image, [(0, 0), (0, 0), *around])
    windows = sliding_window_view(image, weights.shape[2:], tuple(range(2, 2 + axes)))
    windows = windows[(slice(None), slice(None), *(slice(None, None, s) for s in strides))]
    groups = given.get("group", 1)
    depth, outputs = weights.shape[1], weights.shape[0] // groups
    found: list[Array] = []
    for g in range(groups):
        part = windows[:, g * depth : (g + 1) * depth]
        taps = weights[g * outputs : (g + 1) * outputs]
        over = tuple(range(2 + axes, 2 + 2 * axes)), tuple(range(2, 2 + axes))
        total = np.tensordot(part, taps, ((1, *over[0]), (1, *over[1])))
        found.append(np.moveaxis(total, -1, 1))
    total = np.concatenate(found, 1)
    return total + x[2].reshape(-1, *(1,) * axes) if len(x) > 2 else total


def _gemm(x: Sequence[Array], given: Attributes) -> Array:
    weights = x[1].T if given.get("transB") else x[1]
    offset = x[2] * int(given.get("beta", 1)) if len(x) > 2 else 0
    return x[0] @ weights * int(given.get("alpha", 1)) + offset


def _max_pool(x: Sequence[Array], given: Attributes) -> Array:
    size, strides = given["kernel_shape"], given["strides"]
    windows = sliding_window_view(x[0], size, (2, 3)).max(axis=(4, 5))
    return windows[:, :, :: strides[0], :: strides[1]]


def _softmax(x: Sequence[Array], given: Attributes) -> Array:
    a, b, c, log2 = (int(given[k]) for k in ("coeffA", "coeffB", "coeffC", "log2"))
    below = x[0].max(-1, keepdims=True) - x[0]
    powers = (a * (b - below % log2) ** 2 + c) // 2 ** (below // log2)
    return powers * (int(given["n_levels"]) - 1) // powers.sum(-1, keepdims=True)


def _ita_max(x: Sequence[Array], given: Attributes) -> Array:
    levels = int(given["n_levels"])
    shift = (x[0].max(-1, keepdims=True) - x[0] + 16) // 32
    inverse = levels * (levels - 1) // (levels // 2**shift).sum(-1, keepdims=True)
    return inverse // 2**shift


def _ita_partial_max(x: Sequence[Array], given: Attributes) -> Array:
    width, levels = int(given["group_width"]), int(given["n_levels"])
    found = np.empty_like(x[0])
    for row in np.ndindex(*x[0].shape[:-1]):
        vector, total, most = x[0][row], 0, -128
        for group in vector.reshape(-1, width):
            before, most = most, max(most, int(group.max()))
            total = total // 2 ** ((most - before + 16) // 32)
            total += int((256 // 2 ** ((most - group + 16) // 32)).sum())
        inverse = (levels // 2 - 1) * 256 // total
        found[row] = inverse // 2 ** ((most - vector + 16) // 32)
    return found


def _norm(x: Array, weights: Array, bias: Array | int, given: Attributes) -> Array:
    squares = np.square(x).sum(-1, keepdims=True) // x.shape[-1] + 1
    root = np.floor(np.sqrt(squares)).astype(np.int64)
    found = (_towards_zero(x * weights, root) + bias) // int(given["D"])
    return np.clip(found, -128, 127)


def _layer_norm(x: Sequence[Array], given: Attributes) -> Array:
    mean = _towards_zero(x[0].sum(-1, keepdims=True), x[0].shape[-1])
    return _norm(x[0] - mean, x[1], x[2], given)


def _gelu(x: Sequence[Array], given: Attributes) -> Array:
    b, one = given["b"], given["one"]
    bent = np.clip(np.abs(x[0]), None, -b) + b
    return x[0] * ((one + np.sign(x[0]) * (one - bent**2)) // 2)


def _hard_swish(x: Sequence[Array], given: Attributes) -> Array:
    return x[0] * np.clip(x[0] + given["three"], 0, given["six"]) * given["one_over_six"]


def _division(x: Sequence[Array], given: Attributes) -> Array:
    delta, eps, eta, y = (given[k] for k in ("Delta", "eps", "eta", "y"))
    return x[0] * (delta * eta // (y * eta + eps))


def _mean(x: Sequence[Array], given: Attributes) -> Array:
    found = x[0].mean(axis=tuple(np.atleast_1d(given["axes"])), keepdims=bool(given["keepdims"]))
    return np.floor(found + 0.5).astype(np.int64)


def _no_norm(x: Sequence[Array], given: Attributes) -> Array:
    found = (x[0] * x[1] + x[2]) * int(given["mul"]) // int(given["D"])
    return np.clip(found, -128, 127)


OPERATORS: Mapping[str, Operator] = {
    "Add": lambda x, given: x[0] + x[1],
    "Concat": lambda x, given: np.concatenate(x, given["axis"]),
    "Conv": _convolution,
    "Flatten": lambda x, given: x[0].reshape(len(x[0]), -1),
    "Gemm": _gemm,
    "IntegerMean": _mean,
    "ITAMax": _ita_max,
    "ITAPartialMax": _ita_partial_max,
    "MatMul": lambda x, given: x[0] @ x[1],
    "MaxPool": _max_pool,
    "Mul": lambda x, given: x[0] * x[1],
    "RequantShift": _requant_shift,
    "Reshape": lambda x, given: x[0].reshape(x[1]),
    "Sub": lambda x, given: x[0] - x[1],
    "Transpose": lambda x, given: x[0].transpose(given["perm"]),
    "TrueIntegerDiv": _division,
    "iGELU": _gelu,
    "iHardswish": _hard_swish,
    "iLayerNorm": _layer_norm,
    "iNoNorm": _no_norm,
    "iRMSNorm": lambda x, given: _norm(x[0], x[1], 0, given),
    "iSoftmax": _softmax,
}
