"""Attention as onnxruntime's transformer optimiser fuses it: judged by onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from onnx_judge import judged_by_onnxruntime
from onnx_models import graph_of
from penstock.errors import UnsupportedError
from tools.onnx_writer import Model

CONTRIBUTED = "com.microsoft"
HEADS, SIZE, STEPS = 2, 4, 5
HIDDEN = HEADS * SIZE


def integers(model: Model, *numbers: int, shape: tuple[int, ...]) -> str:
    return model.constant(np.array(numbers, np.int32).reshape(shape))


MASKS: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "lengths": ((3,), (1,)),
    "ends and starts": ((4, 1), (2,)),
    "keys": ((1, 0, 1, 1, 0), (1, STEPS)),
    "scores": (tuple(k % 3 for k in range(STEPS * STEPS)), (1, STEPS, STEPS)),
}


def of_one_tensor(mask: str = "", **attributes: Any) -> Model:
    model = Model(quantised=False)
    columns = sum(attributes.get("qkv_hidden_sizes", (HIDDEN,) * 3))
    inputs = [model.input(1, STEPS, 6), model.reals(6, columns), model.reals(columns, seed=2)]
    if mask:
        inputs.append(integers(model, *MASKS[mask][0], shape=MASKS[mask][1]))
    y = model.node("Attention", *inputs, domain=CONTRIBUTED, num_heads=HEADS, **attributes)
    model.output(y)
    return model


@pytest.mark.parametrize("mask", ["", *MASKS])
def test_masks(mask: str) -> None:
    assert judged_by_onnxruntime(of_one_tensor(mask).raw()).steps <= 1


FORMS: Mapping[str, Mapping[str, Any]] = {
    "causal": {"unidirectional": 1},
    "scaled": {"scale": 0.3},
    "values of another size": {"qkv_hidden_sizes": [HIDDEN, HIDDEN, 3 * HEADS]},
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str) -> None:
    assert judged_by_onnxruntime(of_one_tensor(**FORMS[form]).raw()).steps <= 1


def test_states_of_earlier_positions() -> None:
    model = Model(quantised=False)
    x, past = model.input(1, 3, 6), model.input(2, 1, HEADS, 2, SIZE, name="past")
    weights = model.reals(6, 3 * HIDDEN), model.reals(3 * HIDDEN, seed=2)
    model.node(
        "Attention", x, *weights, "", past,
        count=2, domain=CONTRIBUTED, num_heads=HEADS, unidirectional=1,
    )  # fmt: skip
    assert judged_by_onnxruntime(model.raw(*model.nodes[-1].output)).steps <= 1


def test_what_is_added_to_scores() -> None:
    model = Model(quantised=False)
    x, scores = model.input(1, 3, 6), model.input(1, HEADS, 3, 3, name="scores")
    parts = model.reals(6, 3 * HIDDEN), model.reals(3 * HIDDEN, seed=2), "", "", scores
    y = model.node("Attention", x, *parts, domain=CONTRIBUTED, num_heads=HEADS)
    assert judged_by_onnxruntime(model.raw(y)).steps <= 1


def test_quantised_attention() -> None:
    model = Model(quantised=False)
    rng = np.random.default_rng(3)
    weights = model.constant(rng.integers(-127, 128, (6, 3 * HIDDEN)).astype(np.int8))
    scale, zero = (model.constant(x) for x in (np.array(0.02, np.float32), np.array(7, np.uint8)))
    of_weights = model.constant((rng.random(3 * HIDDEN) / 100 + 0.001).astype(np.float32))
    zeros = model.constant(np.zeros(3 * HIDDEN, np.int8))
    x = model.node("QuantizeLinear", model.input(1, STEPS, 6), scale, zero)
    parts = (x, weights, model.reals(3 * HIDDEN), scale, of_weights, "", zero, zeros)
    y = model.node("QAttention", *parts, domain=CONTRIBUTED, num_heads=HEADS, unidirectional=1)
    assert judged_by_onnxruntime(model.raw(y)).steps <= 1


SHAPES: Mapping[str, tuple[tuple[int, ...], ...]] = {
    "of one length": ((1, STEPS, HIDDEN), (1, STEPS, HIDDEN), (1, STEPS, HIDDEN)),
    "across": ((2, 3, HIDDEN), (2, 4, HIDDEN), (2, 4, HEADS * 3)),
    "split": ((1, 3, HIDDEN), (1, HEADS, 4, SIZE), (1, HEADS, 4, SIZE)),
}


@pytest.mark.parametrize("case", SHAPES)
@pytest.mark.parametrize("biased", [False, True])
def test_attention_of_projections(case: str, biased: bool) -> None:
    model, shapes = Model(quantised=False), SHAPES[case]
    names = [model.input(*shape, name=f"x{k}") for k, shape in enumerate(shapes)]
    if biased:
        names.append(model.reals(2 * HIDDEN + shapes[2][-1]))
    y = model.node("MultiHeadAttention", *names, domain=CONTRIBUTED, num_heads=HEADS)
    if case == "split" and biased:
        with pytest.raises(UnsupportedError):
            graph_of(model.raw(y))
        return
    assert judged_by_onnxruntime(model.raw(y)).steps <= 1


def test_attention_of_projections_after_earlier_positions() -> None:
    model = Model(quantised=False)
    names = [model.input(1, 2, HIDDEN, name=name) for name in "qkv"]
    past = [model.input(1, HEADS, 3, SIZE, name=f"past_{name}") for name in "kv"]
    mask, scores = integers(model, 0, 1, 1, 1, 0, shape=(1, 5)), model.input(1, 1, 2, 5, name="s")
    model.node(
        "MultiHeadAttention", *names, "", mask, scores, *past,
        count=3, domain=CONTRIBUTED, num_heads=HEADS, unidirectional=1,
    )  # fmt: skip
    assert judged_by_onnxruntime(model.raw(*model.nodes[-1].output)).steps <= 1


@pytest.mark.parametrize("masked", [False, True])
def test_embeddings(masked: bool) -> None:
    model = Model(quantised=False)
    ids = model.node("Cast", model.node("Abs", model.input(1, STEPS)), to=6)
    segments = integers(model, 0, 1, 1, 0, 0, shape=(1, STEPS))
    tables = [model.reals(rows, HIDDEN, seed=rows) for rows in (9, 6, 2)]
    mask = [integers(model, 1, 1, 1, 0, 0, shape=(1, STEPS))] if masked else []
    parts = (*tables, model.reals(HIDDEN), model.reals(HIDDEN, seed=4), *mask)
    y = model.node("EmbedLayerNormalization", ids, segments, *parts, count=2, domain=CONTRIBUTED)
    mask_index = model.nodes[-1].output[1]
    x = model.node("Attention", y, model.reals(HIDDEN, 3 * HIDDEN), model.reals(3 * HIDDEN),
                   *[mask_index] * masked, domain=CONTRIBUTED, num_heads=HEADS)  # fmt: skip
    assert judged_by_onnxruntime(model.raw(x)).steps <= 1


def test_namesakes_of_onnx_operators_are_not_mistaken_for_them() -> None:
    model = Model(opset=23, quantised=False)
    positions = model.constant(np.arange(STEPS, dtype=np.int64)[None])
    tables = [model.reals(STEPS, SIZE // 2, seed=k) for k in (1, 2)]
    x = model.input(1, HEADS, STEPS, SIZE)
    y = model.node("RotaryEmbedding", x, positions, *tables, domain=CONTRIBUTED)
    with pytest.raises(UnsupportedError) as caught:
        graph_of(model.raw(y))
    assert caught.value.what == "com.microsoft.RotaryEmbedding: operator is not supported"
