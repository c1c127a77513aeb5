"""Law: a network that reads its input through a view needs no more memory than one that reads the
input itself, if no kernel reads the rows of the input."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowered import assert_equal_to_graph, lower
from penstock.backends.processor_parts import assign
from penstock.hardware.load import load_target
from penstock.ir.graph import Graph, Node, Value
from penstock.ops.reshape import Reshape
from penstock.pipeline.search import schedule
from penstock.scheduling.options import Options
from small_networks import networks
from strategies import seeds

TARGET = load_target("host")


def viewed(graph: Graph, shape: tuple[int, ...]) -> Graph:
    """The network with a view of a new input in place of its first input."""
    x, *others = graph.inputs
    source = Value("source", x.type.with_shape(shape))
    view = Node(Reshape(x.type.shape), (source,), x)
    return replace(graph, inputs=(source, *others), nodes=(view, *graph.nodes))


def frontier(graph: Graph, keep: bool) -> list[tuple[int, int]]:
    options = Options(slack=0, keep_input=keep, max_stripe=4)
    schedules = schedule(assign(graph, TARGET), TARGET, options).schedules
    return sorted((one.peak_bytes, one.cost.cycles) for one in schedules)


@pytest.mark.parametrize("rank", [1, 2, 4])
@given(graph=networks(), keep=st.booleans(), seed=seeds)
def test_a_view_of_the_input_changes_no_frontier(
    rank: int, graph: Graph, keep: bool, seed: int
) -> None:
    _, rows, columns, channels = graph.inputs[0].type.shape
    flat = (rows * columns * channels,)
    shape = {1: flat, 2: (1, *flat), 4: (1, 1, rows * columns, channels)}[rank]
    made = viewed(graph, shape)
    assert frontier(made, keep) == frontier(graph, keep)
    assert_equal_to_graph(lower(made), seed)
