"""A pass that breaks a graph is a mistake of penstock, not of the model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.errors import InternalError
from penstock.ir.graph import Graph
from penstock.passes.order import run_passes
from penstock.zoo.registry import open_zoo


def without_first_node(graph: Graph) -> Graph:
    return replace(graph, nodes=graph.nodes[1:])


def test_the_pass_is_named() -> None:
    graph = open_zoo("zoo:lenet5")
    with pytest.raises(InternalError, match="pass without_first_node leaves an invalid graph"):
        run_passes(graph, (without_first_node,))
