"""Smaller ONNX models that a model yields: slices, bypassed nodes, smaller extents, short names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper

from benchmarks.torture.onnx_graph import nodes_between
from benchmarks.torture.onnx_judge import drawn, session
from penstock.ir.tensor import Array


def onnx_reductions(raw: bytes) -> Iterator[bytes]:
    """The reductions, the most promising first.  None for a file that is no model."""
    try:
        model = onnx.ModelProto.FromString(raw)
    except Exception:  # whatever the protobuf runtime raises
        return
    arrays = _arrays(model)
    ends = [value.name for value in model.graph.output]
    made = [name for node in model.graph.node for name in node.output if name in arrays]
    for name in made:  # what is computed first needs least
        yield _part(model, arrays, {}, (name,))
    for name in reversed(made):  # cutting late removes most
        if name not in ends:
            yield _part(model, arrays, {name: arrays[name]}, ends)
    yield from _without_nodes(model, arrays)
    extents = {n for array in arrays.values() for n in array.shape if n > 1}
    for old in sorted(extents, reverse=True):
        for new in sorted({1, 2, old // 2} - {0, old}):
            yield _resized(model, old, new)
    yield _renamed(model)


def _without_nodes(model: onnx.ModelProto, arrays: Mapping[str, Array]) -> Iterator[bytes]:
    """The model without one node, whose readers read one of its inputs."""
    for index, node in enumerate(model.graph.node):
        pairs = ((source, target) for source in node.input for target in node.output)
        for source, target in pairs:
            if _alike(arrays, source, target):
                yield _bypassed(model, index, source, target)


def _arrays(model: onnx.ModelProto) -> Mapping[str, Array]:
    """Every tensor of a model for some inputs; constants and inputs only if it does not run."""
    found = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    inputs = drawn(model, 0)
    found |= inputs
    names = [name for node in model.graph.node for name in node.output if name]
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    del whole.graph.output[:]
    whole.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    try:
        outputs = session(whole).run(names, inputs)
    except Exception:  # onnxruntime's exceptions have no common class
        return found
    return found | {n: np.asarray(a) for n, a in zip(names, outputs, strict=True)}


def _alike(arrays: Mapping[str, Array], a: str, b: str) -> bool:
    if a not in arrays or b not in arrays:
        return False
    x, y = arrays[a], arrays[b]
    return x.shape == y.shape and x.dtype == y.dtype


def _part(
    model: onnx.ModelProto,
    arrays: Mapping[str, Array],
    cuts: Mapping[str, Array],
    wanted: tuple[str, ...] | list[str],
) -> bytes:
    """The part of a model that computes tensors; those of `cuts` become inputs."""
    graph = model.graph
    nodes = nodes_between(graph, set(cuts), wanted)
    read = {name for node in nodes for name in node.input if name}
    inputs = [value for value in graph.input if value.name in read]
    inputs += [_info(name, array) for name, array in cuts.items() if name in read]
    outputs = [value for value in graph.output if value.name in wanted]
    known = {value.name for value in outputs}
    outputs += [_info(name, arrays[name]) for name in wanted if name not in known]
    constants = [t for t in graph.initializer if t.name in read]
    return _model(model, nodes, inputs, outputs, constants)


def _bypassed(model: onnx.ModelProto, index: int, source: str, target: str) -> bytes:
    """The model without a node: its readers read one of its inputs."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    if any(value.name == target for value in copy.graph.output):
        identity = helper.make_node("Identity", [source], [target])
        if copy.graph.node[index].op_type == "Identity":
            return model.SerializeToString()
        copy.graph.node[index].CopyFrom(identity)
        return copy.SerializeToString()
    del copy.graph.node[index]
    for node in copy.graph.node:
        node.input[:] = [source if name == target else name for name in node.input]
    arrays: Mapping[str, Array] = {}
    return _part(copy, arrays, {}, [value.name for value in copy.graph.output])


def _resized(model: onnx.ModelProto, old: int, new: int) -> bytes:
    """The model with an extent replaced everywhere, constants cut or not."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    for tensor in graph.initializer:
        array = numpy_helper.to_array(tensor)
        cut = array[
            tuple(slice(new) if n == old and new < old else slice(None) for n in array.shape)
        ]
        tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(cut), tensor.name))
    for value in graph.input:
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_value == old:
                dimension.dim_value = new
    for value in graph.output:
        value.type.tensor_type.ClearField("shape")
    del graph.value_info[:]
    return copy.SerializeToString()


def _renamed(model: onnx.ModelProto) -> bytes:
    """The model with short names and without comments; equal constants are one."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph, names = copy.graph, dict[str, str]()
    same: dict[bytes, str] = {}
    for tensor in graph.initializer:
        content = onnx.TensorProto()
        content.CopyFrom(tensor)
        content.name = ""
        key = content.SerializeToString()
        names[tensor.name] = same.setdefault(key, _short(len(same)))
    kept = dict[str, onnx.TensorProto]()
    for tensor in graph.initializer:
        new = onnx.TensorProto()
        new.CopyFrom(tensor)
        new.name = names[tensor.name]
        kept.setdefault(new.name, new)
    count = len(same)
    every = [v.name for v in graph.input] + [n for node in graph.node for n in node.output]
    for name in every:
        if name and name not in names:
            names[name] = _short(count)
            count += 1
    for node in graph.node:
        node.name = node.doc_string = ""
        del node.metadata_props[:]
        node.input[:] = [names.get(n, n) for n in node.input]
        node.output[:] = [names.get(n, n) for n in node.output]
    inputs = [v for v in graph.input]
    for value in (*graph.input, *graph.output):
        value.name = names.get(value.name, value.name)
    return _model(copy, list(graph.node), inputs, list(graph.output), list(kept.values()))


def _short(number: int) -> str:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return letters[number % 26] + (str(number // 26) if number >= 26 else "")


def _model(
    model: onnx.ModelProto,
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    constants: list[onnx.TensorProto],
) -> bytes:
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    used = {node.domain for node in nodes} | {""}
    opsets = [opset for opset in model.opset_import if opset.domain in used]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=model.ir_version)
    made.ClearField("producer_name")
    return made.SerializeToString()


def _info(name: str, array: Array) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape)
