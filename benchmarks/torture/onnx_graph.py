"""Parts of ONNX graphs, and the types of their tensors."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import onnx
from onnx import shape_inference


def inferred(model: onnx.ModelProto) -> Mapping[str, int]:
    """Element types of the tensors of a model as ONNX's shape inference finds them, by name."""
    try:
        found = shape_inference.infer_shapes(model)
    except Exception:  # of damaged models
        found = model
    graph = found.graph
    every = (*graph.value_info, *graph.input, *graph.output)
    types = {v.name: v.type.tensor_type.elem_type for v in every}
    for node in graph.node:  # operators of onnxruntime's own, which ONNX does not infer
        if node.domain and node.output and node.output[0] not in types:
            types[node.output[0]] = _last_zero_point(node, graph)
    return types


def _last_zero_point(node: onnx.NodeProto, graph: onnx.GraphProto) -> int:
    """The type of a node's last 8-bit constant with one element, which is its result's."""
    constants = {t.name: t for t in graph.initializer}
    kinds = [constants[n].data_type for n in node.input if n in constants]
    eight = [k for k in kinds if k in (onnx.TensorProto.INT8, onnx.TensorProto.UINT8)]
    return eight[-1] if eight else onnx.TensorProto.FLOAT


def nodes_between(
    graph: onnx.GraphProto, cuts: Collection[str], wanted: Collection[str]
) -> list[onnx.NodeProto]:
    """The nodes that compute some tensors from others, in order."""
    missing, found = set(wanted), list[onnx.NodeProto]()
    for node in reversed(graph.node):
        if any(name in missing for name in node.output if name):
            found.append(node)
            missing |= {name for name in node.input if name and name not in cuts}
    return found[::-1]
