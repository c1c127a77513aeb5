"""Slice: a strided box of a tensor; steps may be negative.

    x  any shape, any type
    y  `shape`: y[o] = x[start + step * o] along every axis

Source: TFLite SLICE, STRIDED_SLICE (`internal/strided_slice_logic.h`), SPLIT, SPLIT_V, UNPACK and
REVERSE_V2: all are slices; a reshape follows where axes are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from operator import ne
from typing import Self

from penstock.frozen import frozen
from penstock.ir.exchange import exchanged_entries
from penstock.ir.foreign import ForeignNode, Made, Nodes
from penstock.ir.graph import Node, Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Site, Types
from penstock.ir.operator_facts import CARRIED, RelayName, onnx, relay
from penstock.ir.tensor import TensorType
from penstock.opkit.checks import constant_axes, one_axis, require, resolved_axis
from penstock.opkit.nodes import requantised, with_shape
from penstock.opkit.selection import Maps, Selection, StridedMap, selected_type

Bounds = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def strided_bounds(node: ForeignNode) -> Bounds:
    """(starts, extents, steps) of the node's slice, including axes that the output drops.

    Negative indices count from the end, indices outside are clamped, a masked index is the end of
    the axis at which the slice starts or stops."""
    shape = node.x.shape
    begins, ends, steps = (node.constant_ints(k) for k in (1, 2, 3))
    require(
        len(begins) == len(ends) == len(steps) == len(shape),
        f"slice has {len(begins)} begins, {len(ends)} ends and {len(steps)} strides, must have "
        f"{len(shape)} of each",
    )
    _refuse_masks(node)
    begin_mask, end_mask = node.integer("begin_mask"), node.integer("end_mask")
    dropped, offset = node.integer("shrink_axis_mask"), node.integer("offset")
    starts: list[int] = []
    extents: list[int] = []
    for axis, (begin, end, step, extent) in enumerate(zip(begins, ends, steps, shape, strict=True)):
        require(step != 0, f"stride of axis {axis} is 0, must not be")
        bit = 1 << axis
        start = _clamped(None if begin_mask & bit else begin, step, extent, first=True)
        # With `offset`, the end counts from the start.
        stop = _clamped(None if end_mask & bit else end + offset * start, step, extent, first=False)
        starts.append(start)
        extents.append(1 if dropped & bit else max(0, -((start - stop) // step)))
    return tuple(starts), tuple(extents), steps


def _clamped(index: int | None, step: int, extent: int, *, first: bool) -> int:
    """The index clamped to the axis; None stands for a masked index."""
    lower, upper = (0, extent) if step > 0 else (-1, extent - 1)
    if index is None:
        return lower if first == (step > 0) else upper
    return min(max(index + extent if index < 0 else index, lower), upper)


def _refuse_masks(node: ForeignNode) -> None:
    for mask in ("ellipsis_mask", "new_axis_mask"):
        if node.integer(mask):
            raise node.unsupported(f"{mask} is {node.integer(mask)}, must be 0")


def _is_along_one_axis(op: Slice, site: Site) -> bool:
    """Whether the slice is an interval of one axis, as a part of a split is."""
    return set(op.step) == {1} and sum(map(ne, op.shape, site.x.shape)) == 1


def item_of_split(node: Node, nodes: Iterable[Node]) -> int | None:
    """Return the position of a slice among the slices of the same tensor that divide an axis;
    None if the node is no such slice.

    nodes: those of the graph.  If they do not cover the axis, since some parts are not read, the
        parts count as equal."""
    if not isinstance(node.op, Slice) or not _is_along_one_axis(node.op, node.site):
        return None
    source, shape, op = node.inputs[0], node.inputs[0].shape, node.op
    axis = next(a for a, pair in enumerate(zip(op.shape, shape, strict=True)) if ne(*pair))
    parts = {
        other.op.start[axis]: other.op.shape[axis]
        for other in nodes
        if isinstance(other.op, Slice)
        and other.inputs[0].name == source.name
        and _is_along_one_axis(other.op, other.site)
        and other.op.shape[axis] != shape[axis]
    }
    starts = sorted(parts)
    ends = [start + parts[start] for start in starts]
    if starts[0] == 0 and starts[1:] == ends[:-1] and ends[-1] == shape[axis]:
        return starts.index(op.start[axis])
    item, rest = divmod(op.start[axis], op.shape[axis])
    return None if rest or shape[axis] % op.shape[axis] else item


@frozen
class Slice(Selection):
    """Box of `shape` that starts at index `start` with stride `step` along each axis."""

    start: tuple[int, ...]
    shape: tuple[int, ...]
    step: tuple[int, ...]

    TFLITE = (
        "SLICE",
        "STRIDED_SLICE",
        "SPLIT",
        "SPLIT_V",
        "UNPACK",
        "REVERSE_V2",
    )
    ONNX = onnx(CARRIED, "Slice", "Split")
    RELAY = (*relay("strided_slice"), RelayName("split", condition=_is_along_one_axis))

    def result_type(self, inputs: Types) -> TensorType:
        y = selected_type(inputs, self.shape)
        require(
            len(self.start) == len(self.step) == len(self.shape),
            f"slice has {len(self.start)} starts, {len(self.shape)} extents and {len(self.step)} "
            "steps, must have one of each per axis",
        )
        axes = zip(self.start, self.shape, self.step, inputs[0].shape, strict=True)
        for axis, (start, outputs, step, extent) in enumerate(axes):
            last = start + step * (outputs - 1)
            require(
                step != 0
                and outputs >= 0
                and (outputs == 0 or (0 <= start < extent and 0 <= last < extent)),
                f"slice of axis {axis} begins at {start}, takes {outputs} at step {step}; "
                f"the input has {extent}",
            )
        return y

    def exchanged(self, rank: int) -> Self:
        return replace(
            self,
            start=exchanged_entries(self.start),
            shape=exchanged_entries(self.shape),
            step=exchanged_entries(self.step),
        )

    def maps(self, site: Site) -> Maps:
        triples = zip(self.start, self.step, self.shape, strict=True)
        return tuple(StridedMap(start, step if n > 1 else 1) for start, step, n in triples)


def part(start: tuple[int, ...], shape: tuple[int, ...]) -> Slice:
    """The elements of a box of this shape."""
    return Slice(start, shape, (1,) * len(shape))


def backwards(shape: tuple[int, ...], *axes: int) -> Slice:
    """A tensor of this shape with axes in reverse."""
    start = tuple(extent - 1 if axis in axes else 0 for axis, extent in enumerate(shape))
    return Slice(start, shape, tuple(-1 if axis in axes else 1 for axis in range(len(shape))))


def along(shape: tuple[int, ...], axis: int, first: int, count: int) -> Slice:
    """`count` indices of an axis of a tensor of this shape, from the first on."""
    start = (*(0,) * axis, first, *(0,) * (len(shape) - axis - 1))
    return part(start, (*shape[:axis], count, *shape[axis + 1 :]))


def from_foreign(node: ForeignNode) -> Nodes:
    match node.name:
        case "SLICE":
            yield _box(node)
        case "STRIDED_SLICE":
            yield from _strided(node)
        case "REVERSE_V2":
            yield _reverse(node)
        case "SPLIT":
            value, parts = node.input(1), len(node.outputs)
            node.require_count("num_splits", parts, "outputs")
            axis = one_axis(node, 0, value.rank)
            size, rest = divmod(value.shape[axis], max(parts, 1))
            require(not rest, f"{value.shape[axis]} does not split into {parts} equal parts")
            yield from _pieces(node, value, axis, (size,) * parts)
        case "SPLIT_V":
            yield from _split_sizes(node)
        case _:
            yield from _unpack(node)


def _box(node: ForeignNode) -> Made:
    value = node.x
    start, sizes = node.constant_ints(1), node.constant_ints(2)
    require(
        len(start) == len(sizes) == value.rank,
        f"slice has {len(start)} starts and {len(sizes)} sizes, must have {value.rank}",
    )
    triples = zip(start, sizes, value.shape, strict=True)
    shape = tuple(extent - first if size == -1 else size for first, size, extent in triples)
    return Made(part(start, shape), (value,), node.y)


def _strided(node: ForeignNode) -> Nodes:
    value = node.x
    starts, shape, steps = strided_bounds(node)
    dropped, output = node.integer("shrink_axis_mask"), node.y
    kept = tuple(extent for axis, extent in enumerate(shape) if not dropped >> axis & 1)
    if 0 in node.open:
        output = output.with_shape(kept)
    require(output.shape == kept, f"output has shape {list(output.shape)}, must be {list(kept)}")
    yield from _then_reshape(Slice(starts, shape, steps), value, output)


def _reverse(node: ForeignNode) -> Made:
    return Made(backwards(node.x.shape, *constant_axes(node)), (node.x,), node.y)


def _split_sizes(node: ForeignNode) -> Nodes:
    value = node.x
    node.require_count("num_splits", len(node.outputs), "outputs")
    sizes, axis = node.constant_ints(1), one_axis(node, 2, value.rank)
    require(sizes.count(-1) <= 1, f"sizes are {list(sizes)}, at most one may be -1")
    rest = value.shape[axis] - sum(size for size in sizes if size != -1)
    return _pieces(node, value, axis, tuple(rest if size == -1 else size for size in sizes))


def _unpack(node: ForeignNode) -> Nodes:
    value = node.x
    node.require_count("num", len(node.outputs), "outputs")
    axis = resolved_axis(node.integer("axis"), value.rank)
    return _pieces(node, value, axis, (1,) * value.shape[axis])


def _pieces(node: ForeignNode, value: Value, axis: int, sizes: tuple[int, ...]) -> Nodes:
    require(
        len(sizes) == len(node.outputs) and sum(sizes) == value.shape[axis],
        f"{len(node.outputs)} outputs of sizes {list(sizes)} along axis {axis}; the input has "
        f"{value.shape[axis]}",
    )
    first = 0
    for size, output in zip(sizes, node.outputs, strict=True):
        yield from _then_reshape(along(value.shape, axis, first, size), value, output)
        first += size


def _then_reshape(op: Slice, value: Value, output: Value) -> Nodes:
    """The slice, and a reshape if the output has fewer axes."""
    return with_shape(op, (value,), op.shape, output)


def from_onnx(node: OnnxNode) -> Nodes:
    if node.name == "Split":
        yield from _onnx_split(node)
        return
    x = node.x.shape
    starts, ends = node.listed("starts", 1) or (), node.listed("ends", 2) or ()
    axes = node.listed("axes", 3) or tuple(range(len(starts)))
    steps = node.listed("steps", 4) or (1,) * len(starts)
    require(
        len(starts) == len(ends) == len(axes) == len(steps) and 0 not in steps,
        f"starts {list(starts)}, ends {list(ends)}, axes {list(axes)} and steps {list(steps)} "
        "must be as many, steps not 0",
    )
    start, shape, step = [0] * len(x), list(x), [1] * len(x)
    for lower, upper, axis, stride in zip(starts, ends, axes, steps, strict=True):
        a = node.axis(axis)
        indices = range(x[a])[slice(lower, upper, stride)]
        start[a], shape[a], step[a] = (*indices, 0)[0], len(indices), stride
    op = Slice(tuple(start), tuple(shape), tuple(step))
    yield from requantised(node, op, node.x)


def _onnx_split(node: OnnxNode) -> Nodes:
    x, axis = node.x, node.axis(node.integer("axis"))
    extent, count = x.shape[axis], len(node.outputs)
    size = -(-extent // max(1, count))
    even = tuple(min(size, extent - k * size) for k in range(count))
    sizes = node.listed("split", 1) or even
    require(
        len(sizes) == count and sum(sizes) == extent and min(sizes) >= 0,
        f"pieces are {list(sizes)}, must be {count} that make {extent}",
    )
    for k, piece in enumerate(sizes):
        yield from requantised(node, along(x.shape, axis, sum(sizes[:k]), piece), x, k=k)
