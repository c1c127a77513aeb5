"""Cases of graphs to be partitioned: what layers cost one by one, grouped by depth, and at best."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated

import rustworkx as rx
from pydantic import Field

from benchmarks.case_file import Document, Record, Section, malformed, read_as
from benchmarks.traffic import GroupLimits, Traffic, certificate, problem_from_edges, proven
from penstock.errors import CapacityError
from penstock.scheduling.grouping.problem import Grouping, GroupingProblem, runnable
from penstock.scheduling.grouping.strategies import GroupingOptions, paper
from penstock.scheduling.order.steps import bit_mask

KEYS = frozenset({"model", "graphs"})
OPTIONS = GroupingOptions(level_work=2_000_000, ideal_work=2_000_000)
ORDER_STATES = 200_000

Bytes = Annotated[int, Field(ge=0, le=1 << 48)]
Edge = tuple[str, str]
Names = tuple[str, ...]


class Node(Record):
    """A layer: bytes of its output and of its weights; layers on the longest path to it."""

    bytes: Bytes
    weight: Bytes = 0
    depth: int | None = None


class Graph(Record):
    """A graph and its costs; what is not said is not checked."""

    name: str
    nodes: Mapping[str, Node]
    edges: tuple[Edge, ...]
    network_outputs: Names
    weight_cap: Bytes | None = None
    buffer_cap: Bytes | None = None
    single_layer_groups_always_allowed: bool = False
    layer_by_layer_cost: Bytes | None = None
    depth_dp_cost: Bytes | None = None
    depth_dp_groups: tuple[Names, ...] | None = None
    optimal_cost: Bytes | None = None
    optimal_groups: tuple[Names, ...] | None = None


class Solved:
    """A graph, as a problem, and its answers."""

    def __init__(self, graph: Graph, where: str) -> None:
        self.graph = graph
        self.names, self.problem = problem_of_graph(graph, where)
        self.index = {name: i for i, name in enumerate(self.names)}
        single = graph.single_layer_groups_always_allowed
        self.cost = Traffic(
            self.problem, GroupLimits(graph.weight_cap, graph.buffer_cap, single, ORDER_STATES)
        )
        self.where = where

    def groups(self, groups: Iterable[Names]) -> tuple[int, ...]:
        """Named groups.  Raises ModelError where they do not cover the graph once."""
        some = tuple(groups)
        if sorted(name for group in some for name in group) != sorted(self.names):
            raise malformed(self.where, "its groups do not name every node once")
        return tuple(bit_mask(self.index[name] for name in group) for group in some)


def check(document: Document, where: str) -> tuple[Section, ...]:
    """A section for each figure.  Raises ModelError where the file is malformed."""
    found = document["graphs"]
    if not isinstance(found, list) or not found:
        raise malformed(f"{where}: graphs", "there is no list of graphs")
    graphs = [
        Solved(read_as(Graph, graph, place), place)
        for k, graph in enumerate(found)
        for place in [f"{where}: graphs, graph {k}"]
    ]
    sections = (
        ("depths", _depths),
        ("costs layer by layer", _layers),
        ("costs by depth", _by_depth),
        ("optima", _optima),
    )
    return tuple(
        Section.of(name, ((solved.graph.name, "; ".join(of(solved))) for solved in graphs))
        for name, of in sections
    )


def problem_of_graph(graph: Graph, where: str) -> tuple[Names, GroupingProblem]:
    """Names of nodes in a topological order, and the problem.  Raises ModelError."""
    given = {name: k for k, name in enumerate(graph.nodes)}
    unknown = {*graph.network_outputs, *(n for edge in graph.edges for n in edge)} - given.keys()
    if unknown:
        raise malformed(where, f"there is no node {sorted(unknown)[0]}")
    net: rx.PyDiGraph[str, None] = rx.PyDiGraph(multigraph=False)
    net.add_nodes_from(list(given))
    net.add_edges_from([(given[a], given[b], None) for a, b in graph.edges])
    if not rx.is_directed_acyclic_graph(net):
        raise malformed(where, "its edges lead in a circle")
    order = rx.lexicographical_topological_sort(net, key=lambda name: f"{given[name]:09}")
    index = {name: i for i, name in enumerate(order)}
    nodes = [graph.nodes[name] for name in order]
    return tuple(order), problem_from_edges(
        order,
        sorted({(index[a], index[b]) for a, b in graph.edges}),
        [node.bytes for node in nodes],
        [node.weight for node in nodes],
        [index[name] for name in graph.network_outputs],
    )


def _depths(solved: Solved) -> Iterator[str]:
    for name, depth in zip(solved.names, solved.problem.depths, strict=True):
        said = solved.graph.nodes[name].depth
        if said is not None and said != depth:
            yield f"depth of {name} is {depth}, expected {said}"


def _layers(solved: Solved) -> Iterator[str]:
    if solved.graph.layer_by_layer_cost is not None:
        singles = (1 << i for i in range(len(solved.names)))
        moved = sum(map(solved.cost.traffic_bytes, singles))
        yield from _difference("cost", moved, solved.graph.layer_by_layer_cost)


def _by_depth(solved: Solved) -> Iterator[str]:
    graph = solved.graph
    yield from _answer(solved, paper, graph.depth_dp_cost, graph.depth_dp_groups)


def _optima(solved: Solved) -> Iterator[str]:
    graph = solved.graph
    yield from _answer(solved, proven, graph.optimal_cost, graph.optimal_groups, is_optimal=True)


def _answer(
    solved: Solved,
    strategy: Callable[[Traffic, GroupingOptions], Grouping],
    cost: int | None,
    groups: Sequence[Names] | None,
    *,
    is_optimal: bool = False,
) -> Iterator[str]:
    """How a strategy's cost differs from the one expected, and what is wrong with the groups that
    are said to have it."""
    if cost is not None:
        try:
            found = strategy(solved.cost, OPTIONS)
        except CapacityError as error:
            yield f"{error.what}: {error.where}"
        else:
            yield from _difference("cost", found.cost, cost)
            if is_optimal and not found.optimal:
                yield f"{found.cost} is not proved optimal ({certificate(found)})"
    if groups is not None:
        some = solved.groups(groups)
        if runnable(solved.problem, some) is None:
            yield "the groups given wait for each other in a circle"
        else:
            costs = [solved.cost.of(group) for group in some]
            feasible = [found for found in costs if found is not None]
            if len(feasible) < len(costs):
                yield f"group {costs.index(None)} of those given does not fit"
            elif cost is not None:
                yield from _difference("cost of the groups given", sum(feasible), cost)


def _difference(what: str, found: int, expected: int) -> Iterator[str]:
    if found != expected:
        yield f"{what} is {found}, expected {expected}"
