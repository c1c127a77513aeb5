"""LSTM and GRU of ONNX: against ONNX's reference evaluator, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from benchmarks.torture.generators.onnx_recurrent import draw_layer, verified
from onnx_models import graph_of, judged, kinds
from penstock.errors import ModelError, PenstockError
from penstock.ir.op import Site
from penstock.ir.tensor import DType, Quantisation, Region, TensorType
from penstock.ops.real_recurrent import RealHidden
from tools.onnx_recurrent import RecurrentLayer, add_layer
from tools.onnx_writer import Model

STEPS, DEPTH = 6, 3


def model_of(layer: RecurrentLayer, batch: int = 1, seed: int = 0) -> Model:
    model = Model(opset=14)
    shape = (batch, STEPS, DEPTH) if layer.batch_first else (STEPS, batch, DEPTH)
    x = model.input(*shape, scale=0.02)
    rng = np.random.default_rng(seed)
    model.output(add_layer(model, x, (STEPS, batch, DEPTH), layer, rng))
    return model


def raw_of(layer: RecurrentLayer, batch: int = 1, seed: int = 0) -> bytes:
    return model_of(layer, batch, seed).proto().SerializeToString()


VARIANTS = [
    RecurrentLayer(kind, 4, direction, batch_first, channels, bias, states, reset)
    for k, (kind, direction, batch_first, channels, bias, states, reset) in enumerate(
        product(
            ("LSTM", "GRU"),
            ("forward", "reverse", "bidirectional"),
            (False, True),
            (False, True),
            ("float32", "int8", "int32", ""),
            ("", "constant", "int8", "float32"),
            (False, True),
        )
    )
    if k % 23 == 0 and (kind == "GRU" or not reset)
]
"""A sample of all combinations."""


@pytest.mark.parametrize("layer", VARIANTS, ids=str)
def test_a_layer_is_within_a_step_of_real_arithmetic(layer: RecurrentLayer, tmp_path: Path) -> None:
    for batch in (1, 2):
        found = judged(raw_of(layer, batch), tmp_path, (0, 3))
        assert found.comparison.mismatches == 0, found.comparison.first
        assert found.differing <= found.comparison.elements // 100


@pytest.mark.parametrize(
    "number", [*range(4), *(pytest.param(n, marks=pytest.mark.long) for n in range(4, 60))]
)
def test_random_layers_are_within_a_step_of_real_arithmetic(number: int) -> None:
    """Also at every point of the frontier."""
    first, *others = verified(draw_layer(2, number), "machine").rungs
    assert first.measured is not None
    assert [rung.step for rung in (first, *others) if rung.compared.first] == []
    assert first.measured.elements <= first.compared.elements // 100


def test_real_states_are_float32_in_the_graph() -> None:
    graph = graph_of(raw_of(RecurrentLayer(states="float32")))
    types = {v.name: v.type.dtype for v in (*graph.inputs, *graph.outputs)}
    assert types == {
        "x": DType.INT8,
        "h_in": DType.FLOAT32,
        "c_in": DType.FLOAT32,
        "h_out": DType.FLOAT32,
        "c_out": DType.FLOAT32,
        "y_d": DType.INT8,
    }


def test_real_states_pass_through_nodes_that_move_elements() -> None:
    """Exporters keep the states of all layers in one tensor."""
    model = Model(opset=14)
    x = model.input(STEPS, 1, DEPTH, scale=0.02)
    layer = RecurrentLayer("GRU", 4)
    add_layer(model, x, (STEPS, 1, DEPTH), layer, np.random.default_rng(0))
    info = helper.make_tensor_value_info("states", onnx.TensorProto.FLOAT, [2, 1, 4])
    model.inputs.append(info)
    at = next(k for k, node in enumerate(model.nodes) if node.op_type == "GRU")
    bounds = [model.constant(np.array([n], np.int64)) for n in (1, 2, 0)]
    slice_ = helper.make_node("Slice", ["states", *bounds], ["second"])
    model.nodes.insert(at, slice_)
    gru = model.nodes[at + 1]
    gru.input[5] = "second"
    gru.output[1] = "last"
    model.nodes.append(helper.make_node("Concat", ["last", "last"], ["after"], axis=0))
    model.nodes.append(helper.make_node("Shape", ["after"], ["extents"]))
    graph = graph_of(model.raw("y_d", "after"))
    assert graph.outputs[1].type == TensorType((2, 1, 4), DType.FLOAT32)
    assert "Dequantize" not in kinds(graph)


def test_weights_of_each_direction_may_have_their_own_scale(tmp_path: Path) -> None:
    model = model_of(RecurrentLayer("GRU", 4, "bidirectional"))
    writers = {node.output[0]: node for node in model.nodes}
    (gru,) = (node for node in model.nodes if node.op_type == "GRU")
    weights = writers[gru.input[1]]
    weights.input[1] = model.constant(np.array([0.003, 0.009], np.float32))
    weights.input[2] = model.constant(np.zeros(2, np.int8))
    weights.attribute.append(helper.make_attribute("axis", 0))
    found = judged(model.proto().SerializeToString(), tmp_path)
    assert found.comparison.mismatches == 0, found.comparison.first


def test_the_last_state_alone_is_computed_from_all_steps() -> None:
    model = model_of(RecurrentLayer("LSTM", 4, states="int8"))
    del model.outputs[-1]
    model.nodes = [
        node for node in model.nodes if "y" not in node.input and "y_q" not in node.input
    ]
    (node,) = (node for node in model.nodes if node.op_type == "LSTM")
    node.output[0] = ""
    graph = graph_of(model.proto().SerializeToString())
    assert [v.type.shape for v in graph.outputs] == [(1, 1, 4), (1, 1, 4)]


Change = Callable[[Model, Any], None]


def attribute(name: str, value: Any) -> Change:
    def change(model: Model, node: Any) -> None:
        kept = [a for a in node.attribute if a.name != name]
        del node.attribute[:]
        node.attribute.extend([*kept, helper.make_attribute(name, value)])

    return change


def extra_output(model: Model, node: Any) -> None:
    node.output.extend([""] * (3 - len(node.output)) + ["extra"])


def operand(k: int, array: np.ndarray[Any, Any]) -> Change:
    def change(model: Model, node: Any) -> None:
        node.input.extend([""] * (k + 1 - len(node.input)))
        node.input[k] = model.constant(array)

    return change


def refusal(change: Change) -> PenstockError:
    model = model_of(RecurrentLayer("LSTM"))
    (node,) = (node for node in model.nodes if node.op_type == "LSTM")
    change(model, node)
    with pytest.raises(ModelError) as caught:
        graph_of(model.proto().SerializeToString())
    assert 'LSTM "y"' in caught.value.where
    return caught.value


@pytest.mark.parametrize(
    "change",
    [
        attribute("clip", 0.3),
        attribute("input_forget", 1),
        attribute("activations", ["Sigmoid", "Relu", "Tanh"]),
        operand(7, np.full((1, 12), 0.25, np.float32)),
    ],
)
def test_variants_are_computed_step_by_step(change: Change, tmp_path: Path) -> None:
    model = model_of(RecurrentLayer("LSTM"))
    (node,) = (node for node in model.nodes if node.op_type == "LSTM")
    change(model, node)
    found = judged(model.proto().SerializeToString(), tmp_path)
    assert found.comparison.mismatches == 0, found.comparison.first


def test_a_part_of_a_sequence_is_refused() -> None:
    error = refusal(operand(4, np.array([4], np.int32)))
    assert error.code == "model-020"
    assert "sequence_lens is [4], must be 6" in error.what


def test_an_unknown_direction_is_refused() -> None:
    error = refusal(attribute("direction", "sideways"))
    assert error.code == "model-020"
    assert "attribute direction is 'sideways', must be one of forward, reverse" in error.what


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (attribute("layout", 2), "layout is 2"),
        (extra_output, "there are 4 outputs, must be at most 3"),
        (attribute("hidden_size", 5), "hidden_size is 5, R is for 4 units"),
        (operand(3, np.zeros((1, 16), np.float32)), "B has shape [1, 16], must be [1, 32]"),
        (operand(2, np.zeros((16, 4), np.float32)), "R has shape [16, 4], must have 3 axes"),
        (operand(5, np.zeros((2, 1, 4), np.float32)), "must be [1, 1, 4]"),
    ],
)
def test_inconsistent_nodes_are_refused(change: Change, cause: str) -> None:
    error = refusal(change)
    assert error.code == "model-014"
    assert cause in error.what


def test_real_weights_without_axes_are_refused() -> None:
    model = Model(quantised=False, opset=14)
    weights = [np.zeros((), np.float32), np.zeros((1, 16, 4), np.float32)]
    inputs = [model.input(STEPS, 1, DEPTH), *map(model.constant, weights)]
    with pytest.raises(ModelError, match=r"input 1 has shape \[\]"):
        graph_of(model.raw(model.node("LSTM", *inputs, hidden_size=4)))


def test_the_sequence_lengths_may_state_the_whole_sequence() -> None:
    model = model_of(RecurrentLayer())
    (node,) = (node for node in model.nodes if node.op_type == "LSTM")
    operand(4, np.array([STEPS], np.int32))(model, node)
    assert "RealLstm" in kinds(graph_of(model.proto().SerializeToString()))


def weights_change(scales: list[float], zeros: list[int]) -> Change:
    """Replaces the quantisation of R, along axis 1."""

    def change(model: Model, node: Any) -> None:
        weights = next(n for n in model.nodes if n.output[0] == node.input[2])
        shape = () if len(zeros) == 1 else (len(zeros),)
        weights.input[1] = model.constant(np.array(scales, np.float32).reshape(shape))
        weights.input[2] = model.constant(np.array(zeros, np.int8).reshape(shape))
        weights.attribute.append(helper.make_attribute("axis", 1))

    return change


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_weights_may_have_one_zero_point(kind: str, tmp_path: Path) -> None:
    """As onnxruntime's quantiser writes them."""
    model = model_of(RecurrentLayer(kind))
    (node,) = (node for node in model.nodes if node.op_type == kind)
    weights_change([0.004], [-9])(model, node)
    found = judged(model.proto().SerializeToString(), tmp_path)
    assert found.comparison.mismatches == 0, found.comparison.first


def test_weights_with_several_zero_points_are_refused() -> None:
    error = refusal(weights_change([0.01] * 16, [*range(16)]))
    assert "16 scales and zero points from 0 to 15, must have 0" in error.what


def test_outputs_are_rounded_half_to_even() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 200.0, np.nan], np.float32).reshape(1, 1, 1, 8)
    type = TensorType(x.shape, DType.FLOAT32)
    y = TensorType(x.shape, DType.INT8, Quantisation((1.0,), (1,)))
    found = RealHidden(8).evaluate(Site((type,), y, (None,)), (x,), Region.whole(x.shape))
    np.testing.assert_array_equal(found.ravel(), [1, 3, 3, 1, -1, -1, 127, -128])
