"""A pass that breaks a graph is a mistake of penstock, not of the model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.errors import InternalError
from penstock.ir.graph import Graph
from penstock.passes.order import PASSES, run_passes
from penstock.zoo.registry import open_zoo
from texts.graph_reader import graph_from_text


def without_first_node(graph: Graph) -> Graph:
    return replace(graph, nodes=graph.nodes[1:])


def test_the_pass_is_named() -> None:
    graph = open_zoo("zoo:lenet5")
    with pytest.raises(InternalError, match="pass without_first_node leaves an invalid graph"):
        run_passes(graph, (without_first_node,))


def test_a_slice_of_a_constant_part_is_a_constant() -> None:
    """A view of a constant was left, which no part of a schedule computes."""
    graph = graph_from_text("""
graph g
input a: float32[1,2]
constant rest: float32[1,2] = 1
both: float32[2,2] = Concatenation(a, rest, axis=0)
part: float32[1,2] = Slice(both, start=(1, 0), shape=(1, 2), step=(1, 1))
less: bool[1,2] = PlainCompare(part, part, relation=Relation.LESS)
output less
""")
    assert all(node.variable_inputs for node in run_passes(graph, PASSES).nodes)
