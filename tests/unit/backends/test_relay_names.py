"""Relay's names denote operators of every element type, parts of a split, and what importers
rewrite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import penstock
from penstock.backends.operator_names import operator_facts
from penstock.backends.pattern_matching import matches
from penstock.backends.pattern_mismatch import mismatch
from penstock.errors import BackendError
from penstock.ir.graph import Graph
from penstock.uma import Pattern, is_constant, is_op, is_tuple, is_tuple_get_item, wildcard

X, C = wildcard, is_constant


def network(
    folder: Path, shape: tuple[int, ...], *nodes: Any, constants: dict[str, Any] | None = None
) -> Graph:
    """A network of real numbers in ONNX, with input x and output y."""
    file = folder / "net.onnx"
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(np.float32(a), n) for n, a in (constants or {}).items()],
    )
    opset = [helper.make_opsetid("", 18)]
    model = onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=opset, ir_version=8)
    )
    onnx.save(model, file)
    return penstock.read(file)


def claimed(graph: Graph, pattern: Pattern) -> list[set[str]]:
    """The kinds of the nodes of each match."""
    producers = graph.producers()
    found = (match for node in graph.nodes for match in matches(pattern, node, producers)[:1])
    return [{producers[name].kind for name in names} for names in found]


ONES = np.ones
CASES: dict[str, tuple[Pattern, tuple[int, ...], tuple[Any, ...], dict[str, Any]]] = {
    "nn.conv1d_transpose": (
        is_op("nn.conv1d_transpose")(X(), C()),
        (1, 2, 6),
        (helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2]),),
        {"w": ONES((2, 3, 4))},
    ),
    "nn.conv2d": (
        is_op("nn.relu")(is_op("nn.bias_add")(is_op("nn.conv2d")(X(), C()), C())),
        (1, 2, 6, 6),
        (
            helper.make_node("Conv", ["x", "w", "b"], ["c"]),
            helper.make_node("Relu", ["c"], ["y"]),
        ),
        {"w": ONES((3, 2, 3, 3)), "b": ONES(3)},
    ),
    "nn.batch_norm": (
        is_tuple_get_item(is_op("nn.batch_norm")(X(), C(), C(), C(), C()), 0),
        (1, 3, 4, 4),
        (helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"]),),
        {name: ONES(3) for name in "sbmv"},
    ),
    "nn.adaptive_avg_pool2d": (
        is_op("nn.adaptive_avg_pool2d")(X()),
        (1, 3, 6, 4),
        (helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[3, 2], strides=[3, 2]),),
        {},
    ),
    "nn.adaptive_max_pool2d": (
        is_op("nn.adaptive_max_pool2d")(X()),
        (1, 3, 6, 4),
        (helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 4], strides=[3, 4]),),
        {},
    ),
    "add": (is_op("add")(X(), X()), (1, 4), (helper.make_node("Add", ["x", "x"], ["y"]),), {}),
    "nn.softmax": (
        is_op("nn.softmax")(X()), (1, 4), (helper.make_node("Softmax", ["x"], ["y"]),), {}
    ),
    "nn.dense": (
        is_op("nn.dense")(X(), C()),
        (1, 4),
        (helper.make_node("Gemm", ["x", "w"], ["y"], transB=1),),
        {"w": ONES((3, 4))},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_relay_name_denotes_real_numbers_too(name: str, tmp_path: Path) -> None:
    pattern, shape, nodes, constants = CASES[name]
    graph = network(tmp_path, shape, *nodes, constants=constants)
    assert len(claimed(graph, pattern)) == 1


def test_windows_that_overlap_are_not_adaptive(tmp_path: Path) -> None:
    node = helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], strides=[1, 1])
    graph = network(tmp_path, (1, 3, 6, 6), node)
    assert claimed(graph, is_op("nn.avg_pool2d")(X())) == [{"PlainAveragePool2D"}]
    assert claimed(graph, is_op("nn.adaptive_avg_pool2d")(X())) == []


def split(folder: Path, shape: tuple[int, ...] = (1, 6), **sizes: Any) -> Graph:
    """The concatenation of the second and the first part of a tensor."""
    nodes = (
        helper.make_node("Split", ["x"], ["a", "b", "c"], axis=1, num_outputs=3),
        helper.make_node("Concat", ["b", "a"], ["y"], axis=1),
    )
    return network(folder, shape, *nodes, **sizes)


def test_parts_of_a_split_are_items_of_a_tuple(tmp_path: Path) -> None:
    graph = split(tmp_path)
    parts = is_op("split")(wildcard())
    exchanged = is_op("concatenate")(
        is_tuple([is_tuple_get_item(parts, 1), is_tuple_get_item(parts, 0)])
    )
    assert claimed(graph, exchanged) == [{"Slice", "Concatenation"}]
    in_order = is_op("concatenate")(
        is_tuple([is_tuple_get_item(parts, 0), is_tuple_get_item(parts, 1)])
    )
    assert claimed(graph, in_order) == []
    reason = mismatch(in_order, graph.nodes[-1], graph.producers())
    assert reason is not None
    assert "is item 1 of the split, must be item 0" in str(reason)
    whichever = is_op("concatenate")(is_tuple([is_tuple_get_item(parts)] * 2))
    assert claimed(graph, whichever) == []  # one object twice: the same value twice
    either = is_op("concatenate")(
        is_tuple([is_tuple_get_item(is_op("split")), is_tuple_get_item(is_op("split"))])
    )
    assert claimed(graph, either) == [{"Slice", "Concatenation"}]


def test_items_are_of_one_tensor(tmp_path: Path) -> None:
    """Both items stem from the pattern of one split, and so from one tensor."""
    nodes = (
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Split", ["x"], ["a", "b"], axis=1, num_outputs=2),
        helper.make_node("Split", ["r"], ["c", "d"], axis=1, num_outputs=2),
        helper.make_node("Concat", ["a", "d"], ["y"], axis=1),
    )
    graph = network(tmp_path, (1, 6), *nodes)
    parts = is_op("split")(wildcard())
    items = is_tuple([is_tuple_get_item(parts, 0), is_tuple_get_item(parts, 1)])
    assert claimed(graph, is_op("concatenate")(items)) == []


REWRITTEN = ("nn.conv3d", "nn.conv3d_transpose", "nn.max_pool3d", "nn.layer_norm")


@pytest.mark.parametrize("name", REWRITTEN)
def test_operators_that_importers_rewrite_are_known(name: str, tmp_path: Path) -> None:
    pattern = is_op(name)(wildcard(), wildcard())
    graph = network(tmp_path, (1, 4), helper.make_node("Relu", ["x"], ["y"]))
    assert claimed(graph, pattern) == []
    found = mismatch(pattern, graph.nodes[-1], graph.producers())
    assert found is not None
    assert f"no node is a {name}: importers" in found.reason
    with pytest.raises(BackendError, match=f'no operator of penstock is a "{name}"'):
        operator_facts(name, "penstock ops")


def test_volumes_that_no_backend_claims_compile(tmp_path: Path) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    graph = network(tmp_path, (1, 2, 4, 4, 4), node, constants={"w": ONES((3, 2, 2, 2, 2))})
    assert claimed(graph, is_op("nn.conv3d")(wildcard(), wildcard())) == []
    assert penstock.verify(graph, target="host", last_rung="machine").passed


def test_is_tuple_get_item_takes_patterns() -> None:
    assert str(is_tuple_get_item(is_op("split")(wildcard()), 1)) == "split(*)[1]"
    assert str(is_tuple_get_item(is_op("split"))) == "split[?]"
    with pytest.raises(BackendError, match="is not a pattern"):
        is_tuple_get_item("split", 1)  # type: ignore[arg-type]
