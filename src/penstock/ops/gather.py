"""Slices of a tensor at listed indices along an axis, or at computed positions.

Sources: TFLite GATHER with constant indices and without batch axes; `micro/kernels/gather.cc`.
GATHER with computed indices along the first axis becomes GatherNd, as does EMBEDDING_LOOKUP.
GATHER_ND, `micro/kernels/gather_nd.cc`.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from penstock.frozen import frozen
from penstock.ir.exchange import ExchangedAxis
from penstock.ir.foreign import ForeignNode, Made, Nodes
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Arrays, Kernel, Site, Table, Tables, Types, members
from penstock.ir.operator_facts import CARRIED, AxisOrder, OnnxName, onnx, relay
from penstock.ir.tensor import Array, DType, Region, TensorType
from penstock.opkit.axes import FollowingAxes, Sources
from penstock.opkit.checks import require, require_count, require_dtype, resolved_axis
from penstock.opkit.nodes import requantised, reshaped, with_shape
from penstock.opkit.selection import ListedMap, Maps, Selection, StridedMap, listed_type
from penstock.ops.integer_pairs import ADD
from penstock.ops.reshape import Reshape


@frozen
class GatherNd(FollowingAxes):
    """Slices of a tensor at computed positions.

        x        any shape, any type
        indices  (.., K)  int32    each last-axis vector is a position along the first K axes of x
        y        indices.shape[:-1] + x.shape[K:]

    The reference fails if an index is outside of x; penstock clamps it.

    Source: TFLite GATHER_ND, `micro/kernels/gather_nd.cc`; GATHER with computed indices."""

    TFLITE = ("GATHER_ND", "EMBEDDING_LOOKUP")
    RELAY = relay("gather_nd")

    def result_type(self, inputs: Types) -> TensorType:
        x, indices = require_count(inputs, 2, "GatherNd")
        require(indices.rank > 0, "indices are a scalar, must have a last axis")
        depth = position_depth(x, indices)
        return TensorType((*indices.shape[:-1], *x.shape[depth:]), x.dtype)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        x, (_, read) = inputs[0], self.needs(site, out)
        positions = inputs[1][read.slices].astype(np.int64)
        most = np.array(x.shape[: positions.shape[-1]]) - 1
        # Indices outside are clamped; the C kernel does the same.
        found = x[tuple(np.moveaxis(np.clip(positions, 0, most), -1, 0))]
        return found[_inner(site, out)]

    def sources(self, site: Site) -> tuple[Sources, ...]:
        x, indices = site.inputs
        depth, outer = indices.shape[-1], indices.rank - 1
        kept = range(outer, outer + x.rank - depth)
        return (*(None,) * depth, *kept), (*range(outer), None)

    def kernel(self, site: Site) -> Kernel:
        x, indices = site.inputs
        depth = indices.shape[-1]
        return Kernel(
            "gather_nd",
            params=members(
                count=indices.elements // depth,
                depth=depth,
                slice_bytes=math.prod(x.shape[depth:]) * x.dtype.size_bytes,
            ),
            tables=position_tables(x, depth),
        )


def position_tables(x: TensorType, depth: int) -> Tables:
    """Tables of kernels that find slices: extents of the first axes, and their strides in bytes."""
    strides = [math.prod(x.shape[k + 1 :]) * x.dtype.size_bytes for k in range(depth)]
    return (
        ("extents", Table.integers(x.shape[:depth])),
        ("strides", Table.integers(strides)),
    )


def position_depth(x: TensorType, indices: TensorType) -> int:
    """The number of indices of each position.  Raises ModelError unless x has so many axes."""
    require_dtype(indices, "indices", DType.INT32)
    depth = indices.shape[-1] if indices.rank else 0
    require(
        0 < depth <= x.rank,
        f"positions have {depth} indices, must have 1 to {x.rank}, the rank of the input",
    )
    return depth


def _inner(site: Site, out: Region) -> tuple[slice, ...]:
    outer = site.inputs[1].rank - 1
    return (*(slice(None),) * outer, *out.slices[outer:])


@frozen
class Gather(ExchangedAxis, Selection):
    """Slices of a tensor at listed indices along an axis.

        x  any shape, any type
        y  one slice per index along `axis`: y[.., o, ..] = x[.., indices[o], ..]

    Source: TFLite GATHER with constant indices and without batch axes;
    `micro/kernels/gather.cc`. GATHER with computed indices along the first axis becomes
    GatherNd."""

    axis: int
    indices: tuple[int, ...]

    TFLITE = ("GATHER",)
    ONNX = onnx(CARRIED, "Gather") | onnx(
        OnnxName(AxisOrder.MODEL, carries=True, floats=True), "GatherND"
    )
    RELAY = relay("take")

    def result_type(self, inputs: Types) -> TensorType:
        require_count(inputs, 1, "gather")
        shape = inputs[0].shape
        require(0 <= self.axis < len(shape), f"axis is {self.axis}, rank is {len(shape)}")
        extent = shape[self.axis]
        require(
            all(0 <= index < extent for index in self.indices),
            f"indices reach from {min(self.indices, default=0)} to "
            f"{max(self.indices, default=0)}, must be within [0, {extent})",
        )
        return listed_type(
            inputs, (*shape[: self.axis], len(self.indices), *shape[self.axis + 1 :])
        )

    def maps(self, site: Site) -> Maps:
        rank = site.x.rank
        return tuple(
            ListedMap(self.indices) if a == self.axis else StridedMap() for a in range(rank)
        )


def _foreign_gather(node: ForeignNode) -> Nodes:
    value = node.x
    shape = value.shape
    axis = resolved_axis(node.integer("axis"), len(shape))
    if node.integer("batch_dims"):
        yield from _of_batches(node, axis)
        return
    if node.input(1).data is None:
        yield from _computed(node, axis)
        return
    indices = node.constant_ints(1)
    gathered = (*shape[:axis], len(indices), *shape[axis + 1 :])
    y = node.y
    if node.open:
        whole = (*shape[:axis], *node.input(1).shape, *shape[axis + 1 :])
        y = y.with_shape(whole)
    yield from with_shape(Gather(axis, indices), (value,), gathered, y)


def _computed(node: ForeignNode, axis: int) -> Nodes:
    """GATHER with computed indices: each is a position along the first axis of the input, after
    axes of extent 1 before it are dropped."""
    value, indices = node.x, node.input(1)
    shape = value.shape
    if any(extent != 1 for extent in shape[:axis]):
        raise node.unsupported(
            f"indices are computed and axis {axis} of shape {list(shape)} is gathered; axes before "
            "it must have extent 1"
        )
    x, made = reshaped(value, shape[axis:], f"{node.y.name}/input")
    yield from (*made, *_gathered(node, x, indices))


def _of_batches(node: ForeignNode, axis: int) -> Nodes:
    """GATHER along the axis behind those of batches, each of which has indices of its own."""
    x, indices, name = node.x, node.input(1), node.y.name
    batch = node.integer("batch_dims")
    batch += indices.rank if batch < 0 else 0
    shape = x.shape[:batch]
    if axis != batch or indices.shape[:batch] != shape or indices.dtype is not DType.INT32:
        raise node.unsupported(
            f"{indices.type} are indices of {batch} batch axes for axis {axis} of {x.type}; they "
            "must be int32, for the axis behind these"
        )
    x, made = reshaped(x, (math.prod(x.shape[: axis + 1]), *x.shape[axis + 1 :]), f"{name}/input")
    yield from made
    first = np.arange(math.prod(shape), dtype=np.int32) * node.x.shape[axis]
    first = first.reshape(*shape, *(1,) * (indices.rank - batch))
    if indices.data is not None:
        places = Value.constant(f"{name}/places", indices.array + first)
    else:
        places = Value(f"{name}/places", indices.type)
        yield Made(ADD, (indices, Value.constant(f"{name}/batches", first)), places)
    yield from _gathered(node, x, places)


def _gathered(node: ForeignNode, x: Value, indices: Value) -> Nodes:
    """The slices of x at computed indices along its first axis."""
    name = node.y.name
    positions, made = reshaped(indices, (*indices.shape, 1), f"{name}/positions")
    gathered = (*indices.shape, *x.shape[1:])
    yield from (*made, *with_shape(GatherNd(), (x, positions), gathered, node.y))


def from_onnx(node: OnnxNode) -> Nodes:
    """ONNX Gather with a constant list of indices, and GatherND; the front end makes a list of one
    index."""
    if node.input(1).data is None:
        raise node.computed("indices are computed")
    if node.name == "GatherND":
        yield from _at_positions(node)
        return
    x, axis = node.x, node.axis(node.integer("axis"))
    if node.constant(1).ndim != 1:
        raise node.unsupported(f"indices have rank {node.constant(1).ndim}, must be 0 or 1")
    extent = x.shape[axis]
    indices = node.constant_ints(1)
    require(
        all(-extent <= index < extent for index in indices),
        f"indices are {list(indices)!r:.80}, must be within [{-extent}, {extent})",
    )
    yield from requantised(node, Gather(axis, tuple(k % extent for k in indices)), x)


def _at_positions(node: OnnxNode) -> Nodes:
    """ONNX GatherND at constant positions: rows of the matrix of all slices."""
    x, positions = node.x, node.constant(1).astype(np.int64)
    if node.integer("batch_dims"):
        raise node.unsupported("batch_dims is not 0")
    depth = positions.shape[-1] if positions.ndim else 0
    require(0 < depth <= x.rank, f"positions have {depth} indices, x has {x.rank} axes")
    extents, rest = x.shape[:depth], x.shape[depth:]
    require(
        bool(((positions >= np.negative(extents)) & (positions < extents)).all()),
        f"a position lies outside of the first axes, of extents {list(extents)}",
    )
    strides = [math.prod(extents[k + 1 :]) for k in range(depth)]
    # Negative indices count from the end: the remainder makes them positive.
    rows = tuple(int(k) for k in (positions % extents @ strides).ravel())
    name = node.y.name
    view, made = reshaped(x, (math.prod(extents), math.prod(rest)), f"{name}/slices")
    yield from made
    gathered = replace(node.y, name=f"{name}/gathered")
    steps = [*requantised(replace(node, outputs=(gathered,)), Gather(0, rows), view)]
    yield from steps
    yield node.made(Reshape((*positions.shape[:-1], *rest)), steps[-1].output)


def from_foreign(node: ForeignNode) -> Nodes:
    if node.name == "GATHER":
        return _foreign_gather(node)
    if node.name == "EMBEDDING_LOOKUP":
        return _gathered(node, node.input(1), node.x)
    return (Made(GatherNd(), (node.x, node.input(1)), node.y),)
