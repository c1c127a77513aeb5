"""Judges imported ONNX models by onnxruntime, with graph optimisations disabled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnxruntime

from onnx_models import graph_of
from penstock.frontends.reading import AS_IT_IS, Reading
from penstock.ir.graph import Graph, Value
from penstock.ir.tensor import Array, DType
from penstock.simulators.graph import run_graph

INPUT_SETS = 3
REAL_ERROR = 1e-5
"""Largest difference of real outputs, relative to the largest of them or 1."""


@dataclass(frozen=True)
class Judged:
    """The largest difference of any output, in quantisation steps (or, of real numbers, in units
    of `REAL_ERROR`), and the graph."""

    steps: float
    graph: Graph


def judged_by_onnxruntime(raw: bytes, reading: Reading = AS_IT_IS) -> Judged:
    """Runs graph and model on every element in order, and on random elements."""
    graph = graph_of(raw, reading)
    session = _session(raw)
    worst = 0.0
    for number in range(INPUT_SETS):
        rng = np.random.default_rng(number)
        drawn = {v.name: _drawn(v, rng) for v in graph.inputs}
        if number == 0:
            every = np.arange(-128, 128, dtype=np.int8)
            bytes_ = (v for v in graph.inputs if v.type.dtype is DType.INT8)
            drawn |= {v.name: np.resize(every, v.type.shape) for v in bytes_}
        pairs = zip(graph.inputs, session.get_inputs(), strict=True)
        fed = {told.name: _as_fed(drawn[v.name], v, told.type) for v, told in pairs}
        found = run_graph(graph, drawn)
        for value, expected in zip(graph.outputs, session.run(None, fed), strict=True):
            mine = found[value.name]
            assert mine.shape == expected.shape
            worst = max(worst, _difference(value, mine, expected))
    return Judged(worst, graph)


def worst_steps(raw: bytes) -> float:
    """The largest difference of any output, in steps."""
    return judged_by_onnxruntime(raw).steps


def _session(raw: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(raw, options, providers=["CPUExecutionProvider"])


def _drawn(value: Value, rng: np.random.Generator) -> Array:
    if value.type.dtype is DType.FLOAT32:
        return rng.normal(size=value.type.shape).astype(np.float32)
    return rng.integers(-128, 128, value.type.shape).astype(np.int8)


def _as_fed(elements: Array, value: Value, kind: str) -> Array:
    """The elements in the model's type: real numbers, int8 or uint8."""
    if elements.dtype == np.float32 or kind == "tensor(int8)":
        return elements
    if kind == "tensor(uint8)":
        return (elements.astype(np.int16) + 128).astype(np.uint8)
    steps = elements.astype(np.int64) - value.type.zero_point
    return (steps * np.float32(value.type.scale)).astype(np.float32)


def _difference(value: Value, mine: Array, expected: Array) -> float:
    if value.type.dtype is DType.FLOAT32:
        largest = max(1.0, float(np.abs(expected).max(initial=0)))
        return float(np.abs(mine - expected).max(initial=0)) / largest / REAL_ERROR
    if value.type.quantisation is None:
        return float(np.abs(mine.astype(np.int64) - expected).max(initial=0))
    wanted = expected.astype(np.int64) - (128 if expected.dtype == np.uint8 else 0)
    if expected.dtype.kind == "f":
        steps = np.rint(expected.astype(np.float64) / np.float32(value.type.scale))
        wanted = steps.astype(np.int64) + value.type.zero_point
    return float(np.abs(mine.astype(np.int64) - wanted).max(initial=0))
