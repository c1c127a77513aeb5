"""Intermediate values of nodes that are imported as several nodes."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.ir.foreign import Made
from penstock.ir.graph import Value
from penstock.ir.op import Op
from penstock.ops.reshape import Reshape


def intermediate(value: Value, shape: tuple[int, ...], label: str) -> Value:
    """An intermediate value with the type of `value` and another shape."""
    return Value(f"{value.name}/{label}", value.type.with_shape(shape))


def with_shape(
    op: Op, inputs: tuple[Value, ...], shape: tuple[int, ...], output: Value
) -> Iterator[Made]:
    """Nodes that apply `op`, with result of `shape`, and reshape it to the output if needed."""
    if output.type.shape == shape:
        yield Made(op, inputs, output)
        return
    between = intermediate(output, shape, "before_reshape")
    yield Made(op, inputs, between)
    yield Made(Reshape(output.type.shape), (between,), output)


def reshaped(value: Value, shape: tuple[int, ...], name: str) -> tuple[Value, tuple[Made, ...]]:
    """`value` reshaped and named `name`, and the reshape node, if one is necessary."""
    if value.type.shape == shape:
        return value, ()
    viewed = Value(name, value.type.with_shape(shape), value.data)
    return viewed, () if value.data is not None else (Made(Reshape(shape), (value,), viewed),)
