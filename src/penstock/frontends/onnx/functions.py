"""Functions: operators that are defined by other operators, replaced by these.

Only operators that have no file of their own are replaced, by our definitions, or by ONNX's if
these have no subgraphs.  Shapes that are known then become constants, since definitions compute
with them.

Source: ONNX operator specification, function bodies in the package `onnx`.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from penstock.frontends.onnx import (
    attention,
    computed_weights,
    einsum,
    flat_vectors,
    fused_functions,
    gathered_tables,
    integer_functions,
    machine_learning,
    pooled_indices,
    qonnx,
    recurrent_steps,
    resized_volumes,
)
from penstock.frontends.onnx.definitions import Define, Definition, Shapes
from penstock.frontends.onnx.element_types import element_types
from penstock.frontends.onnx.file import File, FileNode, node_of
from penstock.frontends.onnx.folding import SHORT, proto_of, shape_slice
from penstock.frontends.onnx.operators import SHAPE, SHAPES, SIZE, operator_schema
from penstock.frontends.onnx.rewrites import folded_constants
from penstock.ir.tensor import Array

Types = Mapping[str, onnx.TypeProto]  # By name of a tensor.
OURS: Mapping[str, Define] = {
    **integer_functions.DEFINITIONS,
    **fused_functions.DEFINITIONS,
    **attention.DEFINITIONS,
    **recurrent_steps.DEFINITIONS,
    **einsum.DEFINITIONS,
    **gathered_tables.DEFINITIONS,
    **computed_weights.DEFINITIONS,
    **pooled_indices.DEFINITIONS,
    **flat_vectors.DEFINITIONS,
    **machine_learning.DEFINITIONS,
    **resized_volumes.DEFINITIONS,
    **qonnx.DEFINITIONS,
}
MOST_ROUNDS = 64  # Definitions that use functions, or need the shapes that others yield.

SAME_SHAPE = ("Gelu", "LayerNormalization", "Mish")  # Their results have the shape of input 0.


def defined_names() -> tuple[str, ...]:
    """Names of the operators that our definitions replace in every form."""
    forms = (
        *integer_functions.FORMS,
        *recurrent_steps.FORMS,
        *gathered_tables.DEFINITIONS,
        *computed_weights.DEFINITIONS,
        *pooled_indices.FORMS,
        *flat_vectors.FORMS,
        *resized_volumes.FORMS,
        *qonnx.DEFINITIONS,
    )
    return (*(name for name in OURS if name not in forms), *qonnx.NAMES)


def expanded(
    file: File, is_known: Callable[[FileNode], bool], extents: Mapping[str, int]
) -> File | None:
    """The model with definitions for operators that are not known; None if it has none.

    `is_known`: whether a node is imported as it is; `extents`: of symbolic dimensions."""
    found = None
    for _ in range(MOST_ROUNDS):
        named, computed = element_types(file), _computed(file)
        wanted = {
            k
            for k, node in enumerate(file.nodes)
            if not (is_known(node) and _is_standard(node, file, named, computed))
        }
        types = _types(file, extents) if wanted else {}
        shapes = {name: _extents(type) for name, type in types.items()}
        nodes, constants, defined = list[FileNode](), dict(file.constants), 0
        for k, node in enumerate(file.nodes):
            define = OURS.get(node.name) if k in wanted and node.outputs else None
            new = Definition(node, k, file, named, shapes)
            if define is not None and define(new):
                nodes += new.nodes
                constants |= new.constants
                defined += 1
                continue
            body = _definition(node, types, file.opset) if k in wanted else None
            defined += body is not None
            nodes += [node] if body is None else _instance(node, k, body, file.opset)
        if not defined:
            break
        made = replace(file, nodes=tuple(nodes), constants=constants)
        found = file = with_known_shapes(made, extents)
    return found


def _computed(file: File) -> frozenset[str]:
    """Names of the tensors that depend on inputs of the model, and not on their shapes alone."""
    found = {border.name for border in file.inputs} - file.constants.keys()
    for node in file.nodes:
        if node.name not in SHAPES and not found.isdisjoint(node.inputs):
            found.update(node.outputs)
    return frozenset(found)


def _is_standard(
    node: FileNode, file: File, types: Mapping[str, str], computed: frozenset[str]
) -> bool:
    """Whether the operator's file knows the form of a node."""
    return (
        computed_weights.is_standard(node, computed)
        and pooled_indices.is_standard(node)
        and flat_vectors.is_standard(node, file)
        and gathered_tables.is_standard(node, file)
        and recurrent_steps.is_standard(node, file)
        and resized_volumes.is_standard(node, file)
        and integer_functions.is_standard(node, file, types)
    )


def shapes_of(file: File, extents: Mapping[str, int]) -> Shapes:
    """The shapes of a model's tensors, by name, as far as they are known.

    `extents`: of symbolic dimensions."""
    return {name: _extents(type) for name, type in _types(file, extents).items()}


def _types(file: File, extents: Mapping[str, int]) -> Types:
    """Types of tensors by name, as far as they are known."""
    short = {name: x for name, x in file.constants.items() if x.size <= SHORT}
    known = {name: x for name, x in file.constants.items() if name not in short}
    inputs = [
        helper.make_tensor_value_info(
            border.name,
            helper.np_dtype_to_tensor_dtype(np.dtype(border.dtype)),
            [extents.get(e, e) if isinstance(e, str) else e for e in border.shape],
        )
        for border in file.inputs
    ]
    inputs += [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in known.items()
    ]
    graph = helper.make_graph(
        [
            proto_of(_of_opset(node, file.opset), file.opset)
            for node in file.nodes
            if not node.graphs
        ],
        "functions",
        inputs,
        [onnx.ValueInfoProto(name=border.name) for border in file.outputs],
        [numpy_helper.from_array(x, name) for name, x in short.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", file.opset)])
    try:
        inferred = _inferred(model).graph
    except Exception:  # the inference fails with any exception; nothing else is known then
        inferred = graph
    found = {v.name: v.type for v in (*inferred.input, *inferred.output, *inferred.value_info)}
    for name, x in short.items():
        dtype = helper.np_dtype_to_tensor_dtype(x.dtype)
        found[name] = helper.make_tensor_type_proto(dtype, x.shape)
    return found


def _inferred(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the types that ONNX's inference finds.  Raises an exception of any class.

    The inference ends its process at a Slice of a tensor that a window made smaller than nothing.
    So such models are inferred in a copy of the process, where the system has copies."""
    has_slice = any(node.op_type == "Slice" for node in model.graph.node)
    if not has_slice or sys.platform != "linux":
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    there, here = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the copy needs no other thread
        copy = os.fork()
    if copy == 0:
        try:
            faulthandler.disable()
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            with open(here, "wb") as pipe:
                found = onnx.shape_inference.infer_shapes(model, data_prop=True)
                pipe.write(found.SerializeToString())
        finally:
            os._exit(0)
    os.close(here)
    with open(there, "rb") as pipe:
        raw = pipe.read()
    os.waitpid(copy, 0)
    if not raw:
        raise ValueError("the inference failed")
    return onnx.ModelProto.FromString(raw)


def _of_opset(node: FileNode, opset: int) -> FileNode:
    """A node whose results have the shapes of a node that a definition made, which may be younger
    than the operator set of the model."""
    is_younger = node.name in SAME_SHAPE and operator_schema(node.name, opset) is None
    if not is_younger:
        return node
    return replace(
        node, name="Identity", inputs=node.inputs[:1], outputs=node.outputs[:1], attributes={}
    )


def _definition(node: FileNode, types: Types, opset: int) -> onnx.FunctionProto | None:
    """The body of a function; None if the operator has none without subgraphs."""
    schema: Any = operator_schema(node.name, opset)
    found = onnx.FunctionProto()
    if (
        schema is None
        or node.graphs
        or node.name in OURS
        or any(name and name not in types for name in node.inputs)
    ):
        return None
    if schema.has_function:
        found.CopyFrom(schema.function_body)
    elif schema.has_context_dependent_function:
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= opset]
        if not versions:
            return None
        given = [(types[n] if n else onnx.TypeProto()).SerializeToString() for n in node.inputs]
        found.ParseFromString(
            schema.get_context_dependent_function_with_opset_version(
                max(versions), proto_of(node, opset).SerializeToString(), given
            )
        )
    graphs = (a for inner in found.node for a in inner.attribute if a.HasField("g") or a.graphs)
    return found if found.node and next(graphs, None) is None else None


def _instance(
    node: FileNode, index: int, body: onnx.FunctionProto, opset: int
) -> Iterator[FileNode]:
    """The nodes of a function's body for one node."""
    schema: Any = operator_schema(node.name, opset)
    label = next(filter(None, node.outputs), node.name)
    outputs = {formal: y for formal, y in zip(body.output, node.outputs, strict=False) if y}
    names = {"": "", **dict.fromkeys(body.input, "")}
    names |= {**dict(zip(body.input, node.inputs, strict=False)), **outputs}
    given = {a.name: a for a in (*body.attribute_proto, *proto_of(node, opset).attribute)}
    for inner in body.node:
        found = onnx.NodeProto(op_type=inner.op_type)
        found.input.extend(names[n] for n in inner.input)
        found.output.extend(names.setdefault(n, f"{label}#{index}/{n}") for n in inner.output)
        for attribute in inner.attribute:
            stated = attribute
            if attribute.ref_attr_name:
                formal = schema.attributes.get(attribute.ref_attr_name)
                default = formal.default_value if formal else onnx.AttributeProto()
                stated = given.get(attribute.ref_attr_name, default)
            if stated.type:
                found.attribute.append(stated)
                found.attribute[-1].name = attribute.name
        yield node_of(found, node.where)


def with_known_shapes(file: File, extents: Mapping[str, int]) -> File:
    """The model with constants for the shapes of tensors whose shapes are known, and for what is
    computed from them, which may be the shapes of others."""
    while any(node.name in (SHAPE, SIZE) for node in file.nodes):
        types, constants = _types(file, extents), dict[str, Array]()
        for node in file.nodes:
            shape = _extents(types.get(node.x)) if node.name in (SHAPE, SIZE) else None
            if shape is not None:
                found = np.prod(shape) if node.name == SIZE else shape_slice(node, shape)
                constants[node.y] = np.array(found, np.int64)
        if not constants:
            break
        nodes = tuple(node for node in file.nodes if constants.keys().isdisjoint(node.outputs))
        known = replace(file, nodes=nodes, constants={**file.constants, **constants})
        file = folded_constants(known)
    return file


def _extents(type: onnx.TypeProto | None) -> tuple[int, ...] | None:
    """The shape of a tensor type; None if it is not known."""
    if type is None or not type.tensor_type.HasField("shape"):
        return None
    extents = [d.dim_value if d.HasField("dim_value") else None for d in type.tensor_type.shape.dim]
    return None if None in extents else tuple(int(e) for e in extents if e is not None)
