"""Quantize nodes around operators whose scale differs from the one that the model requires."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from penstock.ir.foreign import Made
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Op
from penstock.ir.tensor import Data, DType, Quantisation, TensorType
from penstock.opkit.checks import require
from penstock.opkit.onnx_constants import real_numbers
from penstock.ops.dequantize import Dequantize
from penstock.ops.quantize import Quantize, QuantizeReal


def requantised(
    node: OnnxNode, op: Op, x: Value, natural: Quantisation | None = None, k: int = 0
) -> Iterator[Made]:
    """Nodes that compute output k by `op` on x, followed by Quantize if necessary.

    `natural`: quantisation of the result of `op`; that of x by default."""
    natural, wanted = natural or x.type.quantisation, node.output(k).type.quantisation
    if wanted == natural:
        yield node.made(op, x, k=k)
        return
    first = node.between(op, x, label="before_quantize", like=natural, k=k)
    yield first
    yield node.made(_conversion(x, wanted), first.output, k=k)


def _conversion(x: Value, wanted: Quantisation | None) -> Op:
    """The operator that converts a value, or what is selected from it, to a quantisation, or to
    real numbers if that is None."""
    if wanted is None:
        return Dequantize()
    return QuantizeReal() if x.type.dtype is DType.FLOAT32 else Quantize()


def alike(node: OnnxNode, value: Value, label: str) -> tuple[Value, tuple[Made, ...]]:
    """A value in the quantisation of output 0, and the Quantize node, if one is necessary."""
    wanted = node.output().type.quantisation
    if value.type.quantisation == wanted:
        return value, ()
    type = TensorType(value.type.shape, DType.INT8 if wanted else DType.FLOAT32, wanted)
    found = Value(f"{node.output().name}/{label}", type)
    return found, (Made(_conversion(value, wanted), (value,), found),)


def in_scale_of_output(node: OnnxNode, k: int) -> tuple[Value, tuple[Made, ...]]:
    """Input k in the quantisation of output 0, and the nodes that convert it; constants are
    rounded half to even, and saturate."""
    value, y = node.input(k), node.output().type
    if value.data is None or y.quantisation is None:
        return alike(node, value, f"input{k}")
    with np.errstate(all="ignore"):
        steps = np.rint(real_numbers(node, k) / y.scale) + y.zero_point
    require(not bool(np.isnan(steps).any()), f'"{value.name}" holds what is no number')
    elements = np.clip(steps, -128, 127).astype(np.int8)
    type = TensorType(elements.shape, DType.INT8, y.quantisation)
    return Value(f"{node.output().name}/constant{k}", type, Data.of(elements)), ()
