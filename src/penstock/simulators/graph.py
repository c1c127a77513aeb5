"""Interprets a Graph with the reference arithmetic of its operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.ir.graph import Graph, Node
from penstock.ir.tensor import Array, Region


def run_graph(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """All values of one inference by name, including the graph's inputs.

    `inputs` maps the name of each graph input, state and queue to its elements."""
    values = dict(inputs)
    for node in graph.nodes:
        values[node.name] = evaluate_node(node, values)
    return values


def initial_states(graph: Graph) -> dict[str, Array]:
    """The elements of all states and queues before the first run, by name."""
    return {s.before.name: s.initial.array(s.before.type) for s in (*graph.states, *graph.queues)}


def next_states(graph: Graph, values: Mapping[str, Array]) -> dict[str, Array]:
    """The elements of all states and queues after a run with these values, by name."""
    found = {s.before.name: values[s.after.name].reshape(s.before.shape) for s in graph.states}
    return found | {
        q.before.name: values[q.window.name][q.kept_region.slices] for q in graph.queues
    }


def run_sequences(
    graph: Graph, runs: Sequence[Mapping[str, Array]], steps: int
) -> list[dict[str, Array]]:
    """All values of each of several runs; the states are reset before every `steps` runs."""
    found: list[dict[str, Array]] = []
    states = initial_states(graph)
    for k, inputs in enumerate(runs):
        states = initial_states(graph) if k % steps == 0 else states
        found.append(run_graph(graph, {**inputs, **states}))
        states = next_states(graph, found[-1])
    return found


def evaluate_node(node: Node, values: Mapping[str, Array]) -> Array:
    """The whole output of a node."""
    inputs = tuple(values[v.name] if v.data is None else v.array for v in node.inputs)
    return node.op.evaluate(node.site, inputs, Region.whole(node.output.shape))


# TensorTrace: assembles the regions that a machine computes into tensors.


class TensorTrace:
    """Trace hook that assembles computed regions into whole tensors.

    Elements that are not computed, because nothing reads them, are masked (`numpy.ma`)."""

    def __init__(self, tensors: dict[str, Array], shapes: Mapping[str, tuple[int, ...]]) -> None:
        self._tensors = tensors
        self._shapes = shapes

    def __call__(self, name: str, region: Region, elements: Array) -> None:
        if name not in self._tensors:
            empty = np.zeros(self._shapes[name], elements.dtype)
            self._tensors[name] = np.ma.array(empty, mask=True)
        self._tensors[name][region.slices] = elements


def gathered(tensors: dict[str, Array]) -> dict[str, Array]:
    """The tensors of `TensorTrace`; those whose elements are all computed as plain arrays."""
    return {k: v if np.ma.is_masked(v) else np.ma.getdata(v) for k, v in tensors.items()}
