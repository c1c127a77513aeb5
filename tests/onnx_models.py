"""Helpers of tests of ONNX models: graphs, random inputs, and the judgement of onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock import api
from penstock.frontends.onnx.file import decode
from penstock.frontends.onnx.importer import import_onnx
from penstock.frontends.open import parse
from penstock.frontends.reading import AS_IT_IS, Reading
from penstock.ir.graph import Graph
from penstock.ir.tensor import Array
from penstock.simulators.compare import Judgement
from penstock.simulators.drawn_inputs import draw_inputs
from penstock.simulators.graph import run_graph

ASSUMED = Reading(assume_int8=True)


def graph_of(raw: bytes, reading: Reading = AS_IT_IS) -> Graph:
    return parse(raw, "m.onnx", reading)


def kinds(graph: Graph) -> list[str]:
    return [node.kind for node in graph.nodes]


def drawn(graph: Graph, number: int = 0) -> dict[str, Array]:
    types = [(v.type.shape, v.type.dtype.value, v.type.zero_point) for v in graph.inputs]
    names = [v.name for v in graph.inputs]
    return dict(zip(names, draw_inputs(types, number, seed=1), strict=True))


def judged(raw: bytes, folder: Path, numbers: Sequence[int] = (0, 1, 2, 3)) -> Judgement:
    """All tensors of a model, judged by onnxruntime on several sets of inputs."""
    pytest.importorskip("onnxruntime")
    path = folder / "m.onnx"
    path.write_bytes(raw)
    graph = import_onnx(decode(raw, "m.onnx", folder), AS_IT_IS).graph
    results = [run_graph(graph, drawn(graph, number)) for number in numbers]
    return api.onnx_reference(api.request(path)).judge(results)
