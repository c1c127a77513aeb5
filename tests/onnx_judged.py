"""Small ONNX models judged by onnxruntime, with graph optimisation disabled."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime

from onnx_models import drawn, graph_of
from penstock.ir.tensor import Array, DType, TensorType
from penstock.simulators.graph import run_graph


def worst_steps(raw: bytes, numbers: int = 4) -> float:
    """The largest difference from onnxruntime, in steps of the outputs or in elements."""
    graph = graph_of(raw)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session: Any = onnxruntime.InferenceSession(raw, options)
    worst = 0.0
    for k in range(numbers):
        mine = drawn(graph, k)
        if k == 0:
            every = np.arange(-128, 128, dtype=np.int8)
            mine |= {
                v.name: np.resize(every, v.type.shape)
                for v in graph.inputs
                if v.type.dtype is DType.INT8
            }
        theirs = {
            border.name: _as_the_model(mine[v.name], v.type, border.type)
            for v, border in zip(graph.inputs, session.get_inputs(), strict=True)
        }
        found = run_graph(graph, mine)
        for v, expected in zip(graph.outputs, session.run(None, theirs), strict=True):
            elements = found[v.name].astype(np.float64)
            if expected.dtype == np.uint8:
                elements = elements + 128
            elif expected.dtype == np.float32 and v.type.dtype is DType.INT8:
                expected = expected / np.float32(v.type.scale) + v.type.zero_point
            assert elements.shape == expected.shape
            worst = max(worst, float(np.abs(elements - np.rint(expected)).max()))
    return worst


def _as_the_model(elements: Array, type: TensorType, kind: str) -> Array:
    if type.dtype is not DType.INT8:
        return elements
    if kind == "tensor(float)":
        return (elements.astype(np.float32) - type.zero_point) * np.float32(type.scale)
    return elements if kind == "tensor(int8)" else (elements.astype(int) + 128).astype(np.uint8)
