"""Graphs that are built in Python compile like model files, partitioned or not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import penstock
from penstock.errors import ModelError, UsageError
from penstock.ir.graph import Graph
from penstock.simulators.graph import run_graph
from penstock_smv import Smv
from penstock_vanilla import Vanilla


@pytest.fixture(scope="module")
def graph() -> Graph:
    net = penstock.GraphBuilder("tiny")
    x = net.conv2d(net.input((1, 6, 6, 2)), 4, 3, activation="relu", name="conv")
    x = net.max_pool2d(x, 2, name="pool")
    return net.build(net.fully_connected(x, 3, name="logits"))


def c_code(done: penstock.Compiled) -> str:
    """The generated C file after its head, which states where the network comes from."""
    return done.bundle()["tiny.c"].decode().partition("*/")[2]


def engines(done: penstock.Compiled) -> dict[str, str]:
    return {part.name: part.engine for part in done.compilation.parts.parts}


def test_a_graph_compiles_and_computes_what_it_states(graph: Graph) -> None:
    inputs = {"input": np.arange(72, dtype=np.int8).reshape(1, 6, 6, 2)}
    ran = penstock.run(graph, "host", sets=[inputs])
    expected = run_graph(graph, inputs)["logits"]
    np.testing.assert_array_equal(ran.outputs[0]["logits"], expected)
    assert ran.compiled.bundle()["tiny.h"]


def test_a_partitioned_graph_compiles_to_the_code_of_the_whole_one(graph: Graph) -> None:
    partitioned = Vanilla().partition(graph)
    alone = penstock.compile(partitioned, "cortex-m4", accelerators=("vanilla",))
    whole = penstock.compile(graph, "cortex-m4", accelerators=("vanilla",))
    assert engines(alone)["conv"] == "vanilla"
    assert c_code(alone) == c_code(whole)
    assert "vanilla" not in c_code(penstock.compile(graph, "cortex-m4"))


def test_a_partitioned_graph_is_exact_on_every_rung(graph: Graph) -> None:
    done = penstock.verify(Vanilla().partition(graph), "cortex-m4", accelerators=("vanilla",))
    steps = {rung.step: rung.comparison.mismatches for rung in done.rungs}
    assert steps == {"machine": 0, "host": 0, "core": 0}


def test_two_accelerators_partition_one_after_the_other(graph: Graph) -> None:
    partitioned = Smv().partition(Vanilla().partition(graph))
    done = penstock.compile(partitioned, "host", accelerators=("vanilla", "smv"))
    assert engines(done) == {"conv": "vanilla", "pool": "smv", "logits": "smv"}


def test_two_accelerators_are_exact_on_every_rung(graph: Graph) -> None:
    done = penstock.verify(graph, "cortex-m4", accelerators=("vanilla", "smv"))
    assert engines(done.compiled) == {"conv": "vanilla", "pool": "smv", "logits": "smv"}
    assert {rung.step: rung.comparison.mismatches for rung in done.rungs} == {
        "machine": 0, "host": 0, "core": 0,
    }  # fmt: skip


def test_a_partitioned_graph_of_rows_compiles(graph: Graph) -> None:
    """The compiler tries whether networks can be incremental; partitioned ones cannot."""
    net = penstock.GraphBuilder("rows")
    x = net.conv2d(net.input((1, 12, 4, 2)), 3, 3, padding="valid", name="conv")
    partitioned = Vanilla().partition(net.build(net.max_pool2d(x, 2, name="pool")))
    done = penstock.compile(partitioned, "cortex-m4", accelerators=("vanilla",))
    assert all("--incremental" not in one.options for one in done.report.alternatives)


def test_an_invalid_graph_is_refused(graph: Graph) -> None:
    torn = Graph(graph.name, graph.inputs, graph.outputs, graph.nodes[1:])
    with pytest.raises(ModelError, match="conv"):
        penstock.compile(torn)


@pytest.mark.parametrize("model", [3, None, b"net.tflite", ["net.tflite"]])
def test_other_objects_are_no_models(model: object) -> None:
    with pytest.raises(UsageError) as caught:
        penstock.compile(model)  # pyright: ignore[reportArgumentType]
    assert caught.value.code == "usage-061"


def test_no_ground_truth_is_made_of_a_graph(graph: Graph, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        penstock.golden(graph, tmp_path / "golden.npz")
    assert caught.value.code == "usage-062"


def test_the_other_commands_take_graphs(graph: Graph) -> None:
    assert penstock.show(graph).startswith("graph tiny")
    assert penstock.explore(graph, "host").choices.choices
    assert str(penstock.compile(graph).report.command).startswith("penstock compile GRAPH")
