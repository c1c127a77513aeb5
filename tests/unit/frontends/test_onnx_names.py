"""Names of tensors in an ONNX model are labels: renamed, it computes the same."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import onnx
import pytest
from benchmarks.adversarial_names import drawn_name

from benchmarks.onnx_subjects import onnx_subjects
from lowered import inputs_of_graph
from penstock.frontends.open import parse
from penstock.frontends.reading import Reading
from penstock.ir.graph import Graph
from penstock.simulators.graph import run_graph


def renamed(raw: bytes, seed: int) -> bytes:
    """The model whose tensors have other names, no two the same."""
    random = Random(seed)
    model: Any = onnx.ModelProto.FromString(raw)
    graph = model.graph
    known = [t.name for t in graph.initializer] + [v.name for v in graph.input]
    known += [name for node in graph.node for name in node.output if name]
    new: dict[str, str] = {}
    for old in dict.fromkeys(known):
        name = ""
        while not name or name in new.values():
            name = drawn_name([*new.values(), "y"], random)
        new[old] = name
    for node in graph.node:
        for side in (node.input, node.output):
            side[:] = [new.get(name, name) for name in side]
    for each in (*graph.initializer, *graph.input, *graph.output, *graph.value_info):
        each.name = new.get(each.name, each.name)
    return model.SerializeToString()


def outputs(graph: Graph, inputs: list[Any]) -> list[Any]:
    values = run_graph(graph, {v.name: x for v, x in zip(graph.inputs, inputs, strict=True)})
    return [v.data.array(v.type) if v.data else values[v.name] for v in graph.outputs]


@pytest.mark.parametrize("name", sorted(onnx_subjects()))
def test_a_renamed_model_computes_the_same(name: str) -> None:
    raw = onnx_subjects()[name]
    reading = Reading(assume_int8=".assumed." in name)
    graph = parse(raw, name, reading)
    inputs = list(inputs_of_graph(graph, 3).values())
    expected = outputs(graph, inputs)
    for seed in range(25):
        found = parse(renamed(raw, seed), name, reading)
        for array, other in zip(outputs(found, inputs), expected, strict=True):
            np.testing.assert_array_equal(array, other)
