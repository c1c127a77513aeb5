"""uint8 networks, such as those of TensorFlow 1, as int8 networks.

Each uint8 tensor with a quantisation becomes int8: its elements and its zero point are less by 128,
so that it stands for the same real numbers.  Inputs and outputs of the network stay uint8; a node
at the border shifts their elements.

Source: TensorFlow Lite, quantisation specification: real = scale * (element - zero point).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from penstock.errors import UnsupportedError
from penstock.frozen import frozen
from penstock.ir.foreign import ForeignModel, ForeignNode
from penstock.ir.graph import Graph, Node, Value, free_name
from penstock.ir.tensor import Data, DType, TensorType
from penstock.ops.conversions import ShiftZero

SHIFT = 128  # A uint8 element less its int8 element.
_OF_BYTES = ("CAST", "QUANTIZE")  # Operators that read and compute uint8 elements as they are.
# Operators whose uint8 kernels are known to compute what penstock computes: those that move
# elements or compute with differences from zero points, like the kernels for int8, and those whose
# files treat unsigned nodes apart.
#
# Source: TensorFlow Lite, kernels/internal/reference.
_EXACT = frozenset(
    (
        "CUSTOM:TFLite_Detection_PostProcess",
        "ADD", "ARG_MAX", "ARG_MIN", "AVERAGE_POOL_2D", "BATCH_TO_SPACE_ND", "BROADCAST_TO",
        "CONCATENATION", "CONV_2D", "DEPTHWISE_CONV_2D", "DEQUANTIZE", "EQUAL", "EXPAND_DIMS",
        "FULLY_CONNECTED", "GATHER", "GATHER_ND", "GELU", "GREATER", "GREATER_EQUAL", "HARD_SWISH",
        "LEAKY_RELU", "LESS", "LESS_EQUAL", "LOGISTIC", "LOG_SOFTMAX", "MAXIMUM", "MAX_POOL_2D",
        "MEAN", "MINIMUM", "MIRROR_PAD", "MUL", "NOT_EQUAL", "PACK", "PAD", "PADV2", "QUANTIZE",
        "REDUCE_MAX", "REDUCE_MIN", "RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "RESHAPE",
        "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "SELECT", "SELECT_V2", "SHAPE", "SLICE",
        "SOFTMAX", "SPACE_TO_BATCH_ND", "SPACE_TO_DEPTH", "SPLIT", "SPLIT_V", "SQUEEZE",
        "STRIDED_SLICE", "SUB", "SUM", "TANH", "TILE", "TRANSPOSE", "TRANSPOSE_CONV", "UNPACK",
    )
)  # fmt: skip


def is_unsigned(model: ForeignModel) -> bool:
    """Whether a node reads or computes quantised uint8 elements that needs them as int8."""
    nodes = [node for node in model.nodes if node.name not in _OF_BYTES]
    values = (value for node in nodes for value in (*node.inputs, *node.outputs))
    return any(value is not None and _is_shifted(value.type) for value in values)


@frozen
class SignedModel:
    """A model with int8 tensors, whose inputs and outputs are still uint8; no node reads these.

    inside: by name of such an input or output, the int8 tensor that nodes read or compute."""

    model: ForeignModel
    inside: Mapping[str, Value]

    def with_borders(self, graph: Graph) -> Graph:
        """The graph of the model, with nodes that shift the elements of inputs and outputs."""
        given = {value.name for value in graph.inputs}
        made = [v for v in graph.outputs if v.name in self.inside and v.name not in given]
        read = [v for v in graph.inputs if v.name in self.inside]
        where = f'{graph.name}: {{}} "{{}}"'.format
        first = (
            Node(ShiftZero(DType.INT8), (v,), self.inside[v.name], where("input", v.name))
            for v in read
        )
        last = (
            Node(ShiftZero(DType.UINT8), (self.inside[v.name],), v, where("output", v.name))
            for v in made
        )
        return graph.with_nodes((*first, *graph.nodes, *last))


def as_signed(model: ForeignModel) -> SignedModel:
    """The model with int8 in place of quantised uint8."""
    values = [*model.inputs, *model.outputs]
    names = {v.name for node in model.nodes for v in (*node.inputs, *node.outputs) if v is not None}
    names |= {value.name for value in values}
    inside = {
        v.name: Value(free_name(f"{v.name}/int8", names), _signed_type(v.type))
        for v in values
        if _is_shifted(v.type) and v.data is None
    }
    nodes = tuple(_signed_node(node, inside) for node in model.nodes)
    return SignedModel(replace(model, nodes=nodes), inside)


def _signed_node(node: ForeignNode, inside: Mapping[str, Value]) -> ForeignNode:
    values = (*(value for value in node.inputs if value is not None), *node.outputs)
    mixed = node.name != "QUANTIZE" and any(v.dtype is DType.INT8 for v in values)
    if mixed or not any(_is_shifted(value.type) for value in values):
        return node

    def signed(value: Value) -> Value:
        if value.name in inside:
            return inside[value.name]
        if not _is_shifted(value.type):
            return value
        data = value.data
        if data is not None:
            data = Data.of(data.array(value.type) ^ np.uint8(SHIFT))
        return replace(value, type=_signed_type(value.type), data=data)

    return replace(
        node,
        inputs=tuple(None if value is None else signed(value) for value in node.inputs),
        outputs=tuple(map(signed, node.outputs)),
        variables={k: signed(value) for k, value in node.variables.items()},
        unsigned=True,
    )


def _is_shifted(type: TensorType) -> bool:
    return type.dtype is DType.UINT8 and type.quantisation is not None


def _signed_type(type: TensorType) -> TensorType:
    q = type.quantisation
    assert q is not None
    zeros = tuple(zero - SHIFT for zero in q.zero_points)
    return replace(type, dtype=DType.INT8, quantisation=replace(q, zero_points=zeros))


def require_exact(node: ForeignNode) -> None:
    """Raises UnsupportedError if the arithmetic of an unsigned node is not known to be exact."""
    if node.unsigned and node.name not in _EXACT:
        raise UnsupportedError(
            "model-021",
            f"{node.name}: tensors are uint8, must be int8",
            where=node.where,
            why="the uint8 quantisation of TensorFlow 1 is supported only for operators whose "
            "arithmetic on uint8 is known to be exact, and this is none of them",
            help="convert the trained network again with a current TensorFlow Lite converter, "
            "which quantises to int8, or end the network before the operator",
        )
