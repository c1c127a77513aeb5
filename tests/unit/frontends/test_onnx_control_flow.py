"""Branches and loops that shapes and constants decide: judged by onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from onnx_judge import judged_by_onnxruntime
from onnx_models import graph_of, kinds
from penstock.errors import ModelError, UnsupportedError
from tools.onnx_writer import Model

FLOAT, INT64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL


def subgraph(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[tuple[str, int]],
    outputs: Sequence[tuple[str, int]],
    constants: Sequence[onnx.TensorProto] = (),
) -> onnx.GraphProto:
    borders = [
        [
            helper.make_tensor_value_info(name, kind, None if kind == FLOAT else ())
            for name, kind in listed
        ]
        for listed in (inputs, outputs)
    ]
    return helper.make_graph(list(nodes), "inner", borders[0], borders[1], list(constants))


def node(operator: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(operator, inputs.split(), outputs.split(), **attributes)


def reduced(axis: int) -> Model:
    """An axis is dropped if its extent is 1, as the older exporter writes `squeeze`."""
    model = Model(quantised=False)
    x = model.node("Relu", model.input(1, 1, 3, 4))
    shape = model.node("Shape", x)
    extent = model.node("Gather", shape, model.constant(np.array(axis, np.int64)))
    is_one = model.node("Equal", extent, model.constant(np.array(1, np.int64)))
    drop = node("ReduceMax", x, "then", axes=[axis], keepdims=0)
    then = subgraph([drop], [], [("then", FLOAT)])
    keep = subgraph([node("Identity", x, "else")], [], [("else", FLOAT)])
    y = model.node("If", is_one, then_branch=then, else_branch=keep)
    model.output(model.node("Neg", y))
    return model


@pytest.mark.parametrize("axis", [1, 2])
def test_a_branch_that_a_shape_decides(axis: int) -> None:
    judged = judged_by_onnxruntime(reduced(axis).raw())
    assert judged.steps == 0
    assert judged.graph.outputs[0].type.shape == ((1, 3, 4) if axis == 1 else (1, 1, 3, 4))


def looped(steps: int) -> Model:
    """`y = y * w + x` some times; each value also comes out, and the branch of odd steps."""
    model = Model(quantised=False)
    x = model.input(2, 3)
    body = subgraph(
        [
            node("Mul", "y w", "scaled"),
            node("Add", f"scaled {x}", "next"),
            node("Mod", "k two", "rest"),
            node("Cast", "rest", "is_odd", to=BOOL),
            node(
                "If", "is_odd", "chosen",
                then_branch=subgraph([node("Neg", "next", "a")], [], [("a", FLOAT)]),
                else_branch=subgraph([node("Abs", x, "a")], [], [("a", FLOAT)]),
            ),
            node("Identity", "goes_on", "still"),
        ],
        [("k", INT64), ("goes_on", BOOL), ("y", FLOAT)],
        [("still", BOOL), ("next", FLOAT), ("chosen", FLOAT)],
        [onnx.numpy_helper.from_array(np.array(0.5, np.float32), "w"),
         onnx.numpy_helper.from_array(np.array(2, np.int64), "two")],
    )  # fmt: skip
    count = model.constant(np.array(steps, np.int64))
    model.node("Loop", count, "", x, count=2, body=body)
    for name in model.nodes[-1].output:
        model.output(name)
    return model


def test_a_loop_of_known_length() -> None:
    judged = judged_by_onnxruntime(looped(4).raw())
    assert judged.steps <= 1
    assert judged.graph.outputs[1].type.shape == (4, 2, 3)
    assert kinds(judged.graph).count("PlainMul") == 4


def test_a_loop_whose_length_is_an_input_is_refused() -> None:
    model = looped(3)
    model.constants.pop()
    model.nodes[-1].input[0] = "length"
    model.inputs.append(helper.make_tensor_value_info("length", INT64, [1]))
    with pytest.raises(UnsupportedError) as caught:
        graph_of(model.raw())
    assert caught.value.what == "Loop: operator is not supported"


def test_a_branch_may_stand_before_what_it_reads() -> None:
    model = reduced(1)
    relu = model.nodes.pop(0)
    shape_of_input = model.nodes[0]
    shape_of_input.input[0] = "x"
    model.nodes.insert(4, relu)
    assert judged_by_onnxruntime(model.raw()).steps == 0


def test_a_branch_that_reads_what_depends_on_it_is_malformed() -> None:
    model = reduced(1)
    relu = model.nodes[0]
    relu.input[0] = model.nodes[-1].output[0]
    model.nodes[1].input[0] = "x"
    model.nodes.append(model.nodes.pop(0))
    with pytest.raises(ModelError) as caught:
        graph_of(model.raw())
    assert caught.value.code == "onnx-004"


def scanned(**attributes: Any) -> Model:
    """A running product along axis 1, and the steps themselves, of two inputs."""
    model = Model(quantised=False)
    x, y, state = model.input(3, 4, name="x"), model.input(4, 3, name="y"), model.input(3, name="s")
    body = subgraph(
        [
            node("Mul", "state a", "scaled"),
            node("Add", "scaled b", "next"),
            node("Neg", "next", "o"),
        ],
        [("state", FLOAT), ("a", FLOAT), ("b", FLOAT)],
        [("next", FLOAT), ("o", FLOAT)],
    )
    model.node("Scan", state, x, y, count=2, body=body, num_scan_inputs=2, **attributes)
    for name in model.nodes[-1].output:
        model.output(name)
    return model


@pytest.mark.parametrize("is_reverse", [0, 1])
def test_a_scan_along_axes_of_known_extent(is_reverse: int) -> None:
    judged = judged_by_onnxruntime(
        scanned(
            scan_input_axes=[1, 0],
            scan_input_directions=[is_reverse, 0],
            scan_output_axes=[1],
            scan_output_directions=[is_reverse],
        ).raw()
    )
    assert judged.steps <= 1
    assert judged.graph.outputs[1].type.shape == (3, 4)


def test_a_scan_whose_extents_differ_is_refused() -> None:
    with pytest.raises(UnsupportedError) as caught:
        graph_of(scanned(scan_input_axes=[0, 0]).raw())
    assert caught.value.what == "Scan: operator is not supported"


def test_a_cast_to_the_type_of_what_a_branch_yields() -> None:
    """It was taken for the type of the condition."""
    model = reduced(1)
    like = model.nodes[-2].output[0]
    whole = model.node("Cast", "x", to=INT64)
    model.opset = 15
    model.output(model.node("CastLike", whole, like))
    judged = judged_by_onnxruntime(model.raw())
    assert judged.steps == 0


def test_a_sequence_that_a_graph_maps_is_refused() -> None:
    """ONNX defines the operator by others, which its package cannot write for a subgraph."""
    text = """<ir_version: 10, opset_import: ["" : 20]> g (float[3,2] x) => (float[3,2] y)
        <int64 zero = {0}> { s = SequenceConstruct (x, x)
        t = SequenceMap <body = inner (float[3,2] a) => (float[3,2] b) { b = Relu (a) }> (s)
        y = SequenceAt (t, zero) }"""
    with pytest.raises(UnsupportedError) as caught:
        graph_of(onnx.parser.parse_model(text).SerializeToString())
    assert "SequenceMap" in str(caught.value)
