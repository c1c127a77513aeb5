"""uint8 networks are read as int8 networks, element for element."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from available import path_of
from benchmarks.operators.reference import Reference, Refusal, tflite_micro
from benchmarks.operators.unsigned import detections
from penstock.errors import UnsupportedError
from penstock.frontends.open import parse, read_bytes
from penstock.ir.graph import Graph
from penstock.ir.tensor import DType
from penstock.opkit.layers import WIDE
from penstock.simulators.graph import run_graph
from tools.tflite_writer import OperatorSpec, TensorSpec, write_tflite

X = TensorSpec("x", (1, 4, 4, 2), "uint8", (0.5,), (140,))
Y = TensorSpec("y", (1, 4, 4, 3), "uint8", (2.0,), (7,))


def layer(weights: TensorSpec) -> Graph:
    """A convolution of single pixels."""
    raw = write_tflite(
        (X, weights, Y), (OperatorSpec("CONV_2D", (0, 1), (2,), STRIDE),), (0,), (2,)
    )
    return parse(raw, "layer.tflite")


STRIDE = {"stride_h": 1, "stride_w": 1, "padding": "VALID"}


def kernel(zero: int, *elements: int) -> TensorSpec:
    data = np.array(elements, np.uint8).reshape(3, 1, 1, 2)
    return TensorSpec("w", data.shape, "uint8", (0.25,), (zero,), data=data)


def test_inputs_and_outputs_stay_uint8_and_all_else_is_int8() -> None:
    graph = layer(kernel(128, 0, 255, 128, 3, 9, 77))
    assert [v.type.dtype for v in (*graph.inputs, *graph.outputs)] == [DType.UINT8] * 2
    shift, conv, back = graph.nodes
    assert (shift.kind, conv.kind, back.kind) == ("ShiftZero", "Conv2D", "ShiftZero")
    assert (conv.inputs[0].type.zero_point, conv.output.type.zero_point) == (12, -121)


@pytest.mark.parametrize(
    ("zero", "dtype"), [(128, DType.INT8), (127, WIDE), (0, WIDE), (250, WIDE)]
)
def test_weights_are_wide_only_where_int8_does_not_hold_them(zero: int, dtype: DType) -> None:
    weights = layer(kernel(zero, 0, 255, 128, 3, 9, 77)).nodes[1].inputs[1]
    assert weights.type.dtype is dtype
    assert weights.data is not None
    found = weights.data.array(weights.type).ravel()
    assert found.tolist() == [element - zero for element in (0, 255, 128, 3, 9, 77)]


def test_elements_are_those_of_the_reference() -> None:
    # (x - 140) * (w - 250) * 0.5 * 0.25 / 2, plus 7
    graph = layer(kernel(250, 0, 255, 128, 3, 9, 77))
    x = np.zeros(X.shape, np.uint8)
    x[..., 0], x[..., 1] = 141, 142
    y = run_graph(graph, {"x": x})["y"]
    sums = [-250 + 2 * 5, -122 - 2 * 247, -241 - 2 * 173]
    assert y[0, 0, 0].tolist() == [max(0, 7 - round(-s / 16)) for s in sums]


def test_several_scales_of_uint8_weights_are_refused() -> None:
    weights = kernel(128, 0, 255, 128, 3, 9, 77)
    weights = TensorSpec(
        "w", weights.shape, "uint8", (0.25, 0.5, 1.0), (1, 2, 3), data=weights.data
    )
    with pytest.raises(UnsupportedError) as caught:
        layer(weights)
    assert "must have one scale" in caught.value.what


def test_mobilenet_is_exact() -> None:
    name = "mobilenet_v1_0.25_128_quant_uint8"
    path = Path(path_of(name))
    goldens = np.load(path.parent / "goldens" / f"{name}.npz")
    graph = parse(read_bytes(path), path.name)
    found = run_graph(graph, {graph.inputs[0].name: goldens["in0_set0"]})
    np.testing.assert_array_equal(found[graph.outputs[0].name], goldens["out0_set0"])


CASES = Path(__file__).parents[2] / "cases" / "uint8_operators.npz"
"""Models of one operator, with inputs and the outputs of TensorFlow 2.19.1, reference kernels
(BUILTIN_REF); made by `python -m benchmarks.operators.unsigned --write`."""
RECORDED = np.load(CASES)


@pytest.mark.parametrize("case", sorted({name.rsplit("/", 1)[0] for name in RECORDED.files}))
def test_operators_agree_with_tensorflow(case: str) -> None:
    graph = parse(RECORDED[f"{case}/model"].tobytes(), case)
    inputs = {v.name: RECORDED[f"{case}/in{k}"] for k, v in enumerate(graph.inputs)}
    values = run_graph(graph, inputs)
    for k, output in enumerate(graph.outputs):
        constant = None if output.data is None else output.data.array(output.type)
        found = values[output.name] if constant is None else constant
        np.testing.assert_array_equal(found, RECORDED[f"{case}/out{k}"])


@pytest.mark.parametrize("number", range(12))
def test_detections_on_dequantised_operands_agree_with_tensorflow_lite_micro(number: int) -> None:
    drawn = detections(number)
    codes, scores, anchors, *outputs = drawn.tensors
    zero = anchors.zero_points[0]
    assert anchors.data is not None
    real = (anchors.data.astype(np.float32) - zero) * np.float32(anchors.scales[0])
    signed = [
        replace(spec, dtype="int8", zero_points=(spec.zero_points[0] - 128,))
        for spec in (codes, scores)
    ]
    reals = [TensorSpec(f"real_{spec.name}", spec.shape, "float32") for spec in (codes, scores)]
    table = TensorSpec("anchors", real.shape, "float32", data=real)
    operators = (
        OperatorSpec("DEQUANTIZE", (0,), (2,)),
        OperatorSpec("DEQUANTIZE", (1,), (3,)),
        replace(drawn.operator, inputs=(2, 3, 4), outputs=(5, 6, 7, 8)),
    )
    raw = write_tflite((*signed, *reals, table, *outputs), operators, (0, 1), (5, 6, 7, 8))
    inputs = tuple((x ^ 128).view(np.int8) for x in drawn.values)
    with Reference(tflite_micro()) as reference:
        answer = reference.run(raw, inputs)
    assert not isinstance(answer, Refusal), answer.reason
    graph = parse(raw, "detections.tflite")
    values = run_graph(graph, dict(zip([v.name for v in graph.inputs], inputs, strict=True)))
    count = int(answer[3][0])
    assert values[graph.outputs[3].name][0] == count
    for output, expected in zip(graph.outputs[:3], answer, strict=False):
        np.testing.assert_array_equal(values[output.name][:, :count], expected[:, :count])
