"""Intermediate values: where one node of a model file becomes several of ours."""

from __future__ import annotations

from penstock.ir.foreign import Made
from penstock.ir.graph import Value
from penstock.ir.tensor import TensorType
from penstock.ops.reshape import Reshape


def intermediate(output: Value, label: str, type: TensorType) -> Value:
    """A value between two nodes that together compute `output`."""
    return Value(f"{output.name}/{label}", type)


def reshaped(value: Value, shape: tuple[int, ...], output: Value, label: str) -> tuple[Value, Made | None]:
    """`value` under another shape on the way to `output`, and the node that makes it so (None where
    it is constant or has the shape already)."""
    if value.type.shape == shape:
        return value, None
    type = value.type.with_shape(shape)
    if value.data is not None:
        return Value(f"{output.name}/{label}", type, value.data), None
    between = intermediate(output, label, type)
    return between, Made(Reshape(shape), (value,), between)
