"""Operators of ONNX between QuantizeLinear and DequantizeLinear: each within one step of
onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from onnx_judge import judged_by_onnxruntime
from onnx_models import judged
from tools.onnx_writer import Model

Grow = Callable[[Model], str]

IMAGE = (1, 3, 6, 5)
INTS = np.int64


def one(
    operator: str,
    shape: tuple[int, ...],
    *constants: Any,
    inputs: tuple[float, int] = (0.05, -3),
    **attributes: Any,
) -> Grow:
    """A node with one computed input; lists are constants of int64, "" an absent input."""

    def grow(model: Model) -> str:
        model.zero = inputs[1]
        names = [model.input(*shape, scale=inputs[0])]
        for constant in constants:
            given = np.array(constant, INTS) if isinstance(constant, list) else constant
            names.append("" if isinstance(given, str) else model.constant(np.asarray(given)))
        return model.node(operator, *names, **attributes)

    return grow


def of_integers(operator: str, shape: tuple[int, ...], **attributes: Any) -> Grow:
    return lambda m: m.node(operator, m.input(*shape), scale=None, **attributes)


def reals(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(0, 1, shape).astype(np.float32)


PADS = [0, 0, 2, 1, 0, 0, 0, 3]
SELECTIONS: dict[str, Grow] = {
    "reduce max": one("ReduceMax", IMAGE, axes=[2, 3], keepdims=0),
    "reduce max of channels": one("ReduceMax", IMAGE, axes=[1], scale=0.03),
    "reduce min of all": one("ReduceMin", IMAGE, keepdims=1),
    "gather": one("Gather", IMAGE, [2, 0, -1, 0], axis=1),
    "gather rows": one("Gather", IMAGE, [5, 1], axis=-2, scale=0.03),
    "gather one": one("Gather", IMAGE, np.array(-2, INTS), axis=3),
    "depth to space": one("DepthToSpace", (1, 12, 4, 6), blocksize=2, mode="CRD"),
    "pad reflect": one("Pad", IMAGE, PADS, mode="reflect"),
    "pad edge": one("Pad", IMAGE, PADS, mode="edge"),
    "pad edge rescaled": one("Pad", IMAGE, PADS, mode="edge", scale=0.03),
    "pad negative": one("Pad", IMAGE, [0, 0, -1, 2, 0, -1, 1, -2], np.float32(0.4)),
    "pad negative edge": one("Pad", IMAGE, [0, 0, -1, 2, 0, -1, 1, -2], mode="edge"),
    "crop": one("Pad", IMAGE, [0, -1, -1, 0, 0, 0, 0, -2]),
    "expand": one("Expand", (1, 3, 1, 5), [2, 1, 4, 1]),
    "expand to rank": one("Expand", (3, 1), [2, 3, 4]),
    "tile": one("Tile", IMAGE, [1, 2, 1, 3]),
    "max with numbers": one("Max", IMAGE, reals(3, 1, 1)),
    "min with a number": one("Min", IMAGE, np.float32(0.31), scale=0.02),
    "max with a large number": one("Max", IMAGE, np.float32(100)),
    "max of three": lambda m: m.node(
        "Max", m.input(*IMAGE), m.input(3, 1, 1, name="y", scale=0.03), m.constant(reals(5))
    ),
    "max of one": one("Max", IMAGE),
}
INDICES: dict[str, Grow] = {
    "argmax": of_integers("ArgMax", IMAGE, axis=1, keepdims=0),
    "argmin of rows": of_integers("ArgMin", IMAGE, axis=-2),
    "argmax of vectors": of_integers("ArgMax", (2, 7), axis=1),
}
WRAPPED: dict[str, Grow] = {"pad wrap": one("Pad", IMAGE, PADS, mode="wrap")}


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("case", SELECTIONS)
def test_elements_are_selected(case: str, kind: str) -> None:
    model = Model(kind=kind)
    assert judged_by_onnxruntime(model.raw(SELECTIONS[case](model))).steps <= 1


@pytest.mark.parametrize("case", INDICES)
def test_indices_are_plain_integers(case: str) -> None:
    model = Model()
    model.output(INDICES[case](model), onnx.TensorProto.INT64)
    assert judged_by_onnxruntime(model.proto().SerializeToString()).steps == 0


@pytest.mark.parametrize("case", WRAPPED)
def test_operators_of_opset_19(case: str) -> None:
    model = Model(opset=19)
    assert judged_by_onnxruntime(model.raw(WRAPPED[case](model))).steps <= 1


def transposed(
    shape: tuple[int, ...], weights: tuple[int, ...], axis: int = 1, **attributes: Any
) -> Grow:
    def grow(model: Model) -> str:
        group = int(attributes.get("group", 1))
        w = model.weights(*weights, axis=axis)
        bias = model.reals(weights[1] * group)
        return model.node("ConvTranspose", model.input(*shape), w, bias, **attributes)

    return grow


TRANSPOSED: dict[str, Grow] = {
    "plain": transposed(IMAGE, (3, 4, 3, 2)),
    "strided": transposed(IMAGE, (3, 4, 3, 4), strides=[2, 3], pads=[1, 0, 1, 2]),
    "output padding": transposed(
        IMAGE, (3, 4, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 0]
    ),
    "output shape": transposed(IMAGE, (3, 4, 3, 3), strides=[2, 2], output_shape=[11, 10]),
    "same upper": transposed(IMAGE, (3, 4, 3, 3), strides=[2, 2], auto_pad="SAME_UPPER"),
    "same lower": transposed(IMAGE, (3, 4, 3, 3), strides=[2, 2], auto_pad="SAME_LOWER"),
    "dilated": transposed(IMAGE, (3, 4, 3, 2), dilations=[2, 3], strides=[1, 2]),
    "signal": transposed((1, 3, 9), (3, 4, 4), strides=[2], pads=[1, 1]),
    "groups": transposed((1, 6, 5, 4), (6, 2, 3, 3), group=2, strides=[2, 2], pads=[1, 1, 1, 1]),
    "depthwise": transposed((1, 4, 5, 4), (4, 1, 4, 4), group=4, strides=[2, 2], pads=[1] * 4),
    "depthwise cropped": transposed((1, 4, 5, 4), (4, 1, 2, 2), group=4, pads=[2, 1, 1, 1]),
    "groups of a signal": transposed((2, 4, 9), (4, 3, 3), group=2, strides=[3]),
    "groups dilated": transposed((1, 4, 5, 4), (4, 2, 2, 2), group=2, dilations=[2, 3]),
}


@pytest.mark.parametrize("case", TRANSPOSED)
def test_transposed_convolutions(case: str) -> None:
    model = Model()
    assert judged_by_onnxruntime(model.raw(TRANSPOSED[case](model))).steps <= 1


def asymmetric(
    operator: str,
    shape: tuple[int, ...],
    weights: tuple[int, ...],
    kind: str,
    axis: int | None = None,
    **attributes: Any,
) -> Grow:
    """A layer whose weights have zero points, one for each index of `axis`, or one."""

    def grow(model: Model) -> str:
        rng = np.random.default_rng(len(weights))
        limits, count = np.iinfo(kind), weights[axis] if axis is not None else 1
        zeros = rng.integers(limits.min + 40, limits.max - 40, count).astype(kind)
        scales = (0.002 * (1 + np.arange(count) % 5)).astype(np.float32)
        parts = [model.constant(rng.integers(limits.min, limits.max + 1, weights).astype(kind))]
        for part in (scales, zeros):
            parts.append(model.constant(part if axis is not None else part.reshape(())))
        w = f"{parts[0]}_d"
        along = {} if axis is None else {"axis": axis}
        model.nodes.append(onnx.helper.make_node("DequantizeLinear", parts, [w], **along))
        return model.node(operator, model.input(*shape), w, scale=0.4, **attributes)

    return grow


ASYMMETRIC: dict[str, Grow] = {
    "conv": asymmetric("Conv", IMAGE, (4, 3, 3, 2), "uint8", pads=[1, 0, 2, 1]),
    "conv per channel": asymmetric("Conv", IMAGE, (4, 3, 3, 2), "int8", 0, pads=[1, 1, 1, 1]),
    "grouped": asymmetric("Conv", (1, 6, 5, 4), (4, 3, 3, 3), "uint8", 0, group=2),
    "depthwise": asymmetric("Conv", (1, 4, 5, 4), (8, 1, 3, 3), "uint8", group=4, pads=[1] * 4),
    "depthwise per channel": asymmetric("Conv", (1, 4, 5, 4), (4, 1, 3, 3), "int8", 0, group=4),
    "gemm": asymmetric("Gemm", (2, 7), (4, 7), "uint8", 0, transB=1),
    "matmul": asymmetric("MatMul", (2, 3, 7), (7, 4), "uint8"),
    "transposed": asymmetric("ConvTranspose", IMAGE, (3, 4, 3, 2), "uint8", 1, strides=[2, 2]),
    "transposed dilated": asymmetric(
        "ConvTranspose", IMAGE, (3, 4, 3, 2), "uint8", dilations=[2, 2]
    ),
    "transposed depthwise": asymmetric(
        "ConvTranspose", (1, 4, 5, 4), (4, 1, 4, 4), "int8", group=4, strides=[2, 2]
    ),
}


@pytest.mark.parametrize("case", ASYMMETRIC)
def test_weights_with_zero_points(case: str) -> None:
    model = Model()
    assert judged_by_onnxruntime(model.raw(ASYMMETRIC[case](model))).steps <= 1


def test_weights_in_half_of_the_range_are_shifted() -> None:
    """Weights of 7 bits, as quantisers write them with `reduce_range`, need no other node."""
    model = Model()
    w = model.constant(np.random.default_rng(0).integers(0, 128, (4, 3, 3, 3)).astype(np.uint8))
    parts = [w, model.constant(np.float32(0.01)), model.constant(np.uint8(61))]
    model.nodes.append(onnx.helper.make_node("DequantizeLinear", parts, ["w_d"]))
    found = judged_by_onnxruntime(
        model.raw(model.node("Conv", model.input(*IMAGE), "w_d", scale=0.4))
    )
    assert found.steps <= 1
    assert "Gather" not in [node.kind for node in found.graph.nodes]


def test_columns_of_a_flattened_image_with_zero_points(tmp_path: Path) -> None:
    model = Model()
    x = model.node("Conv", model.input(1, 1, 6, 5), model.weights(4, 1, 3, 3))
    flat = model.node("Flatten", x, scale=None)
    w = model.constant(np.random.default_rng(0).integers(0, 256, (7, 48)).astype(np.uint8))
    parts = [w, model.constant(np.float32(0.01)), model.constant(np.uint8(91))]
    model.nodes.append(onnx.helper.make_node("DequantizeLinear", parts, ["w_d"]))
    raw = model.raw(model.node("Gemm", flat, "w_d", transB=1))
    assert judged(raw, tmp_path).comparison.mismatches == 0
