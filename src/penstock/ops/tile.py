"""Tile: a tensor repeated along its axes.

    x  any shape, any type
    y  extents x * multiples: y[o] = x[o mod x.shape] along every axis

Source: TFLite TILE; BROADCAST_TO, which repeats axes of extent 1 (`reference/broadcast_to.h`);
FILL and ZEROS_LIKE, which repeat a number (`kernels/fill.cc`, `kernels/zeros_like.cc`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Self

import numpy as np

from penstock.frozen import frozen
from penstock.ir.exchange import exchanged_entries
from penstock.ir.foreign import ForeignNode, Made, Nodes
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Site, Types
from penstock.ir.operator_facts import CARRIED, AxisOrder, OnnxName, onnx, relay
from penstock.ir.tensor import Data, TensorType
from penstock.opkit.checks import require, require_count, require_elements
from penstock.opkit.nodes import requantised, reshaped
from penstock.opkit.selection import AxisMap, ListedMap, Maps, Selection, StridedMap, listed_type


@frozen
class Tile(Selection):
    """Repeats the input `multiples` times along each axis."""

    multiples: tuple[int, ...]

    TFLITE = ("TILE", "BROADCAST_TO", "FILL", "ZEROS_LIKE")
    ONNX = onnx(OnnxName(AxisOrder.MODEL, carries=True, floats=True), "Expand") | onnx(
        CARRIED, "Tile"
    )
    RELAY = relay("tile")

    def result_type(self, inputs: Types) -> TensorType:
        require_count(inputs, 1, "tile")
        shape = inputs[0].shape
        require(
            len(self.multiples) == len(shape) and all(times >= 0 for times in self.multiples),
            f"multiples are {list(self.multiples)}, must be {len(shape)} positive numbers",
        )
        repeated = tuple(e * times for e, times in zip(shape, self.multiples, strict=True))
        require_elements(repeated, "the result")
        return listed_type(inputs, repeated)

    def exchanged(self, rank: int) -> Self:
        return replace(self, multiples=exchanged_entries(self.multiples))

    def maps(self, site: Site) -> Maps:
        return tuple(map(_repeated, site.x.shape, self.multiples))


def _repeated(extent: int, times: int) -> AxisMap:
    if times == 1:
        return StridedMap()
    # A step of 0 repeats the only element without a table of indices.
    return StridedMap(0, 0) if extent == 1 else ListedMap(tuple(range(extent)) * times)


def from_foreign(node: ForeignNode) -> Nodes:
    if node.name in ("FILL", "ZEROS_LIKE"):
        yield from _filled(node)
        return
    value, numbers = node.x, node.constant_ints(1)
    if node.name == "TILE":
        yield Made(Tile(numbers), (value,), node.y)
        return
    shape = (1,) * (len(numbers) - value.rank) + value.shape
    require(
        len(shape) == len(numbers)
        and all(e == wide or e == 1 <= wide for e, wide in zip(shape, numbers, strict=True)),
        f"shape {list(value.shape)} does not stretch to {list(numbers)}",
    )
    multiples = tuple(wide // e if e else 1 for e, wide in zip(shape, numbers, strict=True))
    viewed, made = reshaped(value, shape, f"{node.y.name}/input")
    yield from made
    yield Made(Tile(multiples), (viewed,), node.y)


def _filled(node: ForeignNode) -> Nodes:
    """A number at every place."""
    y = node.y
    if node.name == "FILL":
        shape, number = node.constant_ints(0), node.input(1)
        require(number.elements == 1, f"the number has shape {list(number.shape)}")
    else:
        shape, zero = node.x.shape, np.zeros((), y.dtype.value)
        number = Value(f"{y.name}/zero", y.type.with_shape(()), Data.of(zero))
    viewed, made = reshaped(number, (1,) * len(shape), f"{y.name}/number")
    yield from made
    yield Made(Tile(shape), (viewed,), y)


def from_onnx(node: OnnxNode) -> Nodes:
    x, numbers = node.x, node.constant_ints(1)
    if node.name == "Tile":
        require(
            len(numbers) == x.rank,
            f"repeats are {list(numbers)}, must be {x.rank} numbers",
        )
        repeats = tuple(numbers[axis] for axis in node.order)
        yield from requantised(node, Tile(repeats), x)
        return
    rank = max(len(numbers), x.rank)
    shape, wide = ((1,) * (rank - len(extents)) + extents for extents in (x.shape, tuple(numbers)))
    require(
        all(1 in (a, b) or a == b for a, b in zip(shape, wide, strict=True)),
        f"shape {list(x.shape)} does not stretch to {list(numbers)}",
    )
    viewed, made = reshaped(x, shape, f"{node.y.name}/input")
    yield from made
    multiples = tuple(b if a == 1 else 1 for a, b in zip(shape, wide, strict=True))
    yield from requantised(node, Tile(multiples), viewed)
