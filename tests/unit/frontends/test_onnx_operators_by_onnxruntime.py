"""Operators of ONNX between QuantizeLinear and DequantizeLinear: each within one step of
onnxruntime."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from onnx_judge import judged_by_onnxruntime, worst_steps
from onnx_models import graph_of, judged, kinds
from penstock.errors import UnsupportedError
from penstock.ir.tensor import DType
from penstock.simulators.graph import run_graph
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


VOLUME = (1, 3, 4, 5, 3)
TRANSPOSED: dict[str, Grow] = {
    "volumes": transposed(VOLUME, (3, 2, 2, 2, 2), strides=[2, 2, 2]),
    "padded volumes": transposed(
        VOLUME, (3, 2, 3, 3, 3), strides=[2, 2, 2], pads=[1] * 6, output_padding=[1, 1, 1]
    ),
    "dilated volumes": transposed(
        VOLUME, (3, 2, 2, 3, 2), strides=[3, 1, 2], pads=[2, 0, 0, 1, 1, 0], dilations=[2, 1, 1]
    ),
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


POOLED: dict[str, dict[str, Any]] = {
    "up": {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1},
    "up, padding counts": {
        "kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1,
        "count_include_pad": 1,
    },
    "up, no padding that counts": {
        "kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1
    },
    "padded": {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
    "padded on one side": {"kernel_shape": [3, 2], "pads": [0, 1, 1, 0], "strides": [2, 1]},
    "up, one side counts": {
        "kernel_shape": [4, 3], "strides": [3, 2], "pads": [0, 1, 2, 0], "ceil_mode": 1,
        "count_include_pad": 1,
    },
}  # fmt: skip


@pytest.mark.parametrize("scale", [0.05, 0.04, 0.02, 0.011])
@pytest.mark.parametrize("case", POOLED)
def test_averages(case: str, scale: float) -> None:
    """In the scale of the input, and in finer ones; extents are such that the last window of
    `ceil_mode` is partial."""
    model = Model(opset=19)
    x = model.input(1, 3, 8, 7)
    raw = model.raw(model.node("AveragePool", x, scale=scale, **POOLED[case]))
    assert judged_by_onnxruntime(raw).steps <= 1


def normalised(operator: str, shape: tuple[int, ...], *parts: int, **attributes: Any) -> Grow:
    """A normalisation with quantised scale and offset of these extents."""

    def grow(model: Model) -> str:
        scale = model.qdq(model.constant(1 + 0.3 * reals(*parts)), scale=0.02, zero=0)
        offset = model.qdq(model.constant(reals(*parts, seed=1)), scale=0.02, zero=0)
        return model.node(operator, model.input(*shape), scale, offset, scale=0.03, **attributes)

    return grow


NORMS: dict[str, Grow] = {
    "layer": normalised("LayerNormalization", (2, 5, 12), 12),
    "layer of two axes": normalised("LayerNormalization", (2, 5, 3, 4), 3, 4, axis=-2),
    "layer of a vector": normalised("LayerNormalization", (1, 9), 9, epsilon=0.1),
    "instance": normalised("InstanceNormalization", (2, 3, 6, 5), 3),
    "instance of a signal": normalised("InstanceNormalization", (2, 3, 17), 3),
    "L1": one("ReduceL1", IMAGE, [1], scale=0.1),
    "L2": one("ReduceL2", IMAGE, [1, 3], keepdims=0, scale=0.1),
    "sum of squares": one("ReduceSumSquare", IMAGE, [2], scale=0.5),
    "log sum": one("ReduceLogSum", IMAGE, [1], scale=0.05, inputs=(0.05, -128)),
    "log sum exp": one("ReduceLogSumExp", IMAGE, [1], scale=0.05, inputs=(1.5, 3)),
    "lp": one("LpNormalization", IMAGE, axis=1, scale=1 / 127),
    "lp 1": one("LpNormalization", IMAGE, axis=-1, p=1, scale=1 / 127),
}


@pytest.mark.parametrize("case", NORMS)
def test_norms(case: str) -> None:
    model = Model(opset=18)
    assert judged_by_onnxruntime(model.raw(NORMS[case](model))).steps <= 1


@pytest.mark.parametrize("opset", [18, 21])
def test_normalised_groups(opset: int) -> None:
    model = Model(opset=opset)
    grow = normalised("GroupNormalization", (2, 6, 4, 3), 2 if opset == 18 else 6, num_groups=2)
    assert judged_by_onnxruntime(model.raw(grow(model))).steps <= 1


def with_quantised(
    operator: str, shape: tuple[int, ...], constant: tuple[int, ...], *, first: bool = False
) -> Grow:
    """An element-wise operator of a tensor and a quantised constant."""

    def grow(model: Model) -> str:
        c = model.qdq(model.constant(reals(*constant)), scale=0.02, zero=7)
        x = model.input(*shape)
        return model.node(operator, *((c, x) if first else (x, c)), scale=0.1)

    return grow


def two(operator: str, a: tuple[int, ...], b: tuple[int, ...], zero: int = -3) -> Grow:
    def grow(model: Model) -> str:
        x = model.input(*a)
        model.zero = zero
        y = model.input(*b, name="y", scale=0.03)
        model.zero = -3
        return model.node(operator, x, y, scale=0.1)

    return grow


SOFT = {"axis": 1}
REAL: dict[str, Grow] = {
    "div": two("Div", IMAGE, IMAGE, zero=-128 - 1 + 1),
    "div broadcast": two("Div", IMAGE, (3, 1, 5), zero=127),
    "div constant": with_quantised("Div", IMAGE, (1, 3, 1, 1)),
    "div of a constant": with_quantised("Div", (1, 3, 1, 5), (5,), first=True),
    "div number": one("Div", IMAGE, np.float32(3.7)),
    "div numbers": one("Div", IMAGE, 1 + reals(3, 1, 1) ** 2),
    "square": one("Pow", IMAGE, np.float32(2), scale=0.3),
    "cube of int64": one("Pow", IMAGE, np.array(3, INTS), scale=1.3),
    "root": one("Pow", IMAGE, np.float32(0.5), inputs=(0.05, -128), scale=0.02),
    "reciprocal": one("Pow", IMAGE, np.float32(-1), inputs=(0.05, -128), scale=0.1),
    "powers": one("Pow", IMAGE, reals(3, 1, 1), inputs=(0.05, -128)),
    "add numbers": one("Add", IMAGE, reals(3, 1, 1)),
    "sub numbers": one("Sub", IMAGE, reals(3, 1, 5)),
    "mul numbers": one("Mul", IMAGE, reals(1, 3, 1, 1)),
    "sum of three": lambda m: m.node(
        "Sum", m.input(*IMAGE), m.input(3, 1, 1, name="y", scale=0.03), m.constant(reals(5))
    ),
    "prelu numbers": one("PRelu", IMAGE, reals(3, 1, 1)),
    "log softmax": one("LogSoftmax", IMAGE, **SOFT),
    "log softmax of rows": one("LogSoftmax", (4, 9), scale=0.07),
    "softmax fine": one("Softmax", (1, 50, 3), scale=0.2 / 256, axis=1),
    "softmax coarse": one("Softmax", (1, 5, 3), scale=1 / 127, axis=1),
    "softmax of rows": one("Softmax", (1, 5, 3, 4), scale=1 / 255, axis=2),
    "matmul constant left": with_quantised("MatMul", (2, 5, 4), (3, 5), first=True),
    "matmul constants left": with_quantised("MatMul", (2, 5, 4), (2, 3, 5), first=True),
    "matmul vector": with_quantised("MatMul", (2, 3, 5), (5,)),
    "matmul of a vector": with_quantised("MatMul", (5,), (5, 3)),
    "matmul of vectors": two("MatMul", (7,), (7,)),
    "matmul of vector and matrices": two("MatMul", (7,), (2, 7, 3)),
    "matmul of matrices and vector": two("MatMul", (2, 3, 7), (7,)),
    "gemm of two": lambda m: m.node(
        "Gemm", m.input(7, 2), m.input(3, 7, name="y"), transA=1, transB=1
    ),
    "gemm transposed": lambda m: m.node(
        "Gemm", m.input(7, 2), m.weights(7, 4, axis=1), transA=1
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REAL)
def test_operators_in_real_arithmetic(case: str) -> None:
    model = Model()
    assert judged_by_onnxruntime(model.raw(REAL[case](model))).steps <= 1


def resized(
    shape: tuple[int, ...],
    scales: list[float] | None = None,
    sizes: list[int] | None = None,
    **attributes: Any,
) -> Grow:
    def grow(model: Model) -> str:
        parts = ["", model.constant(np.array(scales, np.float32)) if scales else ""]
        parts += [model.constant(np.array(sizes, INTS))] if sizes else []
        scale = attributes.pop("scale", 0.05)
        return model.node("Resize", model.input(*shape), *parts, scale=scale, **attributes)

    return grow


COORDINATES = [
    "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric",
    "tf_half_pixel_for_nn",
]  # fmt: skip


@pytest.mark.parametrize("where", COORDINATES)
@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_nearest_neighbours(where: str, rounding: str) -> None:
    for kind in ({"scales": [1, 1, 1.7, 2]}, {"sizes": [1, 3, 4, 13]}, {"scales": [1, 1, 0.6, 3]}):
        model = Model(opset=19)
        attributes = {"coordinate_transformation_mode": where, "nearest_mode": rounding}
        grow = resized(IMAGE, **kind, **attributes)
        assert judged_by_onnxruntime(model.raw(grow(model))).steps <= 1


@pytest.mark.parametrize("where", [w for w in COORDINATES if w != "tf_half_pixel_for_nn"])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_interpolation(mode: str, where: str) -> None:
    for kind in ({"scales": [1, 1, 1.7, 2]}, {"sizes": [1, 3, 4, 13]}, {"scales": [1, 1, 0.6, 3]}):
        for scale in (0.05, 0.03, 0.08):
            model = Model(opset=19)
            grow = resized(
                IMAGE, **kind, mode=mode, coordinate_transformation_mode=where, scale=scale
            )
            assert judged_by_onnxruntime(model.raw(grow(model))).steps <= 1


RESIZED: dict[str, Grow] = {
    "signal": resized((1, 3, 7), scales=[1, 1, 2.5], mode="linear"),
    "signal nearest": resized((1, 3, 7), sizes=[1, 3, 9]),
    "signal of one": resized((1, 3, 1), sizes=[1, 3, 4], mode="linear"),
    "channels": resized(IMAGE, scales=[1, 2, 1, 1]),
    "cubic without border": resized(IMAGE, scales=[1, 1, 2, 3], mode="cubic", exclude_outside=1),
    "cubic of a small image": resized((1, 2, 3, 2), sizes=[1, 2, 7, 5], mode="cubic"),
    "one output": resized(IMAGE, sizes=[1, 3, 1, 1], mode="linear"),
    "axes": resized(IMAGE, sizes=[9, 7], mode="linear", axes=[2, 3]),
}


@pytest.mark.parametrize("case", RESIZED)
def test_resized(case: str) -> None:
    model = Model(opset=19 if case == "axes" else 13)
    assert judged_by_onnxruntime(model.raw(RESIZED[case](model))).steps <= 1


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_resize_of_opset_10(mode: str) -> None:
    model = Model(opset=10)
    factors = model.constant(np.array([1, 1, 2, 3], np.float32))
    raw = model.raw(model.node("Resize", model.input(*IMAGE), factors, mode=mode))
    assert judged_by_onnxruntime(raw).steps <= 1


def norm_after(
    operator: str,
    shape: tuple[int, ...],
    weights: tuple[int, ...],
    channels: int,
    axis: int | None,
    kind: str = "int8",
    **attributes: Any,
) -> Grow:
    """A layer, and a batch normalisation whose factors have both signs, and are 0 once."""

    def grow(model: Model) -> str:
        rng, count = np.random.default_rng(0), 1 if axis is None else weights[axis]
        limits = np.iinfo(kind)
        parts = [rng.integers(limits.min, limits.max + 1, weights).astype(kind)]
        parts.append((0.002 * (1 + np.arange(count) % 5)).astype(np.float32))
        parts.append(rng.integers(limits.min + 99, limits.max - 99, count).astype(kind))
        parts[1:] = [p if axis is not None else p.reshape(()) for p in parts[1:]]
        names = [model.constant(part) for part in parts]
        along = {} if axis is None else {"axis": axis}
        model.nodes.append(onnx.helper.make_node("DequantizeLinear", names, ["w_d"], **along))
        bias = model.reals(channels)
        x = model.input(*shape)
        y = model.node(operator, x, "w_d", bias, scale=None, **attributes)
        factors = np.linspace(-1, 1.5, channels).astype(np.float32)
        factors[1] = 0
        given = [factors, reals(channels), reals(channels, seed=1), 0.5 + reals(channels) ** 2]
        names = [model.constant(part) for part in given]
        return model.node("BatchNormalization", y, *names, scale=0.3)

    return grow


FOLDED: dict[str, Grow] = {
    "conv": norm_after("Conv", IMAGE, (4, 3, 3, 2), 4, None),
    "conv per channel": norm_after("Conv", IMAGE, (4, 3, 3, 2), 4, 0, pads=[1] * 4),
    "conv unsigned": norm_after("Conv", IMAGE, (4, 3, 3, 2), 4, 0, kind="uint8"),
    "depthwise": norm_after("Conv", (1, 4, 5, 4), (4, 1, 3, 3), 4, 0, group=4),
    "transposed": norm_after("ConvTranspose", IMAGE, (3, 4, 3, 2), 4, 1, strides=[2, 2]),
    "gemm": norm_after("Gemm", (2, 7), (4, 7), 4, 0, transB=1),
    "gemm of columns": norm_after("Gemm", (2, 7), (7, 4), 4, None),
}


@pytest.mark.parametrize("case", FOLDED)
def test_a_normalisation_is_folded_into_quantised_weights(case: str) -> None:
    model = Model()
    found = judged_by_onnxruntime(model.raw(FOLDED[case](model)))
    assert found.steps <= 1
    layers = ("Conv2D", "DepthwiseConv2D", "TransposeConv", "FullyConnected")
    assert sum(node.kind in layers for node in found.graph.nodes) == 1


def chosen(relation: str, *, number: bool = False, negated: bool = False) -> Grow:
    """Where, by a comparison of two tensors or of one with a number."""

    def grow(model: Model) -> str:
        a, b = model.input(*IMAGE), model.input(3, 1, 5, name="y", scale=0.03)
        other = model.constant(np.asarray(np.float32(0.35))) if number else b
        condition = model.node(relation, a, other, scale=None)
        if negated:
            condition = model.node("Not", condition, scale=None)
        return model.node("Where", condition, a, b, scale=0.04)

    return grow


def masked(model: Model) -> str:
    a, b = model.input(*IMAGE), model.input(*IMAGE, name="y", scale=0.03)
    first = model.node("Less", a, b, scale=None)
    zero = model.constant(np.asarray(np.float32(0)))
    both = model.node("And", first, model.node("Greater", a, zero, scale=None), scale=None)
    either = model.node("Or", both, model.node("Equal", b, zero, scale=None), scale=None)
    return model.node("Where", either, a, model.constant(np.asarray(np.float32(-2))))


def with_mask(model: Model) -> str:
    mask = model.constant(np.random.default_rng(0).integers(0, 2, (3, 6, 1)).astype(np.bool_))
    return model.node("Where", mask, model.input(*IMAGE), model.constant(reals(5)))


CHOSEN: dict[str, Grow] = {
    "less": chosen("Less"),
    "greater": chosen("Greater", number=True),
    "less or equal": chosen("LessOrEqual"),
    "greater or equal": chosen("GreaterOrEqual", number=True, negated=True),
    "equal": chosen("Equal"),
    "connectives": masked,
    "constant mask": with_mask,
}


@pytest.mark.parametrize("case", CHOSEN)
def test_choices(case: str) -> None:
    model = Model(opset=16)
    assert judged_by_onnxruntime(model.raw(CHOSEN[case](model))).steps <= 1


class Chain:
    """Nodes of real numbers, of which only the last is quantised."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def __call__(self, operator: str, *inputs: Any, scale: float | None = None, **kw: Any) -> str:
        names = [x if isinstance(x, str) else self.model.constant(np.asarray(x)) for x in inputs]
        return self.model.node(operator, *names, scale=scale, **kw)


def number(x: float) -> Any:
    return np.float32(x)


def gelu(model: Model) -> str:
    x, step = model.input(*IMAGE), Chain(model)
    gate = step("Add", step("Erf", step("Div", x, number(2**0.5))), number(1))
    return step("Mul", step("Mul", x, gate), number(0.5), scale=0.03)


def layer_norm(model: Model) -> str:
    x, step = model.input(2, 5, 12), Chain(model)
    centred = step("Sub", x, step("ReduceMean", x, axes=[-1]))
    variance = step("ReduceMean", step("Pow", centred, number(2)), axes=[-1])
    deviation = step("Sqrt", step("Add", variance, number(1e-5)))
    y = step("Mul", step("Div", centred, deviation), reals(12))
    return step("Add", y, reals(12, seed=1), scale=0.03)


def hard_swish(model: Model) -> str:
    x, step = model.input(*IMAGE), Chain(model)
    gate = step("Clip", step("Add", x, number(3)), number(0), number(6))
    return step("Div", step("Mul", x, gate), number(6), scale=0.03)


def moved(model: Model) -> str:
    x, step = model.input(*IMAGE), Chain(model)
    y = step("Relu", step("Sub", x, reals(3, 1, 5)))
    y = step("Transpose", y, perm=[0, 2, 1, 3])
    y = step("Reshape", y, np.array([6, 15], INTS))
    y = step("Slice", y, np.array([1], INTS), np.array([9], INTS), np.array([1], INTS))
    return step("Mul", y, y, scale=0.05)


def concatenated(model: Model) -> str:
    x, step = model.input(*IMAGE), Chain(model)
    y = step("Concat", step("Exp", step("Mul", x, number(0.3))), x, axis=1)
    return step("Sub", y, number(0.7), scale=0.05)


def attention(model: Model) -> str:
    """Scores that are scaled, masked and normalised, as torch exports them."""
    x, step = model.input(2, 5, 5), Chain(model)
    mask = np.triu(np.full((5, 5), -10, np.float32), 1)
    scores = step("Add", step("Div", x, number(2.8)), mask)
    return step("Softmax", scores, axis=-1, scale=1 / 255)


def functions(model: Model) -> str:
    x, step = model.input(*IMAGE, scale=0.02), Chain(model)
    y = step("Neg", step("Abs", step("Mul", x, number(0.9))))
    for operator in ("Tanh", "Softplus", "LeakyRelu", "Elu", "HardSigmoid", "Sqrt", "Reciprocal"):
        y = step("Add", step(operator, y), reals(3, 1, 1) ** 2 + number(0.5))
    y = step("Selu", step("Celu", step("Softsign", step("Log", y)), alpha=0.7))
    return step("Max", step("Floor", step("Mul", y, number(9))), x, scale=0.05)


CHAINS: dict[str, Grow] = {
    "gelu": gelu,
    "layer norm": layer_norm,
    "hard swish": hard_swish,
    "moved": moved,
    "concatenated": concatenated,
    "attention": attention,
    "functions": functions,
}


@pytest.mark.parametrize("case", CHAINS)
def test_tensors_between_operators_are_real_numbers(case: str) -> None:
    """Only the last operator of a chain is quantised, so it alone may round."""
    model = Model()
    assert judged_by_onnxruntime(model.raw(CHAINS[case](model))).steps <= 1


def test_outputs_and_inputs_may_be_real_numbers() -> None:
    model = Model(quantised=False)
    step = Chain(model)
    x = model.qdq(step("Sub", step("Mul", model.input(*IMAGE), number(0.3)), reals(3, 1, 1)))
    found = judged_by_onnxruntime(model.raw(step("Mul", step("Relu", x), reals(3, 6, 1))))
    assert found.steps <= 1
    assert {v.type.dtype.value for v in (*found.graph.inputs, *found.graph.outputs)} == {"float32"}


def test_a_function_of_one_variable_is_a_table() -> None:
    """Chains of numbers and functions need no float arithmetic on the device."""
    model = Model()
    step = Chain(model)
    gate = step("Add", step("Erf", step("Div", model.input(*IMAGE), number(2**0.5))), number(1))
    raw = model.raw(step("Mul", gate, number(0.5), scale=0.03))
    found = judged_by_onnxruntime(raw)
    assert found.steps <= 1
    assert {node.output.type.dtype.value for node in found.graph.nodes} == {"int8"}


PRODUCTS: dict[str, Grow] = {
    "gemm": lambda m: m.node(
        "Gemm", m.input(2, 7), m.weights(7, 4, axis=1), m.reals(4), scale=None
    ),
    "matmul": lambda m: m.node("MatMul", m.input(2, 3, 7), m.weights(7, 4, axis=1), scale=None),
    "matmul with bias": lambda m: m.node(
        "Add",
        m.node("MatMul", m.input(2, 3, 7), m.weights(7, 4, axis=1), scale=None),
        m.reals(4),
        scale=None,
    ),
    "matmul of a vector": lambda m: m.node(
        "MatMul", m.input(7), m.weights(7, 4, axis=1), scale=None
    ),
    "log softmax of products": lambda m: m.node(
        "LogSoftmax",
        m.node("Gemm", m.input(2, 7), m.weights(4, 7), transB=1, scale=None),
        scale=None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PRODUCTS)
def test_products_may_be_real_numbers(case: str) -> None:
    model = Model()
    found = judged_by_onnxruntime(model.raw(PRODUCTS[case](model)))
    assert found.steps <= 1
    assert found.graph.outputs[0].type.dtype.value == "float32"


def test_qgemm_without_a_scale_of_its_output() -> None:
    model = Model(quantised=False)
    rng = np.random.default_rng(0)
    info = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.INT8, [2, 7])
    model.inputs.append(info)
    x = ["x", model.constant(reals() ** 2), model.constant(np.array(3, np.int8))]
    w = [model.constant(rng.integers(-127, 128, (7, 4)).astype(np.int8))]
    w += [model.constant(reals(4) ** 2), model.constant(np.zeros(4, np.int8))]
    bias = model.constant(rng.integers(-999, 999, 4).astype(np.int32))
    y = model.node("QGemm", *x, *w, bias, domain="com.microsoft")
    assert judged_by_onnxruntime(model.raw(y)).steps <= 1


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("operator", ["Sqrt", "Log", "Reciprocal", "Acosh", "Asin"])
@pytest.mark.parametrize("is_chain", [False, True])
def test_what_is_no_number(operator: str, kind: str, is_chain: bool) -> None:
    """As in LayerNormalization in parts, whose variance may be quantised to less than 0."""
    model = Model(kind=kind, zero=30)
    x = model.input(1, 16, 16)
    if is_chain:
        x = model.node("Neg", x, scale=None)
    assert worst_steps(model.raw(model.node(operator, x))) <= 1


def constant_matrices(
    model: Model, shape: tuple[int, ...], axis: int | None = None, zero: int = 0
) -> str:
    """A quantised constant, with one scale or one along an axis."""
    elements = np.random.default_rng(0).integers(-127, 128, shape).astype(np.int8)
    count = () if axis is None else (shape[axis],)
    scales = (0.002 * (1 + np.arange(np.prod(count, dtype=int)))).astype(np.float32).reshape(count)
    parts = (elements, scales, np.full(count, zero, np.int8))
    names = [model.constant(part) for part in parts]
    return model.node("DequantizeLinear", *names, scale=None, axis=axis or 0)


BATCHES = [
    *(((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (1, 4, 5)), ((3, 4), (2, 4, 5))),
    *(((2, 2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (1, 6, 4, 5)), ((4,), (2, 4, 5))),
]


@pytest.mark.parametrize("zero", [0, 3])
@pytest.mark.parametrize(("computed", "constant"), BATCHES)
def test_constant_matrices_by_batch(
    computed: tuple[int, ...], constant: tuple[int, ...], zero: int
) -> None:
    model = Model()
    x = model.input(*computed)
    y = model.node("MatMul", x, constant_matrices(model, constant, zero=zero), scale=0.03)
    assert worst_steps(model.raw(y)) <= 1


@pytest.mark.parametrize("shapes", [((3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5))])
def test_computed_matrices_of_two_ranks(shapes: tuple[tuple[int, ...], ...]) -> None:
    model = Model()
    a, b = (model.input(*shape, name=name) for shape, name in zip(shapes, "ab", strict=True))
    assert worst_steps(model.raw(model.node("MatMul", a, b, scale=0.3))) <= 1


@pytest.mark.parametrize(
    ("constant", "computed", "axis"),
    [
        *(((3, 4), (4, 5), 0), ((3, 4), (4, 5), 1), ((3, 4), (2, 4, 5), 1)),
        *(((2, 3, 4), (2, 4, 5), 1), ((3, 4), (4,), 1)),
    ],
)
def test_a_constant_with_several_scales_on_the_left(
    constant: tuple[int, ...], computed: tuple[int, ...], axis: int
) -> None:
    """onnxruntime's quantiser chooses axis 1, along which products are added up."""
    model = Model()
    x = model.input(*computed)
    y = model.node("MatMul", constant_matrices(model, constant, axis, zero=2), x, scale=0.03)
    assert worst_steps(model.raw(y)) <= 1


@pytest.mark.parametrize("shape", [(3, 4), (2, 1, 3, 4)])
def test_a_constant_with_several_scales_in_a_large_batch(shape: tuple[int, ...]) -> None:
    model = Model()
    x = model.input(1 if len(shape) > 2 else 2, 2, 4, 5)
    y = model.node("MatMul", constant_matrices(model, shape, axis=len(shape) - 1), x, scale=0.03)
    assert worst_steps(model.raw(y)) <= 1


@pytest.mark.parametrize(
    "operator", ["ReduceMax", "ReduceMin", "ReduceMean", "ReduceSum", "ReduceL2", "ReduceLogSumExp"]
)
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [[0, 1], [4], [2, 3], [0, 1, 2, 3, 4]])
def test_reductions_of_five_axes(operator: str, axes: list[int], keepdims: int) -> None:
    model = Model()
    x = model.input(2, 3, 4, 2, 3)
    if operator == "ReduceSum":
        y = model.node(operator, x, model.constant(np.array(axes)), keepdims=keepdims, scale=0.3)
    else:
        y = model.node(operator, x, axes=axes, keepdims=keepdims)
    assert worst_steps(model.raw(y)) <= 1


def test_a_reduction_of_every_other_axis_of_five() -> None:
    model = Model()
    y = model.node("ReduceMax", model.input(2, 3, 4, 2, 3), axes=[1, 3])
    assert worst_steps(model.raw(y)) == 0


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_tensors_of_rank_0_are_judged(kind: str, tmp_path: Path) -> None:
    model = Model(kind=kind)
    y = model.node("Sigmoid", model.node("Neg", model.input()), scale=0.01)
    assert judged(model.raw(y), tmp_path).comparison.mismatches == 0


@pytest.mark.parametrize(
    "bounds", [(1.2, 4.0), (-4.0, -1.2), (-9.0, 9.0), (0.1, 9.0), (None, -1.2), (None, 9.0)]
)
@pytest.mark.parametrize("zero", [-128, 127])
@pytest.mark.parametrize("last", ["Identity", "Neg"])
def test_bounds_that_no_element_is_within(
    bounds: tuple[float | None, float], zero: int, last: str
) -> None:
    """All elements are the bound, which the quantisation of the input cannot represent."""
    model = Model(zero=zero)
    x = model.input(1, 16, 16, scale=0.005)
    limits = ("" if b is None else model.constant(np.array(b, np.float32)) for b in bounds)
    y = model.node(last, model.node("Clip", x, *limits, scale=None), scale=None)
    assert worst_steps(model.raw(model.qdq(y, 0.03, zero=0))) <= 1


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("offset", [None, -2, 0, 3])
@pytest.mark.parametrize("scale", [0.05, 0.03])
def test_a_triangle(upper: int, offset: int | None, scale: float) -> None:
    model = Model(opset=14)
    inputs = [model.input(2, 3, 5, 6)]
    if offset is not None:
        inputs.append(model.constant(np.array(offset, INTS)))
    y = model.node("Trilu", *inputs, upper=upper, scale=scale)
    found = judged_by_onnxruntime(model.raw(y))
    assert found.steps <= (scale != 0.05)


def test_a_triangle_of_an_image() -> None:
    model = Model(opset=14)
    x = model.node("MaxPool", model.input(1, 3, 6, 8), kernel_shape=[2, 2])
    assert worst_steps(model.raw(model.node("Trilu", x, upper=0))) == 0


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("axis", [-1, 1])
def test_a_cumulative_sum(exclusive: int, reverse: int, axis: int) -> None:
    model = Model(opset=14)
    axes = model.constant(np.array(axis, INTS))
    attributes = {"exclusive": exclusive, "reverse": reverse}
    y = model.node("CumSum", model.input(2, 3, 7), axes, scale=0.2, **attributes)
    assert worst_steps(model.raw(y)) <= 1


def test_exclusive_or() -> None:
    model = Model()
    x = model.input(1, 16, 16)
    bounds = (model.constant(np.array(bound, np.float32)) for bound in (-1.0, 1.0))
    truths = [model.node("Less", x, bound, scale=None) for bound in bounds]
    chosen = model.node("Xor", *truths, scale=None)
    assert worst_steps(model.raw(model.node("Where", chosen, x, model.node("Neg", x)))) <= 1


@pytest.mark.parametrize(
    "kind", [onnx.TensorProto.BOOL, onnx.TensorProto.INT32, onnx.TensorProto.INT64]
)
def test_a_cast_of_real_numbers(kind: int) -> None:
    model = Model()
    x = model.node("MaxPool", model.input(1, 3, 16, 16), kernel_shape=[2, 2])
    model.output(model.node("Cast", x, to=kind, scale=None), kind)
    assert worst_steps(model.raw()) == 0


def test_a_cast_to_a_condition() -> None:
    model = Model()
    x = model.input(1, 16, 16)
    condition = model.node("Cast", x, to=onnx.TensorProto.BOOL, scale=None)
    y = model.node("Where", condition, x, model.node("Exp", x, scale=0.05))
    assert worst_steps(model.raw(y)) <= 1


POSITIONS = {
    "windows": ((2, 3, 6, 5), [[[0, 1], [1, -1]], [[-2, 0], [1, 2]]]),
    "elements": ((4, 5), [[0, 0], [3, 4], [-1, 0]]),
    "slices": ((4, 5, 2), [[3], [1]]),
    "many axes": ((2, 6, 3), [[[[0, 5]]], [[[1, 2]]]]),
}


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("scale", [0.05, 0.03])
def test_slices_at_positions(name: str, scale: float) -> None:
    shape, positions = POSITIONS[name]
    model = Model()
    x = model.input(*shape)
    y = model.node("GatherND", x, model.constant(np.array(positions, INTS)), scale=scale)
    assert worst_steps(model.raw(y)) <= (scale != 0.05)


def test_slices_of_an_image_at_positions() -> None:
    model = Model()
    x = model.node("MaxPool", model.input(1, 3, 6, 8), kernel_shape=[2, 2])
    positions = model.constant(np.array([[0, 2], [0, 0]], INTS))
    assert worst_steps(model.raw(model.node("GatherND", x, positions))) == 0


@pytest.mark.parametrize(
    ("sizes", "attributes"),
    [
        *(([1, 4, 0, 2], {"axis": 2}), (3, {"axis": 2}), (None, {"axis": -1})),
        (None, {"axis": 1, "keepdims": 0}),
    ],
)
@pytest.mark.parametrize("index", [0, 1])
def test_an_element_of_a_sequence(
    sizes: list[int] | int | None, attributes: dict[str, int], index: int
) -> None:
    model = Model()
    inputs = [model.input(2, 3, 7)]
    if sizes is not None:
        inputs.append(model.constant(np.array(sizes, INTS)))
    parts = model.node("SplitToSequence", *inputs, scale=None, **attributes)
    number = model.constant(np.array(index, INTS))
    assert worst_steps(model.raw(model.node("SequenceAt", parts, number))) == 0


@pytest.mark.parametrize("operator", ["Equal", "Greater"])
@pytest.mark.parametrize("kind", [onnx.TensorProto.INT32, onnx.TensorProto.INT64])
def test_comparisons_of_integers(operator: str, kind: int) -> None:
    model = Model()
    x = model.input(1, 16, 16)
    whole = model.node("Cast", x, to=kind, scale=None)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind)
    found = model.node(operator, whole, model.constant(np.array([2, -1] * 8, dtype)), scale=None)
    model.output(found, onnx.TensorProto.BOOL)
    assert worst_steps(model.raw()) == 0


@pytest.mark.parametrize("operator", ["Gemm", "MatMul"])
def test_real_weights_of_one_magnitude(operator: str) -> None:
    """onnxruntime's quantiser leaves matrices of one element as they are."""
    model = Model()
    columns = np.array([[4.016, 0, -0.3], [-4.016, 0.01, 0.3], [4.016, 0, 0.0]], np.float32)
    y = model.node(operator, model.input(6, 3), model.constant(columns), scale=0.2)
    assert worst_steps(model.raw(y)) <= 1


def test_real_weights_of_several_magnitudes() -> None:
    model = Model()
    y = model.node("MatMul", model.input(6, 3), model.constant(np.eye(3, dtype=np.float32) + 1))
    assert worst_steps(model.raw(y)) <= 1


EMPTY_PARTS: dict[str, Grow] = {
    "expand": one("Expand", (1, 3), [0, 3]),
    "tile": one("Tile", (1, 3), [0, 1]),
    "crop": one("Pad", (1, 3), [0, -2, 0, -1]),
    "gather": one("Gather", (1, 3), np.array([], INTS), axis=1),
    "slice": one("Slice", (1, 3), [2], [1], [1]),
    "split": one("Split", (1, 4), [0, 4], axis=1, count=2),
    "resize": one("Resize", IMAGE, "", "", [1, 3, 6, 0]),
}


@pytest.mark.parametrize("grow", EMPTY_PARTS.values(), ids=EMPTY_PARTS)
def test_results_without_elements_are_refused(grow: Grow) -> None:
    model = Model()
    with pytest.raises(UnsupportedError, match="must not be empty"):
        worst_steps(model.raw(grow(model)))


@pytest.mark.parametrize("operator", ["Conv", "Relu", "ReduceMax", "Softmax", "Resize"])
def test_nodes_that_read_a_tensor_without_elements_are_refused(operator: str) -> None:
    model = Model()
    listed = (model.constant(np.array([number], INTS)) for number in (9, 12, 1))
    inputs = [model.node("Slice", model.input(*IMAGE), *listed)]
    if operator == "Conv":
        inputs.append(model.weights(4, 3, 1, 1))
    if operator == "Resize":
        inputs += ["", model.constant(np.array([1, 1, 2, 2], np.float32))]
    with pytest.raises(UnsupportedError, match="must not be empty"):
        worst_steps(model.raw(model.node(operator, *inputs)))


@pytest.mark.parametrize("extents", [(0, 4), (2, 0)])
def test_inputs_without_elements_are_refused(extents: tuple[int, ...]) -> None:
    model = Model()
    y = model.node("Relu", model.input(*extents))
    with pytest.raises(UnsupportedError) as caught:
        graph_of(model.raw(y))
    assert "input" in caught.value.where
    assert "report" not in caught.value.help


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("moved", ["", "Transpose", "Identity"])
@pytest.mark.parametrize("extent", [1, 3])
def test_a_part_without_elements_is_no_part_of_a_concatenation(
    extent: int, moved: str, kind: str
) -> None:
    """As `torch.roll` makes them of an axis of 1: the last part precedes the others."""
    model = Model(kind=kind)
    x = model.input(2, extent, 4)
    shift, zero, end, axis = (model.constant(np.array([n], INTS)) for n in (1, 0, 99, 1))
    parts = [model.node("Slice", x, shift, end, axis), model.node("Slice", x, zero, shift, axis)]
    if moved:
        parts = [model.node(moved, part, scale=None) for part in parts]
    assert worst_steps(model.raw(model.node("Concat", *parts, axis=1, scale=0.04))) <= 1


@pytest.mark.parametrize("sizes", [[0, 4, 0], [1, 0, 3], [4, 0, 0]])
@pytest.mark.parametrize("scale", [0.05, None])
def test_parts_of_a_split_that_nothing_reads_may_be_empty(
    sizes: list[int], scale: float | None
) -> None:
    model = Model()
    split = model.constant(np.array(sizes, INTS))
    first = model.node("Split", model.input(2, 4), split, axis=1, count=3, scale=None)
    read = [f"{first[:-1]}{k}" for k, size in enumerate(sizes) if size]
    outputs = [model.qdq(name, scale) if scale else name for name in read]
    assert worst_steps(model.raw(*outputs)) <= 1


def test_what_no_output_depends_on_is_no_part_of_the_network() -> None:
    """A part of a split that nothing reads, and nodes without a scale or an operator file."""
    model = Model()
    first = model.node("Split", model.input(2, 4), axis=1, count=2, scale=None)
    unread = model.node("Mod", model.node("Relu", first, scale=None), first, scale=None, fmod=1)
    model.node("NonZero", unread, scale=None)
    y = model.qdq(f"{first[:-1]}1", 0.04)
    assert worst_steps(model.raw(y)) <= 1


def test_a_constant_without_elements_is_no_part_of_a_concatenation() -> None:
    model = Model()
    nothing = model.constant(np.zeros((2, 0), np.float32))
    y = model.node("Concat", model.input(2, 4), nothing, axis=1, scale=0.04)
    assert worst_steps(model.raw(y)) <= 1


@pytest.mark.parametrize("shapes", [((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5))])
def test_products_of_computed_matrices_without_a_scale(shapes: tuple[tuple[int, ...], ...]) -> None:
    model = Model()
    a, b = (model.input(*shape, name=name) for shape, name in zip(shapes, "ab", strict=True))
    total = model.node("MatMul", a, b, scale=None)
    y = model.node("Softmax", total, scale=0.004)
    assert worst_steps(model.raw(y, total)) <= 1


@pytest.mark.parametrize("operator", ["InstanceNormalization", "LayerNormalization"])
def test_standardisation_of_equal_elements(operator: str) -> None:
    """Their mean has the rounding of a sum, which the root of epsilon magnifies 300 times."""
    model = Model(opset=17)
    x = model.input(1, 1 if operator[0] == "I" else 64, 12, scale=317.3)
    one, zero = (model.constant(np.full(1, n, np.float32)) for n in (1, 0))
    bound = model.constant(np.float32(83 * 317.3))
    small = model.node("Clip", x, bound, bound, scale=317.3)
    if operator == "LayerNormalization":
        one = model.constant(np.ones(12, np.float32))
        y = model.node(operator, small, one, scale=0.01)
    else:
        y = model.node(operator, small, one, zero, scale=0.01)
    assert worst_steps(model.raw(y)) <= 1


@pytest.mark.parametrize("groups", [1, 2])
def test_a_convolution_of_volumes(groups: int) -> None:
    model = Model()
    weights = model.reals(4, 2 // groups, 2, 3, 3)
    extents = {"strides": [2, 1, 2], "pads": [1, 1, 0, 0, 1, 1], "dilations": [2, 1, 1]}
    y = model.node("Conv", model.input(1, 2, 5, 6, 4), weights, group=groups, **extents)
    assert worst_steps(model.raw(y)) <= 1


@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool", "LpPool"])
def test_pools_of_volumes(operator: str) -> None:
    """Of real numbers: the mean of a convolution without a scale."""
    model = Model()
    x = model.node("Conv", model.input(1, 2, 5, 6, 4), model.reals(3, 2, 1, 1, 1), scale=None)
    extents = {"kernel_shape": [2, 3, 2], "strides": [2, 1, 2], "pads": [1, 1, 0, 0, 1, 1]}
    assert worst_steps(model.raw(model.node(operator, x, **extents, scale=0.05))) <= 1


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_a_resize_of_elements_interpolates(kind: str) -> None:
    model = Model(kind=kind)
    model.input(1, 2, 4, 5)
    scales = model.constant(np.array([1, 1, 2, 1.5], np.float32))
    found = model.node("Resize", "x_q", "", scales, scale=None, mode="linear")
    parts = (model.constant(np.float32(0.05)), model.constant(np.array(0, kind)))
    assert worst_steps(model.raw(model.node("DequantizeLinear", found, *parts, scale=None))) <= 1


MANY_AXES: dict[str, Grow] = {
    "mean of volumes": one("GlobalAveragePool", (1, 3, 2, 4, 5), scale=0.03),
    "product with anchors": lambda m: m.node(
        "Mul", m.input(1, 2, 4, 4, 2), m.input(1, 2, 1, 1, 2, name="y"), scale=0.2
    ),
    "sum with a grid": one("Add", (1, 2, 4, 4, 2), reals(1, 1, 4, 4, 2)),
}


@pytest.mark.parametrize("name", MANY_AXES)
def test_operators_take_more_axes_than_kernels(name: str) -> None:
    model = Model()
    assert worst_steps(model.raw(MANY_AXES[name](model))) <= 1


@pytest.mark.parametrize("operator", ["Abs", "Sign"])
@pytest.mark.parametrize("kind", ["UINT8", "INT8"])
def test_functions_of_one_integer(operator: str, kind: str) -> None:
    code = onnx.TensorProto.DataType.Value(kind)
    x = onnx.helper.make_tensor_value_info("x", code, (1, 3, 8, 4))
    y = onnx.helper.make_tensor_value_info("y", code, None)
    graph = onnx.helper.make_graph([onnx.helper.make_node(operator, ["x"], ["y"])], "g", [x], [y])
    opsets = [onnx.helper.make_opsetid("", 13)]
    raw = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    assert judged_by_onnxruntime(raw).steps == 0


def real_corners(factor: float) -> bytes:
    model = Model(quantised=False, opset=19)
    factors = model.constant(np.array([1, 1, factor, 1], np.float32))
    how = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    model.output(model.node("Resize", model.input(1, 2, 6, 9), "", factors, **how))
    return model.raw()


def test_corners_of_real_numbers_are_aligned_where_the_length_is_whole() -> None:
    assert judged_by_onnxruntime(real_corners(1.5)).steps <= 1
    assert judged_by_onnxruntime(real_corners(7 / 6)).steps <= 1
    with pytest.raises(UnsupportedError, match=r"6 elements become 7\.5"):
        judged_by_onnxruntime(real_corners(1.25))


FINE_BIASES: dict[str, Grow] = {
    "Conv": lambda m: m.node(
        "Conv", m.input(*IMAGE, scale=30), m.weights(6, 3, 1, 1), m.reals(6), pads=[1] * 4
    ),
    "depthwise": lambda m: m.node(
        "Conv", m.input(*IMAGE, scale=30), m.weights(3, 1, 1, 1), m.reals(3), pads=[1] * 4, group=3
    ),
    "Gemm": lambda m: m.node("Gemm", m.input(2, 7, scale=30), m.weights(7, 4, axis=1), m.reals(4)),
    "ConvTranspose": lambda m: m.node(
        "ConvTranspose", m.input(*IMAGE, scale=30), m.weights(3, 4, 1, 1, axis=1), m.reals(4),
        strides=[2, 2],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FINE_BIASES)
def test_biases_finer_than_the_accumulators_are_kept(case: str) -> None:
    """A step of the accumulators is larger than one of the output, at least 0.06 beside 0.05."""
    model = Model()
    found = judged_by_onnxruntime(model.raw(FINE_BIASES[case](model)))
    assert found.steps <= 1
    assert DType.FLOAT32 in {node.output.type.dtype for node in found.graph.nodes}


def test_celu_of_large_numbers() -> None:
    """exp of them overflows, and is not their function."""
    model = Model()
    assert (
        judged_by_onnxruntime(
            model.raw(model.node("Celu", model.input(*IMAGE, scale=30), scale=30))
        ).steps
        <= 1
    )


@pytest.mark.parametrize(
    ("split", "axes", "batch"),
    [
        ((3, 2, 2), (0, 1, 4, 2, 5, 3), 1),
        ((2, 2, 3), (0, 3, 4, 1, 5, 2), 0),
        ((3, 4, 4), (0, 1, 4, 2, 5, 3), -1),
    ],
)
def test_blocks_of_channels_that_a_transpose_spreads_over_pixels(
    split: tuple[int, ...], axes: tuple[int, ...], batch: int, tmp_path: Path
) -> None:
    (channels, block) = (split[0], split[1]) if axes[1] == 1 else (split[2], split[0])
    text = f"""<ir_version: 8, opset_import: ["" : 10]>
        net (float[1,{math.prod(split)},3,5] x) => (float[1,{channels},{3 * block},{5 * block}] y)
        <int64[6] six = {{{batch}, {", ".join(map(str, split))}, 3, 5}},
         int64[4] four = {{0, 0, {3 * block}, {5 * block}}}>
        {{ a = Relu (x)
           b = Reshape (a, six)
           c = Transpose <perm = {list(axes)}> (b)
           y = Reshape (c, four) }}"""
    raw = onnx.parser.parse_model(text).SerializeToString()
    assert "DepthToSpace" in kinds(graph_of(raw))
    assert judged(raw, tmp_path).failure is None


@pytest.mark.parametrize("scale", [0.05, 0.06])
def test_blocks_of_channels_with_quantised_tensors_between(scale: float, tmp_path: Path) -> None:
    """As onnxruntime quantises such nodes; with another scale, elements change between them."""
    model = Model()
    x = model.node("Conv", model.input(1, 2, 3, 5), model.weights(12, 2, 1, 1), scale=0.05)
    six = model.constant(np.array([1, 3, 2, 2, 3, 5], np.int64))
    x = model.node("Reshape", x, six, scale=0.05)
    x = model.node("Transpose", x, perm=[0, 1, 4, 2, 5, 3], scale=scale)
    four = model.constant(np.array([1, 3, 6, 10], np.int64))
    raw = model.raw(model.node("Reshape", x, four, scale=scale))
    assert ("DepthToSpace" in kinds(graph_of(raw))) == (scale == 0.05)
    assert judged(raw, tmp_path).failure is None


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("axis", [0, 1, -2, 2])
def test_vectors_of_old_opsets_along_several_axes(name: str, axis: int, tmp_path: Path) -> None:
    text = f"""<ir_version: 7, opset_import: ["" : 11]>
        net (float[2,3,5] x) => (float[2,3,5] y) {{ y = {name} <axis = {axis}> (x) }}"""
    raw = onnx.parser.parse_model(text).SerializeToString()
    assert judged(raw, tmp_path).failure is None


def test_a_long_axis_is_resized_at_exact_positions() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
        net (float[1,1,3465,2] x) => (float[1,1,1,2] y) <int64[4] sizes = {1, 1, 1, 2}>
        { y = Resize <mode = "cubic"> (x, , , sizes) }"""
    graph = graph_of(onnx.parser.parse_model(text).SerializeToString())
    x = reals(1, 1, 3465, 2)
    found = run_graph(graph, {graph.inputs[0].name: x})[graph.outputs[0].name]
    np.testing.assert_allclose(found.ravel(), x[0, 0, 1732], rtol=1e-6)


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_images_are_sampled_outside_of_their_borders(
    mode: str, padding: str, align: int, tmp_path: Path
) -> None:
    text = f"""<ir_version: 8, opset_import: ["" : 16]>
        net (float[1,2,5,7] x, float[1,3,4,2] at) => (float[1,2,3,4] y)
        {{ y = GridSample <mode = "{mode}", padding_mode = "{padding}", align_corners = {align}>
           (x, at) }}"""
    raw = onnx.parser.parse_model(text).SerializeToString()
    assert judged(raw, tmp_path).failure is None


@pytest.mark.parametrize("parameters", ['"", factors', '"", "", sizes'])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("where", ["half_pixel", "align_corners", "asymmetric"])
def test_volumes_are_resized(parameters: str, mode: str, where: str, tmp_path: Path) -> None:
    text = f"""<ir_version: 8, opset_import: ["" : 18]>
        net (float[1,2,3,4,5] x) => (float[1,2,6,8,5] y)
        <float[5] factors = {{1.0, 1.0, 2.0, 2.0, 1.0}}, int64[5] sizes = {{1, 2, 6, 8, 5}}>
        {{ y = Resize <mode = "{mode}", keep_aspect_ratio_policy = "stretch",
                      coordinate_transformation_mode = "{where}", nearest_mode = "floor">
           (x, {parameters}) }}"""
    raw = onnx.parser.parse_model(text).SerializeToString()
    assert judged(raw, tmp_path).failure is None


def test_volumes_of_one_ratio_are_not_resized() -> None:
    text = """<ir_version: 8, opset_import: ["" : 18]>
        net (float[1,2,3,4,5] x) => (float[1,2,6,8,10] y) <int64[3] sizes = {6, 8, 10}>
        { y = Resize <axes = [2, 3, 4], keep_aspect_ratio_policy = "not_larger">
              (x, "", "", sizes) }"""
    with pytest.raises(UnsupportedError, match="input has 5 axes, must have 4"):
        graph_of(onnx.parser.parse_model(text).SerializeToString())


@pytest.mark.parametrize("shape", [(2, 4, 3, 2, 5), (1, 4, 3, 5), (1, 4, 7)])
@pytest.mark.parametrize("operator", ["Instance", "Batch", "Group"])
def test_normalisations_of_volumes(operator: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    extents = ",".join(map(str, shape))
    inputs = "x, factor, offset" + (", offset, factor" if operator == "Batch" else "")
    groups = "<num_groups = 2>" if operator == "Group" else ""
    text = f"""<ir_version: 10, opset_import: ["" : 21]> net (float[{extents}] x) =>
        (float[{extents}] y) <float[4] factor = {{1.5, 0.5, 2.0, 1.0}},
                              float[4] offset = {{0.5, -0.1, 0.2, 0.0}}>
        {{ y = {operator}Normalization {groups} ({inputs}) }}"""
    raw = onnx.parser.parse_model(text).SerializeToString()
    assert judged(raw, tmp_path).failure is None


@pytest.mark.parametrize("operator", ["ReduceMean", "ReduceL2", "ReduceMax", "ReduceLogSumExp"])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_axes_are_reduced_in_turn(operator: str, keepdims: int, tmp_path: Path) -> None:
    """As PyTorch exports an adaptive pool whose bins overlap."""
    shape = "2,1,4,1,1,3" if keepdims else "2,4,1,3"
    text = f"""<ir_version: 8, opset_import: ["" : 13]>
        net (float[2,3,4,3,1,3] x) => (float[{shape}] y)
        {{ y = {operator} <axes = [1, 3], keepdims = {keepdims}> (x) }}"""
    raw = onnx.parser.parse_model(text).SerializeToString()
    assert judged(raw, tmp_path).failure is None


@pytest.mark.parametrize("offset", [False, True])
def test_products_of_computed_matrices_with_an_offset(offset: bool, tmp_path: Path) -> None:
    """As `torch.addmm` is exported and quantised."""
    model = Model()
    x, w = model.input(3, 10), model.input(4, 10, name="w", scale=0.03)
    parts = (x, w, model.input(3, 4, name="c", scale=0.1)) if offset else (x, w)
    raw = model.raw(model.node("Gemm", *parts, transB=1, alpha=2.0, beta=0.5, scale=0.2))
    assert judged(raw, tmp_path).failure is None
