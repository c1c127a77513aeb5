"""Slices and elements at computed places: ScatterNd, and ONNX's gathering, made of GatherNd.

    x        any shape  float32, an integer type or bool
    indices  (.., K)    int32    each last-axis vector is a position along the first K axes of x
    updates  indices.shape[:-1] + x.shape[K:]  as x
    y        as x       x, in which the slice at each position is replaced by, or combined with,
                        its update, in order of positions

Indices outside of x, which ONNX forbids, are clamped; negative ones count from the end.

Source: ONNX operator specification, ScatterND, ScatterElements, TensorScatter, Gather, GatherND,
GatherElements, ReverseSequence.  TFLite, `reference/reference_ops.h` (ScatterNd, SegmentSum,
ReverseSequence), `dynamic_update_slice.cc`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from enum import Enum

import numpy as np

from penstock.frozen import frozen
from penstock.ir.affine import Affine
from penstock.ir.foreign import ForeignNode, Made, Nodes
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Affines, Arrays, Kernel, OperatorDefaults, Regions, Site, Types, members
from penstock.ir.operator_facts import PLAIN_MODEL, AxisOrder, OnnxName, onnx
from penstock.ir.tensor import Array, DType, Region, TensorType
from penstock.opkit.checks import require, require_count, require_dtype, resolved_axis
from penstock.opkit.nodes import in_shape_of_output, onnx_form
from penstock.opkit.real_nodes import RealNodes
from penstock.ops.comparisons import PlainCompare, Relation, Select
from penstock.ops.concatenation import Concatenation
from penstock.ops.gather import GatherNd, position_depth, position_tables
from penstock.ops.integer_pairs import ADD, MOD, MUL, SUB
from penstock.ops.plain import PlainMaximum, PlainMinimum
from penstock.ops.slice import Slice
from penstock.ops.transpose import Transpose

CARRIED_MODEL = OnnxName(AxisOrder.MODEL, carries=True, floats=True)


class Reduction(Enum):
    """How a slice is combined with its update; the value is its number in the kernel."""

    NONE = 0
    ADD = 1
    MUL = 2
    MAX = 3
    MIN = 4


@frozen
class ScatterNd(OperatorDefaults):
    """A copy of a tensor into which slices are written at computed positions."""

    reduction: Reduction = Reduction.NONE

    TFLITE = ("DYNAMIC_UPDATE_SLICE", "REVERSE_SEQUENCE", "SCATTER_ND", "SEGMENT_SUM")
    ONNX = onnx(
        PLAIN_MODEL,
        *("GatherElements", "ReverseSequence", "Scatter", "ScatterElements", "ScatterND"),
        "TensorScatter",
    ) | onnx(CARRIED_MODEL, "Gather at computed indices", "GatherND at computed indices")

    def result_type(self, inputs: Types) -> TensorType:
        x, indices, updates = require_count(inputs, 3, "ScatterNd")
        depth = position_depth(x, indices)
        require_dtype(updates, "updates", x.dtype)
        shape = (*indices.shape[:-1], *x.shape[depth:])
        require(
            updates.shape == shape, f"updates have shape {list(updates.shape)}, not {list(shape)}"
        )
        return TensorType(x.shape, x.dtype)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        x, indices, updates = inputs
        depth = indices.shape[-1]
        found = np.array(x)
        positions = np.clip(indices.reshape(-1, depth), 0, np.array(x.shape[:depth]) - 1)
        rows = updates.reshape(len(positions), *x.shape[depth:])
        with np.errstate(all="ignore"):
            for position, row in zip(map(tuple, positions), rows, strict=True):
                found[position] = _combined(self.reduction, found[position], row)
        return found[out.slices]

    def needs(self, site: Site, out: Region) -> Regions:
        return tuple(Region.whole(x.shape if not out.empty else (0,) * x.rank) for x in site.inputs)

    def affine(self, site: Site) -> Affines:
        return tuple(Affine.constant(x.shape, site.output.rank) for x in site.inputs)

    def kernel(self, site: Site) -> Kernel:
        x, indices, _ = site.inputs
        depth = indices.shape[-1]
        return Kernel(
            "scatter_nd",
            params=members(
                total_bytes=x.size_bytes,
                count=indices.elements // depth,
                depth=depth,
                slice_elements=math.prod(x.shape[depth:]),
                element_bytes=x.dtype.size_bytes,
                is_real=x.dtype is DType.FLOAT32,
                is_signed=x.dtype.is_signed,
                reduction=self.reduction.value,
            ),
            tables=position_tables(x, depth),
            whole_in_place=(0,) if site.constants[0] is None else (),
        )


def _combined(reduction: Reduction, a: Array, b: Array) -> Array:
    match reduction:
        case Reduction.NONE:
            return b
        case Reduction.ADD:
            return np.add(a, b, dtype=a.dtype)
        case Reduction.MUL:
            return np.multiply(a, b, dtype=a.dtype)
        case Reduction.MAX:
            return np.where(a > b, a, b)
        case Reduction.MIN:
            return np.where(a < b, a, b)


def from_foreign(node: ForeignNode) -> Nodes:
    """TFLite DYNAMIC_UPDATE_SLICE, REVERSE_SEQUENCE along the first two axes, and SCATTER_ND and
    SEGMENT_SUM of plain numbers, which add what has one place."""
    if node.name == "DYNAMIC_UPDATE_SLICE":
        return in_shape_of_output(node, _updated_slice(node))
    if node.name == "REVERSE_SEQUENCE":
        time, batch = node.integer("seq_dim"), node.integer("batch_dim")
        if {time, batch} != {0, 1}:
            raise node.unsupported(f"axes are {time} and {batch}, must be 0 and 1")
        form = onnx_form(node, "ReverseSequence", time_axis=time, batch_axis=batch)
        return in_shape_of_output(node, from_onnx(form))
    return in_shape_of_output(node, _foreign_sums(node))


def _updated_slice(node: ForeignNode) -> Iterator[Made]:
    """The start is moved so that the update fits."""
    x, update, start = (node.input(k) for k in range(3))
    require(update.rank == x.rank, f"the update has {update.rank} axes, must have {x.rank}")
    require(start.shape == (x.rank,), f"the start has shape {list(start.shape)}")
    for value in (update, node.y):
        require(value.type.quantisation == x.type.quantisation, "quantisations differ")
    most = np.array(x.shape) - update.shape
    require(bool((most >= 0).all()), f"the update {list(update.shape)} exceeds {list(x.shape)}")
    new = RealNodes(onnx_form(node, "ScatterND"))
    depth = 1 + max(np.flatnonzero(most).tolist(), default=0)  # whole axes behind are no positions
    first = new.apply(PlainMaximum(), new.integers(start), 0)
    first = new.apply(PlainMinimum(), first, new.typed_constant(most, DType.INT32))
    if depth < x.rank:
        first = new.apply(Slice((0,), (depth,), (1,)), first)
    grid = np.moveaxis(np.indices(update.shape[:depth]), 0, -1)
    places = new.apply(ADD, first, new.typed_constant(grid, DType.INT32))
    return new.result(new.apply(ScatterNd(), x, places, update))


def _foreign_sums(node: ForeignNode) -> Iterator[Made]:
    scatters, shape = node.name == "SCATTER_ND", node.y.shape
    places, updates = node.input(int(not scatters)), node.input(int(scatters))
    require_dtype(updates.type, "updates", DType.FLOAT32, DType.INT32)
    if scatters:
        stated = node.constant_ints(2)
        require(stated == shape, f"the output has shape {list(shape)}, input 2 is {list(stated)}")
    elif node.open and places.data is not None:
        shape = (1 + int(places.array.max(initial=0)), *shape[1:])
    new = RealNodes(onnx_form(node, "ScatterND"))
    indices = new.integers(places)
    if not scatters:
        indices = new.reshape(indices, (*places.shape, 1))
    if indices.data is not None:
        found = indices.array.reshape(-1, indices.shape[-1])
        inside = (found >= 0) & (found < np.array(shape[: found.shape[1]]))
        require(bool(inside.all()), f"it writes outside of the output's shape {list(shape)}")
    zeros = new.typed_constant(np.zeros(shape), updates.dtype)
    if updates.data is not None:
        updates = new.typed_constant(updates.array, updates.dtype)
    return new.result(new.apply(ScatterNd(Reduction.ADD), zeros, indices, updates))


def from_onnx(node: OnnxNode) -> Nodes:
    """ONNX's operators that read or write at computed places."""
    new = RealNodes(node)
    reads = node.name.startswith(("Gather", "Reverse"))
    x = node.x if reads else new.plain(0)
    match node.name:
        case "Gather":
            y = _at_indices(new, x)
        case "GatherND":
            y = new.apply(GatherNd(), x, _positions(new, x, node.integer("batch_dims")))
        case "GatherElements":
            y = at_places(new, x, _axis_places(new, x))
        case "ReverseSequence":
            y = _reversed(new, x)
        case "ScatterND":
            op = _scattering(node)
            y = new.apply(op, x, _positions(new, x, 0), new.plain(2))
        case "TensorScatter":
            y = _updated(new, x)
        case _:
            y = _scattered(new, _scattering(node), x, _axis_places(new, x), new.plain(2))
    return new.result(y)


_REDUCTIONS = tuple(one.name.lower() for one in Reduction)


def _scattering(node: OnnxNode) -> ScatterNd:
    return ScatterNd(Reduction[node.text("reduction", "none", _REDUCTIONS).upper()])


def wrapped(new: RealNodes, indices: Value, extent: int) -> Value:
    """Indices as int32, of which negative ones count from the end."""
    found = new.integers(indices)
    if found.data is not None:
        return new.typed_constant(found.array % extent)
    return new.apply(MOD, found, extent)


def _at_indices(new: RealNodes, x: Value) -> Value:
    """Positions along an axis that is moved to the front."""
    axis = resolved_axis(new.node.integer("axis"), x.rank)
    if axis:
        x = new.apply(Transpose((axis, *(a for a in range(x.rank) if a != axis))), x)
    indices = wrapped(new, new.plain(1), x.shape[0])
    outer, rank = indices.rank, indices.rank + x.rank - 1
    y = new.apply(GatherNd(), x, new.reshape(indices, (*indices.shape, 1)))
    if axis:
        places = (*range(outer, outer + axis), *range(outer), *range(outer + axis, rank))
        y = new.apply(Transpose(places), y)
    return y


def _positions(new: RealNodes, x: Value, batch: int) -> Value:
    """Positions of input 1 in x, those of batches with the indices of their batch."""
    given = new.integers(new.plain(1))
    *shape, depth = given.shape
    extents = np.array(x.shape[batch : batch + depth])
    if given.data is not None:
        found = new.typed_constant(given.array % extents)
    else:
        found = new.apply(MOD, given, extents)
    if not batch:
        return found
    grid = np.indices((*shape, 1))[:batch, ..., 0]
    return new.apply(Concatenation(len(shape)), np.moveaxis(grid, 0, -1), found)


def _axis_places(new: RealNodes, x: Value) -> Value:
    """For each index in input 1 along an axis, the place of its element in the flattened x."""
    shape, indices = x.shape, new.plain(1)
    axis = resolved_axis(new.node.integer("axis"), len(shape))
    return _flat_places(new, shape, axis, wrapped(new, indices, shape[axis]), indices.shape)


def _flat_places(
    new: RealNodes, shape: tuple[int, ...], axis: int, indices: Value, given: tuple[int, ...]
) -> Value:
    """Places in a flattened tensor: along an axis at indices, along others at those of a grid of
    the shape `given`."""
    grid = np.indices(given)
    others = sum(grid[a] * math.prod(shape[a + 1 :]) for a in range(len(shape)) if a != axis)
    along = new.apply(MUL, indices, math.prod(shape[axis + 1 :]))
    return new.apply(ADD, along, others)


def at_places(new: RealNodes, x: Value, places: Value) -> Value:
    """Elements of the flattened x."""
    flat = new.reshape(x, (x.elements,))
    return new.apply(GatherNd(), flat, new.reshape(places, (*places.shape, 1)))


def _scattered(new: RealNodes, op: ScatterNd, x: Value, places: Value, updates: Value) -> Value:
    """The flattened x with elements replaced or combined, in the shape of x."""
    flat = new.reshape(x, (x.elements,))
    positions = new.reshape(places, (places.elements, 1))
    y = new.apply(op, flat, positions, new.reshape(updates, (updates.elements,)))
    return new.reshape(y, x.shape)


def _reversed(new: RealNodes, x: Value) -> Value:
    """ReverseSequence: step t of a sequence of n steps becomes step n - 1 - t, if that exists."""
    node = new.node
    time, batch = node.integer("time_axis"), node.integer("batch_axis", 1)
    require({time, batch} == {0, 1}, f"axes are {time} and {batch}, must be 0 and 1")
    steps, count = x.shape[time], x.shape[batch]
    lengths = new.reshape(new.integers(new.plain(1)), (count, 1) if batch == 0 else (1, count))
    shape = (1, steps) if time else (steps, 1)
    places = new.typed_constant(np.arange(steps).reshape(shape))
    backwards = new.apply(SUB, new.apply(SUB, lengths, 1), places)
    inside = new.apply(PlainCompare(Relation.LESS), places, lengths)
    found = new.apply(Select(), inside, backwards, places)
    whole = x.shape[:2]
    others = new.typed_constant(np.indices(whole)[batch][..., np.newaxis])
    parts = (new.reshape(found, (*whole, 1)), others)
    return new.apply(
        GatherNd(), x, new.apply(Concatenation(2), *(parts if time == 0 else parts[::-1]))
    )


def _updated(new: RealNodes, x: Value) -> Value:
    """TensorScatter: steps of each batch of a cache are replaced from an index on."""
    node, update, shape = new.node, new.plain(1), x.shape
    axis = resolved_axis(node.integer("axis", -2), len(shape))
    steps = np.arange(update.shape[axis]).reshape(-1, *(1,) * (len(shape) - axis - 1))
    places = new.typed_constant(steps)
    if node.optional(2) is not None:
        first = new.integers(new.plain(2))
        places = new.apply(ADD, new.reshape(first, (shape[0], *(1,) * (len(shape) - 1))), places)
    if node.text("mode", "linear", ("linear", "circular")) == "circular":
        places = wrapped(new, places, shape[axis])
    places = _flat_places(new, shape, axis, places, update.shape)
    return _scattered(new, ScatterNd(), x, places, update)
