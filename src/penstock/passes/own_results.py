"""own_results: gives results of a run memory of their own where they are the old elements of a
state.

The updates of states, at the end of a run, would overwrite such a result: an output of the graph,
or the new elements of a state.  A result that is a view of a state becomes a view of a copy.  If
the state itself is an output, the output is a copy, and the state gets another name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.ir.graph import Graph, Node, State, Value, free_name
from penstock.ops.registry import COPY


def own_results(graph: Graph) -> Graph:
    """Returns the graph in which no output and no new elements of a state are in a state's
    memory."""
    return _with_copied_views(_with_copied_states(graph))


def _with_copied_states(graph: Graph) -> Graph:
    """The graph in which no output is a state itself."""
    taken = set(graph.names())
    outputs = {value.name for value in graph.outputs}
    renamed: dict[str, Value] = {}
    copies: list[Node] = []
    for state in graph.states:
        before = state.before
        if before.name in outputs:
            name = free_name(f"{before.name}/state", taken)
            taken.add(name)
            renamed[before.name] = replace(before, name=name)
            copies.append(Node(COPY, (renamed[before.name],), before, state.update.origin))
    nodes = (node.reading(renamed) for node in graph.nodes)
    return replace(
        graph,
        nodes=(*copies, *nodes),
        states=tuple(_renamed_state(state, renamed) for state in graph.states),
    )


def _renamed_state(state: State, names: Mapping[str, Value]) -> State:
    before = names.get(state.before.name, state.before)
    return replace(state, update=replace(state.update, output=before))


def _with_copied_views(graph: Graph) -> Graph:
    """The graph in which no result is a view of a state."""
    taken = set(graph.names())
    results = {value.name for value in (*graph.outputs, *(s.after for s in graph.states))}
    in_states = {state.before.name for state in graph.states}
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.op.ALIAS and node.inputs[0].name in in_states:
            if node.name in results:
                source = node.inputs[0]
                copy = replace(source, name=free_name(f"{source.name}/copy", taken), origin=None)
                taken.add(copy.name)
                nodes.append(Node(COPY, (source,), copy, node.origin))
                node = replace(node, inputs=(copy, *node.inputs[1:]))
            else:
                in_states.add(node.name)
        nodes.append(node)
    return graph.with_nodes(tuple(nodes))
