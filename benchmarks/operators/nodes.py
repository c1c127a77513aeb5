"""Nodes: every operator of a decoded model as a model of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import tflite
from tflite import BuiltinOperator

from benchmarks.operators.drawing import Array, Drawn
from penstock.frontends.control_flow import without_control_flow
from penstock.ir.foreign import Attribute, ForeignModel, ForeignNode
from penstock.ir.graph import Value
from tools.tflite_writer import OPERATORS, OperatorSpec, OptionValue, TensorSpec

_ACTIVATIONS = {
    value: name for name, value in vars(tflite.ActivationFunctionType).items() if name.isupper()
}


def nodes_as_models(model: ForeignModel, values: Mapping[str, Array]) -> Iterator[Drawn]:
    """The operators that the writer knows, in order, loops unrolled; `values`: the elements of
    computed tensors.  Operators on what is known at import compute nothing."""
    for node in without_control_flow(model).nodes:
        read = (v for k, v in enumerate(node.inputs) if v and k not in node.variables)
        known = all(v.data is not None or v.name in values for v in read)
        if _is_known(node) and known:
            yield _alone(node, values)


def _is_known(node: ForeignNode) -> bool:
    """Whether the writer knows the operator's options, if it has any."""
    return node.name in OPERATORS or (not node.attributes and hasattr(BuiltinOperator, node.name))


Specs = tuple[list[TensorSpec], list[OperatorSpec], list[int], list[int]]
"""Tensors, operators, and the indices of inputs and outputs, as the writer takes them."""


def specs_of(model: ForeignModel) -> Specs | None:
    """A decoded model as the writer takes it; None for one that it cannot write: with state, or
    with options that it does not know."""
    for node in model.nodes:
        unknown = node.name not in OPERATORS and node.attributes
        if unknown or node.handles or node.variables or not hasattr(BuiltinOperator, node.name):
            return None
    named: dict[str, Value] = {}
    ends = (*model.inputs, *model.outputs)
    every = [v for node in model.nodes for v in (*node.inputs, *node.outputs) if v is not None]
    for value in (*every, *ends):
        named.setdefault(value.name, value)
    index = {name: k for k, name in enumerate(named)}
    operators = [
        OperatorSpec(
            node.name,
            tuple(-1 if v is None else index[v.name] for v in node.inputs),
            tuple(index[v.name] for v in node.outputs),
            _options(node) if node.name in OPERATORS else {},
        )
        for node in model.nodes
    ]
    inputs, outputs = ([index[v.name] for v in values] for values in (model.inputs, model.outputs))
    return [_tensor(v) for v in named.values()], operators, inputs, outputs


def _alone(node: ForeignNode, values: Mapping[str, Array]) -> Drawn:
    named = {v.name: v for v in (*node.inputs, *node.outputs) if v is not None}
    index = {name: k for k, name in enumerate(named)}
    inputs = tuple(-1 if v is None else index[v.name] for v in node.inputs)
    outputs = tuple(index[v.name] for v in node.outputs)
    states = {v.name for v in node.variables.values()}
    computed = tuple(
        dict.fromkeys(
            v for v in node.inputs if v is not None and v.data is None and v.name not in states
        )
    )
    return Drawn(
        tuple(replace(_tensor(v), is_variable=v.name in states) for v in named.values()),
        (
            OperatorSpec(
                node.name, inputs, outputs, _options(node) if node.name in OPERATORS else {}
            ),
        ),
        tuple(index[v.name] for v in computed),
        tuple(dict.fromkeys(outputs)),  # a damaged file may name one twice
        tuple(values[v.name] for v in computed),
    )


def _tensor(value: Value) -> TensorSpec:
    q, type = value.type.quantisation, value.type
    data = None if value.data is None else value.data.array(type)
    if q is None:
        return TensorSpec(value.name, type.shape, type.dtype.value, data=data)
    return TensorSpec(
        value.name, type.shape, type.dtype.value, q.scales, q.zero_points, q.axis or 0, data
    )


def _options(node: ForeignNode) -> dict[str, OptionValue]:
    """The operator's options as the writer takes them, activations by name."""
    table, _ = OPERATORS[node.name]
    return {name: _option(name, value) for name, value in node.attributes.items() if table}


def _option(name: str, value: Attribute) -> OptionValue:
    if name == "fused_activation_function" and isinstance(value, int):
        return _ACTIVATIONS[value]
    return tuple(map(int, value)) if isinstance(value, tuple) else value
