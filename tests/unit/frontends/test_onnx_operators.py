"""Operators of ONNX between QuantizeLinear and DequantizeLinear: each within one step of real
arithmetic, by ONNX's reference evaluator, with nothing but views between caller and channels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnx_models import graph_of, judged, kinds
from tools.onnx_writer import Model

Grow = Callable[[Model], str]


def conv(*shape: int, weights: tuple[int, ...], bias: bool = False, **attributes: object) -> Grow:
    def grow(model: Model) -> str:
        x, w = model.input(*shape), model.weights(*weights)
        return model.node("Conv", x, w, *([model.reals(weights[0])] if bias else []), **attributes)

    return grow


def one(operator: str, *shape: int, scale: float = 0.05, **attributes: object) -> Grow:
    return lambda model: model.node(operator, model.input(*shape), scale=scale, **attributes)


def two(operator: str, a: tuple[int, ...], b: tuple[int, ...], scale: float = 0.05) -> Grow:
    def grow(model: Model) -> str:
        x, y = model.input(*a), model.input(*b, name="y", scale=0.03)
        return model.node(operator, x, y, scale=scale)

    return grow


def listed(operator: str, shape: tuple[int, ...], *lists: list[int], **attributes: object) -> Grow:
    def grow(model: Model) -> str:
        constants = [model.constant(np.array(numbers, np.int64)) for numbers in lists]
        return model.node(operator, model.input(*shape), *constants, **attributes)

    return grow


def with_constant(operator: str, shape: tuple[int, ...], constant: tuple[int, ...]) -> Grow:
    def grow(model: Model) -> str:
        q = model.qdq(model.reals(*constant), scale=0.01, zero=0)
        return model.node(operator, model.input(*shape), q)

    return grow


def clip(lower: float, upper: float) -> Grow:
    def grow(model: Model) -> str:
        bounds = [model.constant(np.float32(b)) for b in (lower, upper)]
        return model.node("Clip", model.input(1, 3, 4, 5), *bounds)

    return grow


def norm(model: Model) -> str:
    parts = [model.reals(5, seed=s) for s in (1, 2, 3)]
    variance = model.constant(np.linspace(0.5, 2, 5).astype(np.float32))
    return model.node("BatchNormalization", model.input(1, 5, 4, 3), *parts, variance)


def concat(model: Model) -> str:
    x, y = model.input(1, 2, 4, 3), model.input(1, 5, 4, 3, name="y", scale=0.02)
    return model.node("Concat", x, y, axis=1)


def matmul_with_bias(model: Model) -> str:
    product = model.node("MatMul", model.input(2, 7), model.weights(7, 4, axis=1), scale=None)
    return model.node("Add", product, model.reals(4))


def gemm(transposed: int) -> Grow:
    def grow(model: Model) -> str:
        w = model.weights(*((4, 7) if transposed else (7, 4)), axis=0 if transposed else 1)
        return model.node("Gemm", model.input(2, 7), w, model.reals(4), transB=transposed)

    return grow


def prelu(model: Model) -> str:
    slopes = model.qdq(model.reals(3, 1, 1), scale=0.01, zero=0)
    return model.node("PRelu", model.input(1, 3, 4, 5), slopes)


def padded(model: Model) -> str:
    pads = model.constant(np.array([0, 0, 1, 2, 0, 0, 0, 1], np.int64))
    return model.node("Pad", model.input(1, 3, 4, 5), pads, model.constant(np.float32(0.4)))


def resized(model: Model) -> str:
    none = model.constant(np.zeros(0, np.float32))
    factors = model.constant(np.array([1, 1, 2, 3], np.float32))
    return model.node(
        "Resize",
        model.input(1, 3, 4, 5),
        none,
        factors,
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


IMAGE = (1, 3, 6, 5)
CASES: dict[str, Grow] = {
    "conv": conv(*IMAGE, weights=(4, 3, 3, 2), bias=True),
    "conv padded": conv(*IMAGE, weights=(4, 3, 3, 3), pads=[1, 0, 2, 1], strides=[2, 1]),
    "conv dilated": conv(1, 2, 9, 9, weights=(4, 2, 3, 3), dilations=[2, 3]),
    "conv same upper": conv(*IMAGE, weights=(4, 3, 2, 2), auto_pad="SAME_UPPER", strides=[2, 2]),
    "conv same lower": conv(*IMAGE, weights=(4, 3, 2, 2), auto_pad="SAME_LOWER", strides=[2, 2]),
    "conv grouped": conv(1, 6, 5, 4, weights=(4, 3, 3, 3), group=2),
    "conv depthwise": conv(1, 4, 6, 5, weights=(4, 1, 3, 3), group=4, bias=True),
    "conv depthwise twice": conv(1, 4, 6, 5, weights=(8, 1, 3, 3), group=4),
    "conv of a signal": conv(1, 3, 20, weights=(4, 3, 5), pads=[2, 2], strides=[2], bias=True),
    "conv of two images": conv(2, 3, 6, 5, weights=(4, 3, 3, 3)),
    "gemm": gemm(0),
    "gemm transposed": gemm(1),
    "matmul with bias": matmul_with_bias,
    "matmul of rank 3": lambda m: m.node("MatMul", m.input(2, 3, 7), m.weights(7, 4, axis=1)),
    "matmul of two": two("MatMul", (2, 3, 5), (2, 5, 4), scale=0.1),
    "matmul of two matrices": two("MatMul", (3, 5), (5, 4), scale=0.1),
    "add": two("Add", IMAGE, IMAGE),
    "add broadcast": two("Add", IMAGE, (3, 1, 1)),
    "add rank 2": two("Add", IMAGE, (6, 5)),
    "sub": two("Sub", IMAGE, IMAGE),
    "mul": two("Mul", IMAGE, (1, 3, 1, 1)),
    "max": two("Max", IMAGE, IMAGE),
    "min": two("Min", IMAGE, (1, 3, 1, 5)),
    "add constant": with_constant("Add", IMAGE, (1, 3, 1, 1)),
    "mul constant": with_constant("Mul", IMAGE, (3, 1, 1)),
    "mul number": lambda m: m.node("Mul", m.input(*IMAGE), m.constant(np.float32(0.37))),
    "div number": lambda m: m.node("Div", m.input(*IMAGE), m.constant(np.float32(3.7))),
    "relu": one("Relu", *IMAGE, scale=0.04),
    "relu6": clip(0, 6),
    "clip": clip(-1.5, 3.3),
    "max pool": one("MaxPool", *IMAGE, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1]),
    "max pool up": one("MaxPool", 1, 3, 7, 6, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "max pool rescaled": one("MaxPool", *IMAGE, scale=0.03, kernel_shape=[2, 2]),
    "average pool": one("AveragePool", *IMAGE, kernel_shape=[3, 2], strides=[2, 1]),
    "average pool rescaled": one("AveragePool", *IMAGE, scale=0.02, kernel_shape=[3, 2]),
    "average pool padded": one("AveragePool", *IMAGE, kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    "average pool of padding": one(
        "AveragePool", *IMAGE, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1
    ),
    "global average pool": one("GlobalAveragePool", *IMAGE, scale=0.02),
    "global max pool": one("GlobalMaxPool", *IMAGE),
    "norm": norm,
    "concat": concat,
    "pad": padded,
    "resize": resized,
    "prelu": prelu,
    "softmax of channels": one("Softmax", 1, 10, 3, 2, scale=1 / 255, axis=1),
    "softmax of rows": one("Softmax", 3, 10, scale=1 / 256),
    "mean": one("ReduceMean", *IMAGE, scale=0.02, axes=[2, 3], keepdims=1),
    "mean dropped": one("ReduceMean", *IMAGE, scale=0.02, axes=[2, 3], keepdims=0),
    "mean of channels": one("ReduceMean", *IMAGE, scale=0.02, axes=[1], keepdims=0),
    "sum": listed("ReduceSum", IMAGE, [3], scale=0.2),
    "slice": listed("Slice", IMAGE, [1, 4], [3, 0], [1, 3], [1, -2]),
    "transpose": one("Transpose", *IMAGE, perm=[0, 2, 3, 1]),
    "reshape": listed("Reshape", IMAGE, [0, 3, -1]),
    "flatten": one("Flatten", *IMAGE, axis=1),
    "squeeze": listed("Squeeze", (1, 3, 1, 5), [2]),
    "unsqueeze": listed("Unsqueeze", (3, 5), [0, 3]),
    "space to depth": one("SpaceToDepth", 1, 3, 4, 6, blocksize=2),
    "depth to space": one("DepthToSpace", 1, 12, 4, 6, blocksize=2),
    "leaky": one("LeakyRelu", *IMAGE, alpha=0.2),
    "hard sigmoid": one("HardSigmoid", *IMAGE, scale=1 / 255),
    "sigmoid": one("Sigmoid", *IMAGE, scale=1 / 255),
    "tanh": one("Tanh", *IMAGE, scale=1 / 127),
    "elu": one("Elu", *IMAGE),
    "exp": one("Exp", *IMAGE),
    "sqrt": lambda m: m.node("Sqrt", m.node("Relu", m.input(*IMAGE))),
    "erf": one("Erf", *IMAGE, scale=1 / 127),
    "neg": one("Neg", *IMAGE),
    "abs": one("Abs", *IMAGE),
    "softplus": one("Softplus", *IMAGE),
    "selu": one("Selu", *IMAGE),
    "reciprocal": one("Reciprocal", *IMAGE),
}


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("case", CASES)
def test_an_operator_is_within_a_step_of_real_arithmetic(
    case: str, kind: str, tmp_path: Path
) -> None:
    model = Model(kind=kind)
    found = judged(model.raw(CASES[case](model)), tmp_path)
    assert found.comparison.tensors >= 4
    assert found.comparison.mismatches == 0, found.comparison.first


def test_tensors_of_a_chain_stay_where_they_are() -> None:
    """Only the caller's arrays are transposed, and only where it makes a difference."""
    model = Model()
    x = model.input(1, 3, 8, 8)
    x = model.node("Conv", x, model.weights(4, 3, 3, 3), pads=[1, 1, 1, 1])
    y = model.node("Relu", model.node("BatchNormalization", x, *four(model)))
    z = model.node("Concat", y, model.node("Add", x, y), axis=1)
    graph = graph_of(model.raw(model.node("MaxPool", z, kernel_shape=[2, 2])))
    assert kinds(graph).count("Transpose") == 2
    assert kinds(graph)[0] == kinds(graph)[-1] == "Transpose"


def four(model: Model) -> list[str]:
    ones = model.constant(np.ones(4, np.float32))
    return [model.reals(4), model.reals(4), ones, ones]


def test_an_image_of_one_channel_and_a_pooled_output_are_not_transposed() -> None:
    model = Model()
    x = model.node("Conv", model.input(1, 1, 8, 8), model.weights(4, 1, 3, 3))
    graph = graph_of(model.raw(model.node("Flatten", model.node("GlobalMaxPool", x))))
    assert "Transpose" not in kinds(graph)


def test_a_fully_connected_layer_after_an_image_has_permuted_columns(tmp_path: Path) -> None:
    model = Model()
    x = model.node("Conv", model.input(1, 1, 6, 5), model.weights(4, 1, 3, 3))
    flat = model.node("Flatten", x, scale=None)
    raw = model.raw(model.node("Gemm", flat, model.weights(7, 48), transB=1))
    assert "Transpose" not in kinds(graph_of(raw))
    assert judged(raw, tmp_path).comparison.mismatches == 0


def test_shuffled_channels_are_one_transpose(tmp_path: Path) -> None:
    model = Model()
    x = model.node("Conv", model.input(1, 1, 5, 4), model.weights(6, 1, 2, 2))
    apart = model.constant(np.array([1, 2, 3, 4, 3], np.int64))
    together = model.constant(np.array([1, 6, 4, 3], np.int64))
    y = model.node("Reshape", x, apart, scale=None)
    y = model.node("Transpose", y, perm=[0, 2, 1, 3, 4], scale=None)
    y = model.node("Reshape", y, together)
    z = model.node("GlobalMaxPool", model.node("Conv", y, model.weights(3, 6, 1, 1)))
    raw = model.raw(z)
    assert kinds(graph_of(raw)).count("Transpose") == 1
    assert judged(raw, tmp_path).comparison.mismatches == 0


def test_an_output_of_real_numbers_need_not_be_read() -> None:
    model = Model(quantised=False)
    split = onnx.helper.make_node("Split", [model.input(1, 2, 4)], ["first", "unread"], axis=2)
    model.nodes.append(split)
    graph = graph_of(model.raw("first"))
    assert [y.type.shape for y in graph.outputs] == [(1, 2, 2)]
