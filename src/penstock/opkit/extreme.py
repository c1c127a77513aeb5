"""Extreme: base of Maximum and Minimum, whose tensors share one scale.

Source: TFLite `reference/maximum_minimum.h`, which compares elements without requantisation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Kernel, Site
from penstock.ir.region import Region
from penstock.ir.tensor import Array, TensorType
from penstock.opkit import broadcast
from penstock.opkit.checks import require_one_quantisation
from penstock.opkit.elementwise import Elementwise
from penstock.opkit.onnx_reals import RealNodes, is_real
from penstock.opkit.plain import Plain, typed_nodes
from penstock.opkit.requantised import in_scale_of_output


@dataclass(frozen=True, slots=True)
class Extreme(Elementwise):
    """The larger or the smaller of two elements."""

    LARGER: ClassVar[bool]

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        return broadcast.int8_result(inputs, 2, type(self).__name__)

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        a, b = (broadcast.take(x, t, out) for x, t in zip(inputs, site.inputs, strict=True))
        chosen = np.maximum(a, b) if self.LARGER else np.minimum(a, b)
        return chosen.astype(np.int8)

    def kernel(self, site: Site) -> Kernel:
        params = (*broadcast.params(site), ("larger", int(self.LARGER)))
        return Kernel("extreme_s8", params, by_rows=True)


def from_foreign_extreme(op: Extreme, plain: Plain, node: ForeignNode) -> Iterable[Made]:
    """Nodes of a TFLite node.  Raises UnsupportedError unless all tensors share one scale."""
    if node.output().type.dtype in plain.ARITHMETIC:
        yield from typed_nodes(node, plain, op)
        return
    types = (node.input(0).type, node.input(1).type, node.output().type)
    require_one_quantisation(types, "inputs and output")
    yield from typed_nodes(node, plain, op)


def from_onnx_extreme(op: Extreme, plain: Plain, node: OnnxNode) -> Iterable[Made]:
    """Nodes of an ONNX node; inputs are first requantised to the output's scale.  That is exact,
    because rounding is monotonic."""
    if is_real(node):
        real = RealNodes(node)
        found, *rest = (real.input(k) for k, _ in enumerate(node.inputs))
        for other in rest or [found]:
            found = real.apply(plain, found, other)
        yield from real.result(found)
        return
    values: list[Value] = []
    for k, _ in enumerate(node.inputs):
        value, made = in_scale_of_output(node, k)
        yield from made
        values.append(value)
    x, *others = values if len(values) > 1 else values * 2
    for k, other in enumerate(others[:-1]):
        step = node.between(op, x, other, label=f"of{k + 2}", like=x.type.quantisation)
        yield step
        x = step.output
    yield node.made(op, x, others[-1])
