"""Einsum, and the operators into which onnxruntime fuses others: judged by onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest

from onnx_judge import judged_by_onnxruntime
from onnx_models import graph_of
from penstock.errors import UnsupportedError
from tools.onnx_writer import Model

CONTRIBUTED = "com.microsoft"
Shape = tuple[int, ...]


def product_of(equation: str, *shapes: Shape, quantised: bool = False) -> Model:
    model = Model(quantised=quantised)
    names = [model.input(*shape, name=f"x{k}") for k, shape in enumerate(shapes)]
    model.output(model.node("Einsum", *names, equation=equation))
    return model


EQUATIONS: Mapping[str, tuple[Shape, ...]] = {
    "bij,bjk->bik": ((2, 3, 4), (2, 4, 5)),
    "bid,de,bje->bij": ((1, 3, 4), (4, 5), (1, 2, 5)),
    "ij,j": ((3, 4), (4,)),
    "i,j->ij": ((3,), (4,)),
    "i,j->ji": ((3,), (4,)),
    "bhqd,bhkd->bhqk": ((1, 2, 3, 4), (1, 2, 5, 4)),
    "...ij,...jk->...ik": ((2, 3, 4), (2, 4, 5)),
    "bid,iod->bo": ((1, 3, 4), (3, 2, 4)),
    "ij->": ((3, 4),),
    "ji": ((3, 4),),
    "ab,cd->": ((2, 3), (4, 5)),
    "bcij, cd -> bdij": ((1, 3, 2, 4), (3, 5)),
    "bi,bi->b": ((2, 3), (2, 3)),
    "bghid,bghjd->bghij": ((1, 2, 2, 3, 4), (1, 2, 2, 5, 4)),
}


@pytest.mark.parametrize("equation", EQUATIONS)
def test_sums_of_products(equation: str) -> None:
    model = product_of(equation, *EQUATIONS[equation])
    assert judged_by_onnxruntime(model.raw()).steps <= 1


def test_a_quantised_sum_of_products() -> None:
    model = product_of("bij,bjk->bik", (1, 3, 4), (1, 4, 5), quantised=True)
    assert judged_by_onnxruntime(model.raw()).steps <= 1


def test_extents_may_follow_from_shapes() -> None:
    """Of a part of a tensor, as exporters of torch write `chunk`."""
    model = Model(quantised=False)
    x = model.input(1, 4, 6)
    zero, axis = (model.constant(np.array([k], np.int64)) for k in (0, 2))
    extent = model.node("Gather", model.node("Shape", x), axis, axis=0)
    half = model.node("Slice", x, zero, model.node("Div", extent, axis), axis)
    model.output(model.node("Einsum", half, half, equation="bij,bkj->bik"))
    assert judged_by_onnxruntime(model.raw()).steps <= 1


def test_indices_may_follow_from_shapes() -> None:
    """In rank 2, as exporters of torch write `unfold`."""
    model = Model(quantised=False)
    x = model.input(1, 2, 3)
    zero, one = (model.constant(np.array([k], np.int64)) for k in (0, 1))
    indices = model.node("Sub", model.node("Shape", x), one)
    model.output(model.node("Gather", x, model.node("Unsqueeze", indices, zero), axis=2))
    assert judged_by_onnxruntime(model.raw()).steps == 0


def test_a_diagonal_is_refused() -> None:
    with pytest.raises(UnsupportedError) as caught:
        graph_of(product_of("ii->i", (3, 3)).raw())
    assert caught.value.what == "Einsum: operator is not supported"


def with_activation(name: str, **attributes: Any) -> tuple[str, Sequence[Shape], Mapping[str, Any]]:
    shapes = ((1, 3, 5, 5), (4, 3, 3, 3), (4,))
    return "FusedConv", shapes, {"activation": name, "pads": [1, 1, 1, 1], **attributes}


FUSED: Mapping[str, tuple[str, Sequence[Shape], Mapping[str, Any]]] = {
    "relu": with_activation("Relu"),
    "clip": with_activation("Clip", activation_params=[-0.2, 0.5]),
    "leaky": with_activation("LeakyRelu", activation_params=[0.2]),
    "hard sigmoid": with_activation("HardSigmoid", activation_params=[0.3, 0.4]),
    "with a sum": ("FusedConv", ((1, 3, 4, 4), (4, 3, 1, 1), (4,), (1, 4, 4, 4)),
                   {"activation": "Sigmoid"}),
    "gemm": ("FusedGemm", ((2, 3), (4, 3), (4,)),
             {"activation": "LeakyRelu", "activation_alpha": 0.3, "transB": 1}),
    "product": ("FusedMatMul", ((2, 4, 3), (2, 4, 5)), {"transA": 1, "alpha": 0.5}),
    "transposed batches": ("FusedMatMul", ((3, 2, 4), (5, 2, 4)),
                           {"transBatchA": 1, "transBatchB": 1, "transB": 1}),
    "quick gelu": ("QuickGelu", ((2, 5),), {"alpha": 1.5}),
    "biased gelu": ("BiasGelu", ((2, 5), (5,)), {}),
    "fast gelu": ("FastGelu", ((2, 5), (5,)), {}),
    "skip": ("SkipLayerNormalization", ((1, 2, 6), (1, 2, 6), (6,), (6,), (6,)),
             {"epsilon": 1e-3}),
    "skip without means": ("SkipSimplifiedLayerNormalization", ((1, 2, 6), (1, 2, 6), (6,)), {}),
}  # fmt: skip


@pytest.mark.parametrize("case", FUSED)
def test_fused_operators(case: str) -> None:
    operator, shapes, attributes = FUSED[case]
    model = Model(opset=20, quantised=False)
    computed = 2 if "MatMul" in operator or "Skip" in operator else 1
    names = [
        model.input(*shape, name=f"x{k}") if k < computed or (k == 3 and "Conv" in operator)
        else model.reals(*shape, seed=k)
        for k, shape in enumerate(shapes)
    ]  # fmt: skip
    model.output(model.node(operator, *names, domain=CONTRIBUTED, **attributes))
    assert judged_by_onnxruntime(model.raw()).steps <= 1


def test_the_sum_before_a_normalisation_is_an_output() -> None:
    model = Model(opset=20, quantised=False)
    names = [model.input(1, 2, 6, name=f"x{k}") for k in (0, 1)]
    scale = model.reals(6)
    y = model.node("SkipLayerNormalization", *names, scale, count=4, domain=CONTRIBUTED)
    node = model.nodes[-1]
    node.output[1] = node.output[2] = ""
    model.output(y)
    model.output(node.output[3])
    assert judged_by_onnxruntime(model.raw()).steps <= 1


def test_products_of_dynamically_quantised_matrices() -> None:
    model = Model(quantised=False)
    rng = np.random.default_rng(3)
    weights = model.constant(rng.integers(-127, 128, (6, 4)).astype(np.int8))
    scale = model.constant((rng.random(4) / 100 + 0.001).astype(np.float32))
    zero = model.constant(np.zeros(4, np.int8))
    parts = (weights, scale, zero, model.reals(4))
    y = model.node("DynamicQuantizeMatMul", model.input(3, 6), *parts, domain=CONTRIBUTED)
    model.output(y)
    assert judged_by_onnxruntime(model.raw()).steps <= 1


def test_products_of_integers_as_real_numbers() -> None:
    model = Model(quantised=False)
    weights = model.constant(np.random.default_rng(3).integers(-127, 128, (6, 4)).astype(np.int8))
    parts = (0.02, np.float32), (7, np.uint8), (0.03, np.float32), (0, np.int8)
    scale, zero, scale_b, zero_b = (model.constant(np.array(x, dtype)) for x, dtype in parts)
    a = model.node("QuantizeLinear", model.input(3, 6), scale, zero)
    inputs = (a, weights, scale, scale_b, zero, zero_b, model.reals(4))
    y = model.node("MatMulIntegerToFloat", *inputs, domain=CONTRIBUTED)
    assert judged_by_onnxruntime(model.raw(y)).steps <= 1


def test_a_simplified_normalisation() -> None:
    model = Model(quantised=False)
    inputs = (model.input(2, 3, 8), model.reals(8))
    y = model.node("SimplifiedLayerNormalization", *inputs, axis=-1, epsilon=1e-6)
    assert judged_by_onnxruntime(model.raw(y)).steps <= 1


def test_an_activation_that_is_unknown_is_refused() -> None:
    model = Model(quantised=False)
    inputs = (model.input(3, 4), model.reals(4, 5))
    y = model.node("FusedGemm", *inputs, domain=CONTRIBUTED, activation="Cosh")
    with pytest.raises(UnsupportedError) as caught:
        graph_of(model.raw(y))
    assert caught.value.what == "FusedGemm: operator is not supported"


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_at_a_matrix_of_indices(axis: int) -> None:
    model = Model()
    indices = model.constant(np.array([[0, 2], [-1, 1], [1, 1]], np.int64))
    y = model.node("Gather", model.input(3, 4, 5), indices, axis=axis)
    assert judged_by_onnxruntime(model.raw(y)).steps <= 1


def dynamic(operator: str, x: Shape, w: Shape, **attributes: Any) -> bytes:
    """A product of a dynamically quantised tensor and int8 weights, as exporters write it."""
    model = Model(quantised=False)
    elements = np.random.default_rng(4).choice(np.array([-128, 127], np.int8), w)
    y = model.node("DynamicQuantizeLinear", model.input(*x), count=3)
    _, _, zero = model.nodes[-1].output
    y = model.node(operator, y, model.constant(elements), zero, **attributes)
    model.output(y, onnx.TensorProto.INT32)
    return model.raw()


@pytest.mark.parametrize("case", ["product", "convolution"])
def test_integer_sums_beyond_the_precision_of_real_numbers(case: str) -> None:
    if case == "product":
        raw = dynamic("MatMulInteger", (2, 1500), (1500, 3))
    else:
        raw = dynamic("ConvInteger", (1, 150, 5, 5), (2, 150, 3, 3), pads=[1, 1, 1, 1])
    assert judged_by_onnxruntime(raw).steps == 0


def test_a_dynamically_quantised_tensor_of_zeros_has_a_scale_of_one() -> None:
    model = Model(quantised=False)
    x = model.input(1, 3, 1, 4)
    model.node("DynamicQuantizeLinear", model.node("Sub", x, x), count=3)
    for name, kind in zip(model.nodes[-1].output, ("UINT8", "FLOAT", "UINT8"), strict=True):
        model.output(name, onnx.TensorProto.DataType.Value(kind))
    assert judged_by_onnxruntime(model.raw()).steps == 0


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_a_dynamically_quantised_lstm(direction: str) -> None:
    steps, inputs, units = 4, 3, 5
    count = 2 if direction == "bidirectional" else 1
    rng = np.random.default_rng(6)
    model = Model(quantised=False)

    def weights(*shape: int) -> tuple[str, str, str]:
        elements = model.constant(rng.integers(0, 255, shape).astype(np.uint8))
        scale = model.constant((rng.random(count) / 100 + 0.001).astype(np.float32))
        return elements, scale, model.constant(rng.integers(110, 140, count).astype(np.uint8))

    w, w_scale, w_zero = weights(count, inputs, 4 * units)
    r, r_scale, r_zero = weights(count, units, 4 * units)
    states = [model.reals(count, 1, units, seed=k) for k in (0, 1)]
    bias = model.reals(count, 8 * units)
    model.node(
        "DynamicQuantizeLSTM", model.input(steps, 1, inputs), w, r, bias, "", *states, "",
        w_scale, w_zero, r_scale, r_zero,
        count=3, domain=CONTRIBUTED, direction=direction, hidden_size=units,
    )  # fmt: skip
    raw = model.raw(*model.nodes[-1].output)
    assert judged_by_onnxruntime(raw).steps <= 1


FORMS: dict[str, dict[str, Any]] = {
    "clipped": {"clip": 0.4},
    "coupled": {"input_forget": 1},
    "rectified": {"activations": {"LSTM": ("Sigmoid", "Relu", "Relu"), "GRU": ("Relu", "Tanh")}},
    "hard": {
        "activations": {
            "LSTM": ("HardSigmoid", "Tanh", "LeakyRelu"),
            "GRU": ("HardSigmoid", "Elu"),
        },
        "activation_alpha": [0.25, 0.05],
        "activation_beta": [0.4],
    },
    "computed weights": {},
}


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layer", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_that_no_operator_computes(layer: str, form: str, direction: str) -> None:
    attributes = dict(FORMS[form])
    if "activations" in attributes:
        attributes["activations"] = attributes["activations"].get(layer, ("Softsign",))
    if (layer, form) in (("GRU", "coupled"), ("RNN", "coupled"), ("RNN", "hard")):
        pytest.skip("it has no such form")
    steps, inputs, units = 4, 3, 5
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[layer] * units
    count = 2 if direction == "bidirectional" else 1
    for key in ("activations", "activation_alpha", "activation_beta"):
        if key in attributes:
            attributes[key] = list(attributes[key]) * count
    model = Model(quantised=False)
    shapes = ((count, gates, inputs), (count, gates, units))
    is_computed = form == "computed weights"
    w, r = (
        model.input(*shape, name=name) if is_computed else model.reals(*shape)
        for name, shape in zip("wr", shapes, strict=True)
    )
    state = model.reals(count, 2, units, seed=3)
    states = ["", state, state] if layer == "LSTM" else ["", state]
    model.node(
        layer, model.input(steps, 2, inputs), w, r, model.reals(count, 2 * gates, seed=2), *states,
        count=3 if layer == "LSTM" else 2, direction=direction, hidden_size=units, **attributes,
    )  # fmt: skip
    assert judged_by_onnxruntime(model.raw(*model.nodes[-1].output)).steps <= 1


def test_axes_are_attributes_before_opset_13() -> None:
    """An LSTM by the exporter of opset 11 reads its state from a constant by Gather."""
    model = Model(opset=11, quantised=False)
    states = model.reals(2, 1, 1, 3)
    state = model.node("Gather", states, model.constant(np.array(1, np.int64)), axis=0)
    total = model.node("ReduceSum", model.input(4, 5, 3), axes=[0, 1], keepdims=0)
    y = model.node("Add", total, state)
    model.output(model.node("Einsum", y, model.reals(3, 2), equation="abi,ij->j"))
    model.opset = 12
    assert judged_by_onnxruntime(model.raw()).steps <= 1


def test_a_constant_of_several_scales_is_an_operand() -> None:
    """As torch writes biases of layers that it quantises by itself."""
    model = Model()
    x = model.input(1, 4, 6)
    y = model.node("Add", model.node("MatMul", x, model.weights(6, 3, axis=1)), model.weights(3))
    assert judged_by_onnxruntime(model.raw(y)).steps <= 1


@pytest.mark.parametrize("quantised", [True, False])
def test_a_normalisation_of_volumes(quantised: bool) -> None:
    model = Model(quantised=quantised)
    parts = [model.reals(3, seed=k) for k in range(3)]
    variance = model.constant(np.array([0.5, 1, 2], np.float32))
    x = model.node("Relu", model.input(1, 3, 2, 4, 5))
    y = model.node("BatchNormalization", x, *parts, variance)
    assert judged_by_onnxruntime(model.raw(y)).steps <= 1
