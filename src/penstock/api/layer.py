"""A layer by itself: the network of one node, with the inputs that it has in its network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from penstock.api.arguments import check_type
from penstock.api.arrays import drawn_inputs, drawn_steps
from penstock.choices import InterfaceTypes
from penstock.errors import UsageError, denoting, did_you_mean
from penstock.frontends.reading import AS_IT_IS
from penstock.frozen import frozen
from penstock.ir.graph import Graph, Node
from penstock.ir.tensor import Array
from penstock.pipeline.graphs import read_request, simplify
from penstock.pipeline.request import Request
from penstock.reports.formats import full_name
from penstock.simulators.graph import run_sequences


@frozen
class CutLayer:
    """A layer as a network of its own.

    request: the request of the network, for the same target and accelerators.
    sets: the inputs of the layer in several runs of its network, by name."""

    request: Request
    sets: tuple[Mapping[str, Array], ...]


def cut_layer(
    wanted: Request,
    name: str,
    count: int,
    given: Sequence[Mapping[str, Array]] | None = None,
) -> CutLayer:
    """Cut a layer out of the network of a request.

    name: that of its node, as `node_name` takes it.
    count: the number of sets of random inputs of the network, or of sequences of them.
    given: the inputs of the network, instead of random ones, with the element types of the model.

    Raises ModelError, UnsupportedError; UsageError if there is no such layer."""
    check_type("layer", name, str, "the call")
    model = read_request(wanted)
    graph = simplify(model, wanted.rounding, InterfaceTypes.MODEL)
    node = _node_named(graph, model, name, wanted.model)
    sets = drawn_inputs(model, count) if given is None else given
    steps = drawn_steps(model) if given is None else max(1, len(sets))
    values = run_sequences(graph, sets, steps)
    inputs = tuple({value.name: value for value in node.variable_inputs}.values())
    alone = Graph(f"{graph.name}: {node.name}", inputs, (node.output,), (node,))
    request = replace(
        wanted,
        graph=alone,
        model=alone.name,
        stream_input=False,
        plan_streaming=False,
        evaluation=None,
        io=InterfaceTypes.MODEL,
        reading=AS_IT_IS,
    )
    return CutLayer(request, tuple({v.name: run[v.name] for v in inputs} for run in values))


def _node_named(graph: Graph, model: Graph, name: str, where: str) -> Node:
    nodes = {node.name: node for node in graph.nodes}
    found = node_name(graph, model, name)
    if found is not None:
        return nodes[found]
    raise UsageError(
        "usage-181",
        f'there is no layer "{name}"',
        where=where,
        why="a layer is a node of the simplified network",
        help=did_you_mean(name, denoting(nodes))
        + "`penstock show MODEL --nodes` lists the nodes with their names",
    )


def node_name(graph: Graph, model: Graph, name: str) -> str | None:
    """Return the name of the node that `name` denotes in a simplified network; None if none is.

    name: as `full_name` takes it, or that of a node of the model that became part of the node."""
    found = full_name(name, (node.name for node in graph.nodes))
    origins = {node.origin for node in model.nodes if node.name == name and node.origin}
    made = [node.name for node in graph.nodes if node.origin in origins]
    return made[0] if found is None and len(made) == 1 else found
