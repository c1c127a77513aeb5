"""Partitioned graphs: graphs from `UMABackend.partition`, which the compiler accepts as models.

A graph is partitioned for an accelerator if it contains composites (matched sub-graphs as single
nodes) of this accelerator.  The compiler takes these composites as they are: it neither runs the
graph passes of the accelerator again nor matches its patterns.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from penstock.backends.accelerator import Accelerator
from penstock.errors import BackendError
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node

PARTITIONED_WITH = "partitioned_with"
"""Attribute of a composite: the attribute values of the accelerator when it was partitioned."""


def with_settings(graph: Graph, accelerator: Accelerator) -> Graph:
    """Return the graph with the accelerator's attribute values stored in each of its composites.

    `is_partitioned` compares them with the attribute values for which the graph is compiled."""
    values = tuple(accelerator.target.attrs.items())

    def stated(node: Node) -> Node:
        if not isinstance(node.op, Composite) or node.op.engine != accelerator.name:
            return node
        others = (pair for pair in node.op.attributes if pair[0] != PARTITIONED_WITH)
        return replace(node, op=replace(node.op, attributes=(*others, (PARTITIONED_WITH, values))))

    return graph.with_nodes(tuple(map(stated, graph.nodes)))


def is_partitioned(graph: Graph, accelerator: Accelerator) -> bool:
    """Return whether a graph is partitioned for an accelerator, that is, has composites of it.

    Raises BackendError if the graph was partitioned for attribute values of the accelerator that
    differ from those in `accelerator`."""
    composites = [
        (node, node.op)
        for node in graph.nodes
        if isinstance(node.op, Composite) and node.op.engine == accelerator.name
    ]
    wanted = tuple(accelerator.target.attrs.items())
    for node, composite in composites:
        found = composite.attribute(PARTITIONED_WITH, wanted)
        if found != wanted:
            raise BackendError(
                "backend-060",
                f"the graph was partitioned for {accelerator.name} with other attribute values",
                where=f'graph {graph.name}, composite "{node.name}"',
                why=f"partitioned with {_listed(found)}, compiled with {_listed(wanted)}",
                help="pass the same values to `partition(graph, {..})` and to "
                f'accelerators=("{accelerator.name}:..",)',
            )
    return bool(composites)


def check_engines(graph: Graph, names: Collection[str]) -> None:
    """Raise BackendError if the graph has composites of an accelerator that is not in `names`."""
    for node in graph.nodes:
        if isinstance(node.op, Composite) and node.op.engine not in names:
            engine = node.op.engine
            raise BackendError(
                "backend-061",
                f"the graph is partitioned for {engine}, which the request does not name",
                where=f'graph {graph.name}, composite "{node.name}"',
                why=f"the accelerators of the request are {', '.join(names) or 'none'}",
                help=f'register the backend and add accelerators=("{engine}",), or compile the '
                "graph that was not partitioned",
            )


def _listed(values: object) -> str:
    pairs = values if isinstance(values, tuple) else ()
    return ", ".join(f"{name}={value}" for name, value in pairs) or "no attributes"
