"""Select: element-wise choice between two tensors by a condition; inputs may be broadcast.

    condition  bool
    a, b, y    any type   one scale and zero point; y = a where the condition holds, else b

Source: TFLite SELECT_V2; `micro/kernels/select.cc`.  SELECT is the same for inputs of one shape; a
condition of rank 1 otherwise chooses whole slices along the first axis, and a scalar one of the
inputs (TensorFlow, `kernels/select.cc`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Kernel, Site
from penstock.ir.operator_facts import AxisOrder, OnnxName, RelayName, relay
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit import broadcast
from penstock.opkit.checks import require, require_dtype, require_one_quantisation
from penstock.opkit.elementwise import Elementwise
from penstock.opkit.elementwise_nodes import elementwise_nodes
from penstock.opkit.intermediate import reshaped
from penstock.opkit.requantised import in_scale_of_output
from penstock.opkit.samples import int8, integers, sample


@dataclass(frozen=True, slots=True)
class Select(Elementwise):
    """Element-wise choice between two tensors."""

    TFLITE: ClassVar[tuple[str, ...]] = ("SELECT", "SELECT_V2")
    ONNX: ClassVar[Mapping[str, OnnxName]] = {
        "Where": OnnxName(AxisOrder.ALIKE, carries=True, floats=True)
    }
    RELAY: ClassVar[tuple[RelayName, ...]] = relay("where")

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        require(len(inputs) == 3, f"select has {len(inputs)} inputs, must have 3")
        condition, a, b = inputs
        require_dtype(condition, (DType.BOOL,), "condition")
        require_dtype(b, (a.dtype,), "second choice")
        return TensorType(broadcast.result_shape(inputs), a.dtype)

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        condition, a, b = (
            x[broadcast.needs(type, out).slices]
            for x, type in zip(inputs, site.inputs, strict=True)
        )
        return np.where(condition, a, b)

    def kernel(self, site: Site) -> Kernel:
        size = site.output.dtype.size_bytes
        params = broadcast.params(site)
        if size == 1:
            return Kernel("select_s8", params, by_rows=True)
        return Kernel("select_wide", (*params, ("element_bytes", size)), by_rows=True)


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite SELECT, SELECT_V2."""
    condition, a, b = (node.input(k) for k in range(3))
    require_one_quantisation((a.type, b.type, node.output().type), "choices and output")
    if node.name == "SELECT" and condition.type.rank == 1 < a.type.rank:
        shape = (*condition.type.shape, *(1,) * (a.type.rank - 1))
        condition, views = reshaped(condition, shape, f"{node.output().name}/condition")
        yield from views
        node = replace(node, inputs=(condition, a, b))
    yield from elementwise_nodes(Select(), node, 3, a.type.dtype)


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX Where; choices are first converted to the output's quantisation."""
    choices: list[Value] = []
    for k in (1, 2):
        value, made = in_scale_of_output(node, k)
        yield from made
        choices.append(value)
    yield node.made(Select(), node.input(0), *choices)


_CONDITION = TensorType((1, 4, 3, 5), DType.BOOL)

SAMPLES = (
    sample(Select(), _CONDITION, int8(1, 4, 3, 5), int8(1, 4, 3, 5), scale=0.05, zero=-3),
    sample(
        Select(), TensorType((4, 1, 1), DType.BOOL), int8(5), int8(2, 4, 3, 1), scale=0.05, zero=-3
    ),
    sample(Select(), _CONDITION, integers(1, 4, 1, 5), integers()),
)
