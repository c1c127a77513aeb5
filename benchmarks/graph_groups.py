"""GraphGroups: a network's graph as a grouping problem, with one grouping node per graph node."""

from __future__ import annotations

from pathlib import Path

from penstock.frontends.reading import Reading
from penstock.ir.graph import Graph
from penstock.pipeline.graphs import read, simplify
from penstock.scheduling.grouping.problem import GroupingProblem, GroupNode


def short_name(model: str) -> str:
    """A model's name in tables.

    >>> short_name("models/topo_resnet50_int8.tflite.gz"), short_name("zoo:vgg16")
    ('topo_resnet50_int8', 'zoo:vgg16')
    """
    return Path(model).name.removesuffix(".gz").removesuffix(".tflite").removesuffix(".onnx")


def is_onnx(model: str) -> bool:
    """Whether a model is an ONNX file, which may be compressed."""
    return model.removesuffix(".gz").endswith(".onnx")


def network(model: str) -> Graph:
    """Of a zoo network or a model file; real numbers of an ONNX file count as if quantised.

    Raises PenstockError."""
    graph = read(model, Reading(assume_int8=is_onnx(model)))
    return simplify(graph)


def network_problem(model: str) -> GroupingProblem:
    """Its nodes, to be grouped.  Raises PenstockError."""
    return graph_problem(network(model))


def graph_problem(graph: Graph) -> GroupingProblem:
    """Weights are all constants that a node reads."""
    tensors = [*(node.output for node in graph.nodes), *graph.inputs]
    index = {value.name: k for k, value in enumerate(tensors)}
    nodes = tuple(
        GroupNode(
            node.name,
            node.output.type.size_bytes,
            sum(value.type.size_bytes for value in node.inputs if value.data is not None),
            tuple(sorted({index[value.name] for value in node.variable_inputs})),
        )
        for node in graph.nodes
    )
    outputs = frozenset(index[value.name] for value in graph.outputs if value.name in index)
    count = len(nodes)
    return GroupingProblem(
        nodes,
        tuple(value.type.size_bytes for value in graph.inputs),
        frozenset(k for k in outputs if k < count),
    )
