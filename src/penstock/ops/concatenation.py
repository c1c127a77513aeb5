"""Concatenation: concatenates tensors along an axis.

    x0, x1, ..  any shapes that differ along `axis` only; one type, one scale and zero point
    y           the sum of their extents along `axis`

Source: TFLite CONCATENATION (`reference/concatenation.h`; `micro/kernels/concatenation.cc` requires
the output's scale of all inputs); PACK, which first gives each input an axis of extent 1.
"""

from __future__ import annotations

import math
from itertools import accumulate

import numpy as np

from penstock.frozen import frozen
from penstock.ir.affine import Affine
from penstock.ir.exchange import ExchangedAxis
from penstock.ir.foreign import ForeignNode, Made, Nodes
from penstock.ir.graph import Value, Values
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import (
    Affines,
    Arrays,
    Kernel,
    OperatorDefaults,
    Regions,
    Site,
    Table,
    Types,
    row_kernel,
)
from penstock.ir.operator_facts import CARRIED, onnx, relay
from penstock.ir.tensor import Array, Interval, Region, TensorType, row_axis
from penstock.opkit.activation import Activation, fused_activation
from penstock.opkit.checks import require, resolved_axis
from penstock.opkit.lookup import ELEMENTS, LARGEST_STEPS, saturated
from penstock.opkit.nodes import in_scale_of_output, reshaped
from penstock.ops.tabulated import table_of


@frozen
class Concatenation(ExchangedAxis, OperatorDefaults):
    """Concatenation of all inputs along `axis`."""

    axis: int

    TFLITE = ("CONCATENATION", "PACK")
    ONNX = onnx(CARRIED, "Concat")
    RELAY = relay("concatenate", "qnn.concatenate")
    VARIADIC = True

    def result_type(self, inputs: Types) -> TensorType:
        require(len(inputs) > 0, "concatenation has no input, must have at least 1")
        first = inputs[0]
        require(0 <= self.axis < first.rank, f"axis is {self.axis}, rank is {first.rank}")
        for k, x in enumerate(inputs):
            require(
                x.dtype is first.dtype
                and _without(x.shape, self.axis) == _without(first.shape, self.axis),
                f"input {k} is {x}, input 0 is {first}, axis {self.axis} alone may differ",
            )
        total = sum(x.shape[self.axis] for x in inputs)
        shape = (*first.shape[: self.axis], total, *first.shape[self.axis + 1 :])
        return TensorType(shape, first.dtype)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        parts = [
            x[need.slices]
            for x, need in zip(inputs, self.needs(site, out), strict=True)
            if not need.empty
        ]
        return np.concatenate(parts, axis=self.axis)

    def needs(self, site: Site, out: Region) -> Regions:
        lower, upper = out.intervals[self.axis]
        return tuple(
            out.replace(self.axis, _clipped((lower - first, upper - first), x.shape[self.axis]))
            for x, first in zip(site.inputs, self._starts(site), strict=True)
        )

    def affine(self, site: Site) -> Affines:
        rank = site.output.rank
        return tuple(
            Affine.diagonal(
                (1,) * rank, offset=tuple(-first if a == self.axis else 0 for a in range(rank))
            )
            for first in self._starts(site)
        )

    def cropped(self, site: Site, out: Region) -> Concatenation | None:
        whole = out.intervals[self.axis] == (0, site.output.shape[self.axis])
        return self if whole else None

    def kernel(self, site: Site) -> Kernel:
        y = site.output
        rows_end = row_axis(y.rank) + 1 if y.rank > 1 else 0  # axes before it count rows
        # Along an axis of rows, whole rows alternate; else pieces of each row do.
        if self.axis < rows_end:
            counts = [math.prod(x.shape[self.axis : rows_end]) for x in site.inputs]
            return row_kernel(
                "concatenate_rows",
                inputs=len(counts),
                period=sum(counts),
                row_bytes=math.prod(y.shape[rows_end:]) * y.dtype.size_bytes,
                counts=Table.integers(counts),
            )
        sizes = [math.prod(x.shape[self.axis :]) * y.dtype.size_bytes for x in site.inputs]
        return row_kernel(
            "concatenate_columns",
            inputs=len(sizes),
            pieces=math.prod(y.shape[rows_end : self.axis]),
            sizes=Table.integers(sizes),
        )

    def _starts(self, site: Site) -> tuple[int, ...]:
        return tuple(accumulate((x.shape[self.axis] for x in site.inputs[:-1]), initial=0))


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])


def _clipped(interval: Interval, extent: int) -> Interval:
    lower = min(max(interval[0], 0), extent)
    return lower, max(lower, min(interval[1], extent))


def from_foreign(node: ForeignNode) -> Nodes:
    values = tuple(node.input(k) for k in range(max(1, len(node.inputs))))
    out = node.y
    if node.unsigned and node.name == "CONCATENATION":
        made = [_in_steps_of(value, out, k) for k, value in enumerate(values)]
        yield from (one for one in made if isinstance(one, Made))
        values = tuple(one.output if isinstance(one, Made) else one for one in made)
    for k, value in enumerate(values):
        if (value.scale, value.zero_point) != (out.scale, out.zero_point):
            raise node.unsupported(
                f"input {k} has scale {value.scale} and zero point {value.zero_point}, "
                f"the output {out.scale} and {out.zero_point}; they must be equal, as in "
                "the reference"
            )
    if node.name == "PACK":
        yield from _pack(node, values)
        return
    if fused_activation(node) is not Activation.NONE:
        raise node.unsupported("a fused activation, must be NONE")
    axis = resolved_axis(node.integer("axis"), values[0].rank)
    yield Made(Concatenation(axis), values, out)


def _in_steps_of(value: Value, out: Value, k: int) -> Value | Made:
    """An input, or what requantises it to the output of a concatenation of uint8 elements.

    Source: TFLite, `ConcatenationWithScaling` (`reference/concatenation.h`), in single precision.
    """
    x, y = value.type, out.type
    if (x.scale, x.zero_point) == (y.scale, y.zero_point):
        return value
    scale = np.float32(x.scale) * (np.float32(1) / np.float32(y.scale))
    offset = np.float32(-(x.zero_point + 128)) * scale
    steps = (ELEMENTS + 128).astype(np.float32) * scale + offset
    bounded = np.clip(steps, -LARGEST_STEPS, LARGEST_STEPS).astype(np.float64)
    rounded = np.trunc(bounded + np.copysign(0.5, bounded)).astype(np.int64)
    result = Value(f"{out.name}/input{k}", y.with_shape(x.shape))
    return Made(table_of(saturated(rounded + y.zero_point)), (value,), result)


def _pack(node: ForeignNode, values: Values) -> Nodes:
    """Reshapes that insert the new axis into each input, and the concatenation along it."""
    out = node.y
    node.require_count("values_count", len(values), "inputs")
    shape = values[0].shape
    axis = resolved_axis(node.integer("axis"), len(shape) + 1)
    wider = (*shape[:axis], 1, *shape[axis:])
    found: list[Value] = []
    for k, value in enumerate(values):
        require(
            value.shape == shape,
            f"input {k} has shape {list(value.shape)}, must be {list(shape)}",
        )
        viewed, made = reshaped(value, wider, f"{out.name}/input{k}")
        found.append(viewed)
        yield from made
    yield Made(Concatenation(axis), tuple(found), out)


def from_onnx(node: OnnxNode) -> Nodes:
    """ONNX Concat; inputs of another scale than the output's are requantised first."""
    found: list[Value] = []
    for k in range(len(node.inputs)):
        value, made = in_scale_of_output(node, k)
        found.append(value)
        yield from made
    yield node.made(Concatenation(node.axis(node.integer("axis"))), *found)
