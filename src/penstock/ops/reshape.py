"""Reshape, which changes the shape without moving data, and the shape itself.

Source: TFLite RESHAPE, EXPAND_DIMS, SQUEEZE, SHAPE.  The new shape is that of the output tensor, so
that shapes computed in the model (such as a dynamic batch) need not be folded first.
"""

from __future__ import annotations

import math

import numpy as np

from penstock.frozen import frozen
from penstock.ir.affine import Affine
from penstock.ir.foreign import ForeignNode, Made, Nodes
from penstock.ir.graph import Node, Value
from penstock.ir.op import (
    Affines,
    Arrays,
    Kernel,
    OperatorDefaults,
    Regions,
    Site,
    Table,
    Types,
    Work,
)
from penstock.ir.operator_facts import relay
from penstock.ir.tensor import Array, Data, DType, Region, TensorType
from penstock.opkit.axes import FollowingAxes, Sources
from penstock.opkit.checks import require, require_count, require_dtype


@frozen
class Reshape(FollowingAxes):
    """Changes the shape without moving data.

        x  any shape, any type
        y  `shape`, with as many elements

    Source: TFLite RESHAPE, EXPAND_DIMS, SQUEEZE.  The new shape is that of the output tensor,
    so that shapes computed in the model (such as a dynamic batch) need not be folded first."""

    shape: tuple[int, ...]

    TFLITE = ("RESHAPE", "EXPAND_DIMS", "SQUEEZE")
    RELAY = relay("expand_dims", "nn.batch_flatten", "reshape", "squeeze")
    ALIAS = True

    def result_type(self, inputs: Types) -> TensorType:
        (x,) = require_count(inputs, 1, "reshape")
        require(
            x.elements == math.prod(self.shape),
            f"{list(x.shape)} has {x.elements} elements, {list(self.shape)} has "
            f"{math.prod(self.shape)}",
        )
        return TensorType(self.shape, x.dtype)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        return inputs[0].reshape(self.shape)[out.slices]

    def sources(self, site: Site) -> tuple[Sources, ...]:
        x = site.x
        kept = dict(_kept_axes(x.shape, self.shape))
        return (tuple(kept.get(axis) for axis in range(x.rank)),)

    def work(self, site: Site, out: Region) -> Work:
        return Work(0, 0)

    def in_place(self, site: Site) -> tuple[int, ...]:
        return (0,)

    def kernel(self, site: Site) -> Kernel:
        raise AssertionError("an alias is lowered to a view, never to a kernel")


def keeps_extents(node: Node) -> bool:
    """Return whether a node is a reshape that only adds or drops axes of extent 1."""
    if not isinstance(node.op, Reshape):
        return False
    shapes = node.inputs[0].shape, node.op.shape
    x, y = ([extent for extent in shape if extent != 1] for shape in shapes)
    return x == y


def _kept_axes(x: tuple[int, ...], y: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Pairs (axis of x, axis of y) that the reshape preserves.

    Axes match where extents and the number of elements before them do: (1, 40, 16) and
    (1, 40, 1, 16) keep 40 and 16; (4, 6) and (24,) keep nothing.
    """

    def positions(shape: tuple[int, ...]) -> dict[tuple[int, int], int]:
        return {
            (math.prod(shape[:axis]), extent): axis
            for axis, extent in enumerate(shape)
            if extent > 1
        }

    there, here = positions(x), positions(y)
    return tuple((axis, here[key]) for key, axis in there.items() if key in here)


@frozen
class Shape(OperatorDefaults):
    """The shape of a tensor, a constant at compile time.

        x  any shape, any type; its elements are not read
        y  (rank,)  int32 or int64

    Source: TFLite SHAPE.  RANK, RANGE and BROADCAST_ARGS compute with shapes."""

    dtype: DType = DType.INT32

    TFLITE = ("SHAPE", "RANK", "RANGE", "BROADCAST_ARGS")

    def result_type(self, inputs: Types) -> TensorType:
        require_count(inputs, 1, "shape")
        return TensorType((inputs[0].rank,), self.dtype)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        return self._extents(site)[out.slices]

    def needs(self, site: Site, out: Region) -> Regions:
        nothing = (0,) * site.x.rank
        return (Region(nothing, nothing),)

    def affine(self, site: Site) -> Affines:
        return (Affine.constant((0,) * site.x.rank, 1),)

    def kernel(self, site: Site) -> Kernel:
        raw = self._extents(site).view(np.int8)
        return Kernel("constant", (("bytes", raw.size),), (("data", Table.of(raw)),))

    def _extents(self, site: Site) -> Array:
        return np.array(site.x.shape, self.dtype.value)


def from_foreign(node: ForeignNode) -> Nodes:
    y = node.y
    if node.name in ("RANK", "RANGE", "BROADCAST_ARGS"):
        numbers = _numbers(node).astype(y.dtype.value)
        known = Value(f"{y.name}/known", y.type.with_shape(numbers.shape), Data.of(numbers))
        yield Made(Reshape(numbers.shape), (known,), y)
        return
    if node.open and node.name != "SHAPE":
        shape = _computed_shape(node)
        yield Made(Reshape(shape), (node.x,), y.with_shape(shape))
        return
    if node.name == "SHAPE":
        require_dtype(y.type, "output", DType.INT32, DType.INT64)
    if node.name == "SQUEEZE":
        shape = _computed_shape(node)
        require(y.shape == shape, f"output has shape {list(y.shape)}, must have {list(shape)}")
    op = Shape(y.dtype) if node.name == "SHAPE" else Reshape(y.shape)
    yield Made(op, (node.x,), y)


def _numbers(node: ForeignNode) -> Array:
    """What is known of shapes and constants."""
    if node.name == "RANK":
        return np.array(node.x.rank)
    if node.name == "RANGE":
        start, limit, step = (node.constant(k).item() for k in range(3))
        require(step != 0, "the step of the range is 0")
        count = max(0, math.ceil((limit - start) / step))
        steps = np.full(count, step, node.y.dtype.value)
        steps[:1] = start
        return np.cumsum(steps, dtype=steps.dtype)  # each rounded, as in the reference
    shapes = [node.constant_ints(k) for k in range(2)]
    try:
        return np.array(np.broadcast_shapes(*shapes))
    except ValueError:
        raise node.unsupported(f"shapes {shapes[0]} and {shapes[1]} do not broadcast") from None


def _computed_shape(node: ForeignNode) -> tuple[int, ...]:
    """The shape of an output that the file leaves open; the stated one if nothing else tells it."""
    x, y, given = node.x.type, node.y.type, node.optional(1)
    if node.name == "SQUEEZE":
        axes = node.attributes.get("squeeze_dims")
        if not isinstance(axes, tuple) or not axes:
            return tuple(extent for extent in x.shape if extent != 1)
        gone = {int(axis) % max(x.rank, 1) for axis in axes}
        return tuple(extent for axis, extent in enumerate(x.shape) if axis not in gone)
    if given is None or given.data is None:
        return y.shape
    numbers = node.constant_ints(1)
    if node.name == "EXPAND_DIMS":
        axis = numbers[0] % (x.rank + 1)
        return (*x.shape[:axis], 1, *x.shape[axis:])
    known = math.prod(extent for extent in numbers if extent != -1)
    rest = x.elements // known if known else 0
    shape = tuple(rest if extent == -1 else extent for extent in numbers)
    return shape if math.prod(shape) == x.elements else y.shape
