"""Loops and branches whose conditions are known at import become plain dataflow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from penstock.errors import ModelError, UnsupportedError
from penstock.frontends.open import parse
from penstock.ir.graph import Graph
from penstock.simulators.graph import run_graph
from penstock.simulators.tflite_micro import run_tflite_micro
from tools.tflite_writer import OperatorSpec, SubgraphSpec, TensorSpec, write_tflite

X = np.array([[1, -2, 3]], np.int32)


def integers(name: str, *shape: int, data: object = None) -> TensorSpec:
    """An int32 tensor, constant if there is data."""
    return TensorSpec(
        name, shape, "int32", data=None if data is None else np.array(data, np.int32).reshape(shape)
    )


def loop(condition: SubgraphSpec, body: SubgraphSpec, start: int = 0) -> bytes:
    """A loop that carries a counter and two tensors, of which the model yields the second."""
    tensors = (
        integers("x", 1, 3),
        integers("start", data=start),
        integers("ones", 1, 3, data=[1, 1, 1]),
        integers("end"),
        integers("a", 1, 3),
        integers("y", 1, 3),
    )
    options = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    node = OperatorSpec("WHILE", (1, 0, 2), (3, 4, 5), options)
    return write_tflite(tensors, (node,), (0,), (4, 5), "", (condition, body))


def below(limit: int) -> SubgraphSpec:
    """Whether the counter is below a limit."""
    tensors = (
        integers("i"),
        integers("p", 1, 3),
        integers("q", 1, 3),
        integers("limit", data=limit),
        TensorSpec("less", (), "bool"),
    )
    return SubgraphSpec(tensors, (OperatorSpec("LESS", (0, 3), (4,)),), (0, 1, 2), (4,))


def fibonacci(step: int = 1, inner: Sequence[OperatorSpec] = ()) -> SubgraphSpec:
    """(i, a, b) -> (i + step, b, a + b)."""
    tensors = (
        integers("body_i"),
        integers("body_a", 1, 3),
        integers("body_b", 1, 3),
        integers("step", data=step),
        integers("next"),
        integers("sum", 1, 3),
        integers("unused", 1, 3),
    )
    operators = (OperatorSpec("ADD", (0, 3), (4,)), OperatorSpec("ADD", (1, 2), (5,)), *inner)
    return SubgraphSpec(tensors, operators, (0, 1, 2), (4, 2, 5))


def outputs(graph: Graph, *inputs: NDArray[Any]) -> list[NDArray[Any]]:
    values = {v.name: x for v, x in zip(graph.inputs, inputs, strict=True)}
    found = {**values, **run_graph(graph, values)}
    return [found[v.name] if v.data is None else v.data.array(v.type) for v in graph.outputs]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_loop_with_a_counter_is_unrolled(count: int) -> None:
    raw = loop(below(count), fibonacci())
    graph = parse(raw, "m.tflite")
    assert {node.kind for node in graph.nodes} == {"PlainAdd"}
    a, b = X, np.ones_like(X)
    for _ in range(count):
        a, b = b, a + b
    for found, expected in zip(outputs(graph, X), (a, b), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_loop_is_the_references() -> None:
    pytest.importorskip("tflite_micro", reason="the extra 'reference' is not installed")
    raw = loop(below(6), fibonacci(2), start=1)
    expected = run_tflite_micro(raw, (X,)).outputs
    for mine, other in zip(outputs(parse(raw, "m.tflite"), X), expected, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_a_loop_that_never_runs_yields_what_it_was_given() -> None:
    graph = parse(loop(below(0), fibonacci()), "m.tflite")
    np.testing.assert_array_equal(outputs(graph, X)[0], X)


def test_an_endless_loop_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="runs more than 10000 nodes") as caught:
        parse(loop(below(1), fibonacci(0)), "m.tflite")
    assert "unroll" in caught.value.help


def test_an_empty_endless_loop_is_refused() -> None:
    always = SubgraphSpec(
        (
            integers("i"),
            integers("p", 1, 3),
            integers("q", 1, 3),
            TensorSpec("yes", (), "bool", data=np.array(True)),
        ),
        (), (0, 1, 2), (3,),
    )  # fmt: skip
    same = SubgraphSpec(
        (integers("s"), integers("t", 1, 3), integers("u", 1, 3)), (), (0, 1, 2), (0, 1, 2)
    )
    with pytest.raises(UnsupportedError, match="runs more than 10000 nodes"):
        parse(loop(always, same), "m.tflite")


def test_a_loop_that_depends_on_data_is_refused() -> None:
    condition = below(3)
    tensors = (
        *condition.tensors[:3],
        integers("limit", 1, 3, data=[9, 9, 9]),
        *condition.tensors[4:],
    )
    least = (
        *tensors[:4],
        TensorSpec("less", (1, 3), "bool"),
        integers("axes", 2, data=[0, 1]),
        TensorSpec("any", (), "bool"),
    )
    operators = (OperatorSpec("LESS", (1, 3), (4,)), OperatorSpec("REDUCE_ANY", (4, 5), (6,)))
    raw = loop(SubgraphSpec(least, operators, (0, 1, 2), (6,)), fibonacci())
    with pytest.raises(UnsupportedError, match="WHILE depends on data"):
        parse(raw, "m.tflite")


def test_a_loop_of_another_shape_is_refused() -> None:
    body = fibonacci()
    tensors = (*body.tensors[:2], integers("body_b", 1, 4), *body.tensors[3:])
    wrong = SubgraphSpec(tensors, body.operators, body.inputs, body.outputs)
    with pytest.raises(UnsupportedError, match=r'passes int32\[1,3\] for "body_b"'):
        parse(loop(below(2), wrong), "m.tflite")


def test_a_composite_is_replaced_by_its_decomposition() -> None:
    tensors = (integers("x", 1, 3), integers("y", 1, 3), integers("z", 1, 3))
    options = {"decomposition_subgraph_index": 1, "name": "odml.group_norm"}
    nodes = (
        OperatorSpec("STABLEHLO_COMPOSITE", (0,), (1,), options),
        OperatorSpec("STABLEHLO_COMPOSITE", (1,), (2,), options),
    )
    inner = tuple(integers(name, 1, 3) for name in ("a", "b", "c"))
    decomposition = (OperatorSpec("NEG", (0,), (1,)), OperatorSpec("ADD", (1, 1), (2,)))
    raw = write_tflite(
        tensors, nodes, (0,), (2,), "", (SubgraphSpec(inner, decomposition, (0,), (2,)),)
    )
    graph = parse(raw, "m.tflite")
    assert [type(node.op).__name__ for node in graph.nodes] == ["Neg", "PlainAdd"] * 2
    x = np.array([[1, -5, 9]], np.int32)
    np.testing.assert_array_equal(run_graph(graph, {"x": x})["z"], 4 * x)


def test_a_composite_of_another_shape_is_refused() -> None:
    """The message speaks of composites, not of loops."""
    node = OperatorSpec("STABLEHLO_COMPOSITE", (0,), (1,), {"decomposition_subgraph_index": 1})
    negate = SubgraphSpec(
        (integers("a", 1, 4), integers("b", 1, 4)), (OperatorSpec("NEG", (0,), (1,)),), (0,), (1,)
    )
    tensors = (integers("x", 1, 3), integers("y", 1, 3))
    with pytest.raises(UnsupportedError, match=r'passes int32\[1,3\] for "a"') as caught:
        parse(write_tflite(tensors, (node,), (0,), (1,), "", (negate,)), "m.tflite")
    assert "composites are replaced" in caught.value.why
    assert "loops" not in caught.value.help


def test_a_subgraph_that_runs_itself_is_refused() -> None:
    options = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    again = OperatorSpec("WHILE", (0, 1, 2), (4, 5, 6), options)
    with pytest.raises(ModelError, match="damaged") as caught:
        parse(loop(below(2), fibonacci(1, (again,))), "m.tflite")
    assert "subgraph 2 runs itself" in caught.value.why


def branch(condition: TensorSpec, inputs: tuple[int, ...]) -> bytes:
    """A branch that negates x, or doubles it."""
    tensors = (integers("x", 1, 3), condition, integers("y", 1, 3))
    options = {"then_subgraph_index": 1, "else_subgraph_index": 2}
    node = OperatorSpec("IF", (1, 0), (2,), options)
    negate = SubgraphSpec(
        (integers("n", 1, 3), integers("negative", 1, 3)),
        (OperatorSpec("NEG", (0,), (1,)),),
        (0,),
        (1,),
    )
    double = SubgraphSpec(
        (integers("d", 1, 3), integers("twice", 1, 3)),
        (OperatorSpec("ADD", (0, 0), (1,)),),
        (0,),
        (1,),
    )
    return write_tflite(tensors, (node,), inputs, (2,), "", (negate, double))


@pytest.mark.parametrize("taken", [False, True])
def test_a_constant_branch_is_chosen(taken: bool) -> None:
    graph = parse(branch(TensorSpec("c", (), "bool", data=np.array(taken)), (0,)), "m.tflite")
    assert [node.output.name for node in graph.nodes] == ["y"]
    np.testing.assert_array_equal(outputs(graph, X)[0], -X if taken else 2 * X)


def test_a_branch_that_depends_on_an_input_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="IF depends on data"):
        parse(branch(TensorSpec("c", (), "bool"), (0, 1)), "m.tflite")


def test_a_loop_that_reads_rows_by_its_counter_reads_constant_rows() -> None:
    """As recurrent Keras layers do, which are not unrolled."""
    condition = SubgraphSpec(
        (
            integers("i"),
            integers("rows", 4, 3),
            integers("total", 3),
            integers("limit", data=4),
            TensorSpec("less", (), "bool"),
        ),
        (OperatorSpec("LESS", (0, 3), (4,)),), (0, 1, 2), (4,),
    )  # fmt: skip
    body = SubgraphSpec(
        (
            integers("j"),
            integers("all", 4, 3),
            integers("before", 3),
            integers("one", data=1),
            integers("next"),
            integers("row", 3),
            integers("after", 3),
        ),
        (
            OperatorSpec("GATHER", (1, 0), (5,), {"axis": 0}),
            OperatorSpec("ADD", (2, 5), (6,)),
            OperatorSpec("ADD", (0, 3), (4,)),
        ),
        (0, 1, 2), (4, 1, 6),
    )  # fmt: skip
    tensors = (
        integers("x", 4, 3),
        integers("start", data=0),
        integers("zeros", 3, data=[0, 0, 0]),
        integers("end"),
        integers("same", 4, 3),
        integers("y", 3),
    )
    options = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    node = OperatorSpec("WHILE", (1, 0, 2), (3, 4, 5), options)
    raw = write_tflite(tensors, (node,), (0,), (5,), "", (condition, body))
    graph = parse(raw, "m.tflite")
    assert "GatherNd" not in {node.kind for node in graph.nodes}
    x = np.arange(12, dtype=np.int32).reshape(4, 3)
    np.testing.assert_array_equal(outputs(graph, x)[0], x.sum(axis=0))


def test_a_loop_that_writes_a_list_writes_every_item() -> None:
    """As recurrent Keras layers that return sequences: what is before an item, the item, and what
    is after it are joined; before the first and after the last, there is nothing."""
    condition = SubgraphSpec(
        (
            integers("i"),
            integers("rows", 3, 2),
            integers("list", 3, 2),
            integers("limit", data=3),
            TensorSpec("less", (), "bool"),
        ),
        (OperatorSpec("LESS", (0, 3), (4,)),), (0, 1, 2), (4,),
    )  # fmt: skip

    def opened(name: str) -> TensorSpec:
        return TensorSpec(name, (1, 1), "int32", is_open=True)

    body = SubgraphSpec(
        (
            integers("j"),
            integers("all", 3, 2),
            integers("items", 3, 2),
            integers("one", data=1),
            integers("next"),
            integers("shape", 1, data=[1]),
            integers("begin", 1),
            integers("zero", 1, data=[0]),
            integers("every", 1, data=[-1]),
            integers("first", 2, data=[0, 0]),
            integers("size", 2),
            integers("after", 1),
            integers("start", 2),
            integers("rest", 2, data=[-1, -1]),
            opened("head"),
            opened("tail"),
            integers("row", 2),
            integers("doubled", 2),
            integers("shape of item", 2, data=[1, 2]),
            integers("item", 1, 2),
            integers("joined", 3, 2),
        ),
        (
            OperatorSpec("ADD", (0, 3), (4,)),
            OperatorSpec("GATHER", (1, 0), (16,), {"axis": 0}),
            OperatorSpec("ADD", (16, 16), (17,)),
            OperatorSpec("RESHAPE", (0, 5), (6,)),
            OperatorSpec("CONCATENATION", (6, 8), (10,), {"axis": 0}),
            OperatorSpec("SLICE", (2, 9, 10), (14,)),
            OperatorSpec("RESHAPE", (4, 5), (11,)),
            OperatorSpec("CONCATENATION", (11, 7), (12,), {"axis": 0}),
            OperatorSpec("SLICE", (2, 12, 13), (15,)),
            OperatorSpec("RESHAPE", (17, 18), (19,)),
            OperatorSpec("CONCATENATION", (14, 19, 15), (20,), {"axis": 0}),
        ),
        (0, 1, 2), (4, 1, 20),
    )  # fmt: skip
    tensors = (
        integers("x", 3, 2),
        integers("start", data=0),
        integers("zeros", 3, 2, data=np.zeros((3, 2))),
        integers("end"),
        integers("same", 3, 2),
        integers("y", 3, 2),
    )
    options = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    node = OperatorSpec("WHILE", (1, 0, 2), (3, 4, 5), options)
    graph = parse(write_tflite(tensors, (node,), (0,), (5,), "", (condition, body)), "m.tflite")
    x = np.arange(6, dtype=np.int32).reshape(3, 2)
    np.testing.assert_array_equal(outputs(graph, x)[0], 2 * x)
