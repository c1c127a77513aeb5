"""Intermediate values: where one node of a model file becomes several of ours."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.ir.foreign import Made
from penstock.ir.graph import Value
from penstock.ir.op import Op
from penstock.ops.reshape import Reshape


def intermediate(value: Value, shape: tuple[int, ...], label: str) -> Value:
    """A value of ours of `value`'s type and another shape, on the way to it."""
    return Value(f"{value.name}/{label}", value.type.with_shape(shape))


def with_shape(
    op: Op, inputs: tuple[Value, ...], shape: tuple[int, ...], output: Value
) -> Iterator[Made]:
    """`op`, whose result has `shape`, and where `output` has another one, a reshape to it."""
    if output.type.shape == shape:
        yield Made(op, inputs, output)
        return
    between = intermediate(output, shape, "before_reshape")
    yield Made(op, inputs, between)
    yield Made(Reshape(output.type.shape), (between,), output)


def reshaped(value: Value, shape: tuple[int, ...], name: str) -> tuple[Value, tuple[Made, ...]]:
    """`value` under another shape, called `name`, and the node that makes it, where one is
    needed."""
    if value.type.shape == shape:
        return value, ()
    viewed = Value(name, value.type.with_shape(shape), value.data)
    return viewed, () if value.data is not None else (Made(Reshape(shape), (value,), viewed),)
