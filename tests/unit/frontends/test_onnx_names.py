"""Names of tensors in an ONNX model are labels: a tensor called as one that the reader derives from
another does not take its place."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from benchmarks.onnx_subjects import onnx_subjects
from lowered import inputs_of_graph
from penstock.frontends.onnx.file import decode
from penstock.frontends.onnx.rewrites import rewritten
from penstock.frontends.open import parse
from penstock.frontends.reading import Reading
from penstock.ir.graph import Graph
from penstock.simulators.graph import run_graph


def renamed(raw: bytes, old: str, new: str) -> bytes:
    """The model in which one tensor has another name."""
    model: Any = onnx.ModelProto.FromString(raw)
    graph = model.graph
    for node in graph.node:
        for side in (node.input, node.output):
            side[:] = [new if name == old else name for name in side]
    for each in (*graph.initializer, *graph.input, *graph.output, *graph.value_info):
        each.name = new if each.name == old else each.name
    return model.SerializeToString()


def outputs(graph: Graph, inputs: list[Any]) -> list[Any]:
    values = run_graph(graph, {v.name: x for v, x in zip(graph.inputs, inputs, strict=True)})
    return [v.data.array(v.type) if v.data else values[v.name] for v in graph.outputs]


@pytest.mark.parametrize("name", sorted(onnx_subjects()))
def test_no_tensor_takes_the_place_of_a_derived_one(name: str) -> None:
    raw = onnx_subjects()[name]
    reading = Reading(assume_int8=".assumed." in name)
    graph, file = parse(raw, name, reading), decode(raw, name, None)
    inputs = list(inputs_of_graph(graph, 3).values())
    expected = outputs(graph, inputs)
    own = file.names()
    derived = sorted((graph.names() | rewritten(file).names()) - own)
    assert derived
    computed = [n.outputs[0] for n in file.nodes if n.outputs[0] in graph.names()]
    for wanted in derived:
        stem = wanted.rpartition("/")[0]
        others = [v for v in (*computed, *sorted(file.constants)) if not stem.startswith(v)]
        own_inputs = {i for n in file.nodes if stem.startswith(n.outputs[0]) for i in n.inputs}
        for victim in {others[0], others[-1], *own_inputs.intersection(others)}:
            found = parse(renamed(raw, victim, wanted), name, reading)
            for array, other in zip(outputs(found, inputs), expected, strict=True):
                np.testing.assert_array_equal(array, other)
