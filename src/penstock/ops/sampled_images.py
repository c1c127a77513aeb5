"""ONNX operators that sample images at computed positions, composed of others: GridSample and
RoiAlign; AffineGrid, which computes such positions; Col2Im, which adds up overlapping windows.

Images and volumes are flattened to a list of pixels, (N * H * W, C), from which GatherNd takes
those around each position.

Source: ONNX operator specification.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import numpy as np

from penstock.frozen import frozen
from penstock.ir.foreign import Nodes
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.operator_facts import PLAIN_MODEL, onnx
from penstock.ir.tensor import Array, DType
from penstock.opkit.checks import require
from penstock.opkit.real_nodes import RealNodes
from penstock.ops.comparisons import Connective, Logical, PlainCompare, Relation
from penstock.ops.conversions import Cast
from penstock.ops.formulas import Term
from penstock.ops.gather import GatherNd
from penstock.ops.integer_pairs import ADD, MUL
from penstock.ops.plain import (
    Floor,
    PlainAdd,
    PlainMaximum,
    PlainMinimum,
    PlainMod,
    Round,
)
from penstock.ops.plain_reduction import PlainReduction, ReductionFunction
from penstock.ops.scatter import Reduction, ScatterNd
from penstock.ops.slice import along, part
from penstock.ops.sums import PlainSum
from penstock.ops.transpose import Transpose

ONNX = onnx(PLAIN_MODEL, "AffineGrid", "Col2Im", "GridSample", "RoiAlign")
CUBIC = -0.75
"""The coefficient of cubic convolution."""


def from_onnx(node: OnnxNode) -> Nodes:
    """ONNX AffineGrid, Col2Im, GridSample, RoiAlign."""
    new = RealNodes(node)
    match node.name:
        case "AffineGrid":
            return new.result(_affine_grid(new))
        case "Col2Im":
            return new.result(_added_windows(new))
        case "GridSample":
            return new.result(_grid_sampled(new))
        case _:
            return new.result(_regions(new))


def _part(new: RealNodes, x: Value, k: int) -> Value:
    """Element k of the vectors along the last axis, without that axis."""
    return new.reshape(new.apply(along(x.shape, x.rank - 1, k, 1), x), x.shape[:-1])


def _pixels(new: RealNodes, x: Value) -> Value:
    """(N, C, spatial axes) as a list of pixels."""
    batch, channels, *extents = x.shape
    last = (0, *range(2, x.rank), 1)
    return new.reshape(new.apply(Transpose(last), x), (batch * math.prod(extents), channels))


@frozen
class _Tap:
    """One of the indices along an axis that a position reads: the index and its weight; None: 1."""

    index: Term
    weight: Term | None


def _gathered(
    new: RealNodes, pixels: Value, first: Value, extents: tuple[int, ...], taps: tuple[_Tap, ...]
) -> tuple[Term, Value | None]:
    """The pixels at one tap of each axis, and the product of the weights, with a last axis.

    `first`: of each position, the index of the batch as int32."""
    place, weight = first, None
    for tap, extent in zip(taps, extents, strict=True):
        index = tap.index.to(Cast(DType.INT32)).value
        place = new.apply(ADD, new.apply(MUL, place, extent), index)
        if tap.weight is not None:
            weight = tap.weight if weight is None else weight * tap.weight
    found = Term(new, new.apply(GatherNd(), pixels, new.reshape(place, (*place.shape, 1))))
    if weight is None:
        return found, None
    return found, new.reshape(weight.value, (*weight.value.shape, 1))


_MODES = ("nearest", "linear", "cubic", "bilinear", "bicubic")


def _grid_sampled(new: RealNodes) -> Value:
    node, x, grid = new.node, new.input(0), new.input(1)
    batch, _, *extents = x.shape
    _, *outputs, count = grid.shape
    require(count == len(extents), f"positions have {count} coordinates, must be {len(extents)}")
    mode = node.text("mode", "linear", _MODES).removeprefix("bi")
    taps = [
        tuple(_axis_taps(Term(new, _part(new, grid, count - 1 - d)), extent, mode))
        for d, extent in enumerate(extents)
    ]
    numbers = np.arange(batch).reshape(batch, *(1,) * len(outputs))
    first = new.typed_constant(numbers)
    total, pixels = None, _pixels(new, x)
    for chosen in product(*taps):
        found, weight = _gathered(new, pixels, first, tuple(extents), chosen)
        found = found if weight is None else found * weight
        total = found if total is None else total + found
    assert total is not None
    rank = len(outputs) + 2
    return total.to(Transpose((0, rank - 1, *range(1, rank - 1)))).value


def _axis_taps(n: Term, extent: int, mode: str) -> Iterator[_Tap]:
    """The taps along an axis at coordinates in [-1, 1]."""
    node = n.nodes.node
    align = bool(node.integer("align_corners"))
    padding = node.text("padding_mode", "zeros", ("zeros", "border", "reflection"))
    raised = n + 1.0
    x = raised * ((extent - 1) / 2) if align else raised * (extent / 2) - 0.5
    if mode == "nearest":
        x = x.to(Round())
    if mode != "cubic":  # whose taps are brought inside one by one
        x = _inside(x, extent, padding, align)
    if mode == "nearest":
        yield _bounded(x, None, extent, padding, align)
        return
    floor = x.to(Floor())
    t = x - floor
    weights = tuple(_cubic(t)) if mode == "cubic" else (1.0 - t, t)
    for k, weight in enumerate(weights):
        index = floor + float(k - (len(weights) > 2))
        yield _bounded(index, weight, extent, padding, align)


def _cubic(t: Term) -> Iterator[Term]:
    """Weights of the four pixels around a position, t behind the second one."""
    rest = 1.0 - t
    for distance, is_far in ((t, True), (t, False), (rest, False), (rest, True)):
        d = distance + 1.0 if is_far else distance
        factors = (CUBIC, -5 * CUBIC, 8 * CUBIC, -4 * CUBIC)
        if not is_far:
            factors = (CUBIC + 2, -(CUBIC + 3), 0.0, 1.0)
        total = d * factors[0]
        for factor in factors[1:-1]:
            total = (total + factor) * d
        yield total + factors[-1]


def _inside(x: Term, extent: int, padding: str, align: bool) -> Term:
    if padding == "border":
        return _clamped(x, extent)
    return _reflected(x, extent, align) if padding == "reflection" else x


def _clamped(x: Term, extent: int) -> Term:
    return x.to(PlainMaximum(), 0.0).to(PlainMinimum(), float(extent - 1))


def _reflected(x: Term, extent: int, align: bool) -> Term:
    """x mirrored at the first and the last pixel, or at their outer edges."""
    least, span = (0.0, extent - 1) if align else (-0.5, extent)
    if span == 0:
        return x * 0.0
    turned = abs(x - least).to(PlainMod(), 2.0 * span) - float(span)
    return (span + least) - abs(turned)


def _bounded(index: Term, weight: Term | None, extent: int, padding: str, align: bool) -> _Tap:
    """A tap whose index is inside the axis; padding with zeros takes its weight."""
    if padding != "zeros":
        return _Tap(_clamped(_inside(index, extent, padding, align), extent), weight)
    clamped = _clamped(index, extent)
    mask = clamped.to(PlainCompare(Relation.EQUAL), index).to(Cast(DType.FLOAT32))
    return _Tap(clamped, mask if weight is None else weight * mask)


def _regions(new: RealNodes) -> Value:
    """RoiAlign with a fixed number of samples."""
    node, x, rois = new.node, new.input(0), new.input(1)
    extents = x.shape[2:]
    count, ratio = rois.shape[0], node.integer("sampling_ratio")
    if ratio <= 0:
        raise node.unsupported(
            "sampling_ratio is 0, must be fixed: it decides the work of a region"
        )
    sizes = (node.integer("output_height", 1), node.integer("output_width", 1))
    half = node.text("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    scale = node.real("spatial_scale", 1.0)
    mode = node.text("mode", "avg", ("avg", "max"))
    axes = [
        _region_taps(new, rois, k, size * ratio, extent, scale, half)
        for k, size, extent in zip((1, 0), sizes, extents, strict=True)
    ]
    rank = (count, sizes[0] * ratio, sizes[1] * ratio)
    batches = new.reshape(new.integers(new.plain(2)), (count, 1, 1))
    first = new.apply(ADD, batches, np.zeros(rank))
    total, pixels = None, _pixels(new, x)
    op = PlainMaximum() if mode == "max" else PlainAdd()
    for chosen in product(*axes):
        found, weight = _gathered(new, pixels, first, tuple(extents), chosen)
        assert weight is not None
        found *= weight
        total = found if total is None else total.to(op, found)
    assert total is not None
    # Samples of a row of the result: the rows, then the columns.
    for axis, size in ((0, sizes[0]), (1, sizes[1])):
        shape = total.value.shape
        outer, inner = math.prod(shape[: axis + 1]), math.prod(shape[axis + 2 :])
        split = new.reshape(total.value, (outer, size, ratio, inner))
        reduce = PlainReduction(ReductionFunction.MAX, (2,)) if mode == "max" else PlainSum((2,))
        kept = new.apply(reduce, split)
        total = Term(new, new.reshape(kept, (*shape[: axis + 1], size, *shape[axis + 2 :])))
    if mode != "max":
        total *= 1 / ratio**2
    return total.to(Transpose((0, 3, 1, 2))).value


def _region_taps(
    new: RealNodes, rois: Value, k: int, samples: int, extent: int, scale: float, half: bool
) -> tuple[_Tap, _Tap]:
    """The two taps along an axis of each sample; k: the coordinate at which regions begin."""
    count = rois.shape[0]
    start, end = (
        Term(new, _part(new, rois, c)) * scale - (0.5 if half else 0.0) for c in (k, k + 2)
    )
    size = end - start
    if not half:
        size = size.to(PlainMaximum(), 1.0)
    shape = (count, samples, 1) if k else (count, 1, samples)
    places = ((np.arange(samples) + 0.5) / samples).reshape(1, *shape[1:])
    share = new.typed_constant(places, DType.FLOAT32)
    start, size = (Term(new, new.reshape(x.value, (count, 1, 1))) for x in (start, size))
    x = start + size * share
    after = x.to(PlainCompare(Relation.GREATER_EQUAL), -1.0)
    before = x.to(PlainCompare(Relation.LESS_EQUAL), float(extent))
    mask = after.to(Logical(Connective.LOGICAL_AND), before).to(Cast(DType.FLOAT32))
    x = _clamped(x, extent)
    floor = x.to(Floor())
    t = x - floor
    above = (floor + 1.0).to(PlainMinimum(), float(extent - 1))
    return _Tap(floor, (1.0 - t) * mask), _Tap(above, t * mask)


def _affine_grid(new: RealNodes) -> Value:
    """Products of constant positions and of the matrices."""
    node, theta = new.node, new.input(0)
    batch, _, *extents = node.constant_ints(1)
    align = node.integer("align_corners")

    def places(extent: int) -> Array:
        if align:
            return np.linspace(-1, 1, extent) if extent > 1 else np.zeros(1)
        return (2 * np.arange(extent) + 1) / extent - 1

    grid = np.stack(np.meshgrid(*map(places, extents), indexing="ij"), -1)[..., ::-1]
    count, dims = math.prod(extents), len(extents)
    base = np.concatenate([grid.reshape(count, dims), np.ones((count, 1))], 1)
    points = new.typed_constant(base.reshape(1, count, 1, dims + 1), DType.FLOAT32)
    parts = Term(new, points) * new.reshape(theta, (batch, 1, dims, dims + 1))
    return new.reshape(parts.to(PlainSum((3,))).value, (batch, *extents, dims))


def _added_windows(new: RealNodes) -> Value:
    """Col2Im: each element is added at its place in the padded image, which is then cropped."""
    node, x = new.node, new.input(0)
    image, block = node.constant_ints(1), node.constant_ints(2)
    rank, batch = len(image), x.shape[0]
    channels = x.shape[1] // math.prod(block)
    pads = node.integers("pads", (0,) * 2 * rank)
    strides = node.integers("strides", (1,) * rank)
    dilations = node.integers("dilations", (1,) * rank)
    padded = [e + pads[d] + pads[d + rank] for d, e in enumerate(image)]
    places = np.zeros((1,) * 2 * rank, np.int64)
    for d in range(rank):
        count = (padded[d] - dilations[d] * (block[d] - 1) - 1) // strides[d] + 1
        offsets = np.arange(block[d])[:, None] * dilations[d] + np.arange(count) * strides[d]
        shape = [1] * 2 * rank
        shape[d], shape[d + rank] = offsets.shape
        places = places * padded[d] + offsets.reshape(shape)
    outer = np.arange(batch * channels).reshape(-1, *(1,) * 2 * rank) * math.prod(padded)
    require(
        outer.size * places.size == x.elements,
        f"the windows have {outer.size * places.size} elements, the input {x.elements}",
    )
    positions = new.typed_constant((outer + places).reshape(-1, 1))
    total = batch * channels * math.prod(padded)
    zeros = new.typed_constant(np.zeros(total), DType.FLOAT32)
    flat = new.reshape(x, (x.elements,))
    found = new.apply(ScatterNd(Reduction.ADD), zeros, positions, flat)
    whole = new.reshape(found, (batch, channels, *padded))
    return new.apply(part((0, 0, *pads[:rank]), (batch, channels, *image)), whole)
