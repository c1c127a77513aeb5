"""Quantize nodes around operators whose scale differs from the one that the model requires."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.ir.foreign import Made
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Op
from penstock.ir.tensor import DType, Quantisation, TensorType
from penstock.ops.quantize import Quantize


def requantised(
    node: OnnxNode, op: Op, x: Value, natural: Quantisation | None = None, k: int = 0
) -> Iterator[Made]:
    """Nodes that compute output k by `op` on x, followed by Quantize if necessary.

    `natural`: quantisation of the result of `op`; that of x by default."""
    natural = natural or x.type.quantisation
    if node.output(k).type.quantisation in (natural, None):
        yield node.made(op, x, k=k)
        return
    first = node.between(op, x, label="before_quantize", like=natural, k=k)
    yield first
    yield node.made(Quantize(), first.output, k=k)


def alike(node: OnnxNode, value: Value, label: str) -> tuple[Value, tuple[Made, ...]]:
    """A value in the quantisation of output 0, and the Quantize node, if one is necessary."""
    wanted = node.output().type.quantisation
    if value.type.quantisation == wanted:
        return value, ()
    type = TensorType(value.type.shape, DType.INT8, wanted)
    found = Value(f"{node.output().name}/{label}", type)
    return found, (Made(Quantize(), (value,), found),)
