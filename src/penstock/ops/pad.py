"""Padding of a tensor, with one value or with its mirror image.

    x  any shape, any type
    y  extents before[a] + x + after[a]

Sources: TFLite PAD (pads with the output's zero point), PADV2; `reference/pad.h`.  MIRROR_PAD;
`micro/kernels/mirror_pad.cc`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Self

import numpy as np

from penstock.frozen import frozen
from penstock.ir.exchange import exchanged_entries
from penstock.ir.foreign import ForeignNode, Made, Nodes
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Op, Site, Types
from penstock.ir.operator_facts import CARRIED, onnx, relay
from penstock.ir.tensor import DType, TensorType
from penstock.opkit import onnx_constants
from penstock.opkit.checks import constant_paddings, require, require_count, require_elements
from penstock.opkit.nodes import (
    alike,
    in_shape_of_output,
    is_plain_foreign,
    is_real,
    onnx_form,
    requantised,
)
from penstock.opkit.real_nodes import RealNodes
from penstock.opkit.selection import (
    AxisMap,
    ListedMap,
    Maps,
    Selection,
    StridedMap,
    listed_type,
    selected_type,
)
from penstock.ops.comparisons import Select
from penstock.ops.gather import Gather
from penstock.ops.reshape import Reshape
from penstock.ops.slice import part


@frozen
class _Padding(Selection):
    """Base of padding `before` and `after` each axis."""

    before: tuple[int, ...]
    after: tuple[int, ...]

    def padded(self, inputs: Types) -> tuple[int, ...]:
        """The shape of the output.  Raises ModelError unless there are paddings for each axis."""
        (x,) = require_count(inputs, 1, "padding")
        require(
            x.rank == len(self.before) == len(self.after),
            f"input has shape {list(x.shape)}, paddings are for rank {len(self.before)}",
        )
        return tuple(map(sum, zip(self.before, x.shape, self.after, strict=True)))

    def exchanged(self, rank: int) -> Self:
        before, after = exchanged_entries(self.before), exchanged_entries(self.after)
        return replace(self, before=before, after=after)


@frozen
class MirrorPad(_Padding):
    """Pads a tensor with its mirror image.

        x  any shape, any type
        y  extents before[a] + x + after[a]

    The outermost elements occur once if `edge` is 1 (reflect), twice if it is 0 (symmetric).

    Source: TFLite MIRROR_PAD; `micro/kernels/mirror_pad.cc`."""

    edge: int

    TFLITE = ("MIRROR_PAD",)
    RELAY = relay("nn.mirror_pad")

    def result_type(self, inputs: Types) -> TensorType:
        found, shape = self.padded(inputs), inputs[0].shape
        for axis, sides in enumerate(zip(self.before, shape, self.after, strict=True)):
            before, extent, after = sides
            require(
                min(before, after) >= 0 and max(before, after) <= extent - self.edge,
                f"axis {axis} is padded by {before} and {after}, at most {extent - self.edge} "
                "can be mirrored",
            )
        return listed_type(inputs, found)

    def maps(self, site: Site) -> Maps:
        triples = zip(self.before, site.x.shape, self.after, strict=True)
        return tuple(_mirrored(*triple, self.edge) for triple in triples)


def _mirrored(before: int, extent: int, after: int, edge: int) -> AxisMap:
    if before == after == 0:
        return StridedMap()
    inside = tuple(range(extent))
    reverse = inside[::-1]
    return ListedMap(
        (*reverse[extent - edge - before : extent - edge], *inside, *reverse[edge : edge + after]),
        factor=1,
    )


@frozen
class Pad(_Padding):
    """Pads a tensor with one value.

        x  any shape, int8 (other types are padded with zeros)
        y  extents before[a] + x + after[a]

    Source: TFLite PAD (pads with the output's zero point), PADV2; `reference/pad.h`."""

    fill: int

    TFLITE = ("PAD", "PADV2")
    ONNX = onnx(CARRIED, "Pad")
    RELAY = relay("nn.pad")

    def result_type(self, inputs: Types) -> TensorType:
        found, x = self.padded(inputs), inputs[0]
        require(
            _fits(self.fill, x.dtype),
            f"{x.dtype.value} is padded with {self.fill}, must be padded with "
            + ("an element" if x.dtype.size_bytes == 1 else "0"),
        )
        return selected_type(inputs, found)

    def maps(self, site: Site) -> Maps:
        return tuple(StridedMap(-before) for before in self.before)

    def border(self) -> int:
        return self.fill


def _fits(fill: int, dtype: DType) -> bool:
    """Whether padding with `fill` repeats one byte."""
    if fill == 0 or dtype.size_bytes != 1:
        return fill == 0
    return fill == 1 if dtype is DType.BOOL else dtype.lower <= fill < dtype.upper


def _fill(node: ForeignNode) -> int:
    """The fill element: the constant third input, or the output's zero point."""
    value, out = node.optional(2), node.y.type
    if value is None:
        return out.zero_point
    values = node.constant_ints(2)
    require(len(values) == 1, f"border has {len(values)} elements, must have 1")
    if (value.dtype, value.scale, value.zero_point) != (
        out.dtype,
        out.scale,
        out.zero_point,
    ):
        raise node.unsupported("border and output differ in type or scale, must be alike")
    return values[0]


def from_onnx(node: OnnxNode) -> Nodes:
    """ONNX Pad; negative pads crop the input first."""
    x, mode = node.x, node.text("mode", "constant", _MODES)
    before, after = _onnx_pads(node)
    if mode == "constant" and is_real(node):
        yield from _padded_reals(node, before, after)
        return
    if mode == "constant":  # the output's quantisation has to represent the border
        x, made = alike(node, x, "before_pad")
        yield from made
    steps = _cropping(x.shape, before, after)
    before, after = (tuple(max(pad, 0) for pad in pads) for pads in (before, after))
    if mode == "constant":
        steps.append(Pad(before, after, _onnx_fill(node, x)))
    elif mode == "reflect":
        steps.append(MirrorPad(before, after, 1))
    else:
        shape = steps[0].result_type((x.type,)).shape if steps else x.shape
        for axis, sides in enumerate(zip(before, after, strict=True)):
            if sides != (0, 0):
                steps.append(Gather(axis, _repeating(shape[axis], *sides, mode)))
    for k, op in enumerate(steps[:-1]):
        made = node.between(op, x, label=f"padded{k}", like=x.quantisation)
        yield made
        x = made.output
    yield from requantised(node, steps[-1] if steps else Reshape(x.shape), x)


_MODES = ("constant", "reflect", "edge", "wrap")


def _padded_reals(node: OnnxNode, before: tuple[int, ...], after: tuple[int, ...]) -> Nodes:
    """Nodes that pad real numbers with zeros, which the border then replaces, axis by axis."""
    real = RealNodes(node)
    x, border = real.input(0), _onnx_border(node)
    for crop in _cropping(x.shape, before, after):
        x = real.apply(crop, x)
    before, after = (tuple(max(pad, 0) for pad in pads) for pads in (before, after))
    inside = x.shape
    x = real.apply(Pad(before, after, 0), x)
    for axis, extent in enumerate(inside if border else ()):
        if x.shape[axis] > extent:
            places = np.arange(x.shape[axis]) - before[axis]
            is_outside = ((places < 0) | (places >= extent)).reshape(
                -1, *(1,) * (len(inside) - axis - 1)
            )
            mask = real.typed_constant(is_outside, DType.BOOL)
            x = real.apply(Select(), mask, border, x)
    return real.result(x)


def _onnx_pads(node: OnnxNode) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(before, after) of every axis."""
    rank, pads = len(node.order), node.listed("pads", 1) or ()
    chosen = [node.axis(a) for a in (node.constant_ints(3) if node.optional(3) else range(rank))]
    require(
        len(pads) == 2 * len(chosen) and all(abs(pad) < 2**31 for pad in pads),
        f"pads are {list(pads)}, must be two for each of {len(chosen)} axes",
    )
    before, after = [0] * rank, [0] * rank
    for a, axis in enumerate(chosen):
        before[axis], after[axis] = pads[a], pads[a + len(chosen)]
    return tuple(before), tuple(after)


def _cropping(shape: tuple[int, ...], before: tuple[int, ...], after: tuple[int, ...]) -> list[Op]:
    """The slice that negative pads take of the input; none if there are none."""
    if min((*before, *after), default=0) >= 0:
        return []
    start = tuple(max(-pad, 0) for pad in before)
    triples = zip(shape, start, after, strict=True)
    extents = tuple(extent - first + min(pad, 0) for extent, first, pad in triples)
    require(
        min(extents) >= 0,
        f"pads {list(before)} and {list(after)} leave nothing of shape {list(shape)}",
    )
    require_elements(extents, "the input without the pads")
    return [part(start, extents)]


def _repeating(extent: int, before: int, after: int, mode: str) -> tuple[int, ...]:
    """Input indices along an axis that is padded with its edges, or periodically."""
    indices = range(-before, extent + after)
    if mode == "wrap":
        return tuple(k % extent for k in indices)
    return tuple(min(max(k, 0), extent - 1) for k in indices)


def _onnx_fill(node: OnnxNode, x: Value) -> int:
    """The fill element in the quantisation of x, which is that of the output."""
    steps = round(min(max(_onnx_border(node) / x.scale, -512.0), 512.0)) + x.zero_point
    return min(max(steps, -128), 127)


def _onnx_border(node: OnnxNode) -> float:
    """The value of padding.  Raises ModelError if it is no number."""
    real = node.real("value", 0.0)
    if node.optional(2) is not None:
        values = onnx_constants.real_numbers(node, 2).ravel()
        require(len(values) == 1, f"border has {len(values)} elements, must have 1")
        real = float(values[0])
    require(not math.isnan(real), f"border is {real}, must be a number")
    return real


def from_foreign(node: ForeignNode) -> Nodes:
    before, after = constant_paddings(node, 1, node.x.rank)
    if node.name == "MIRROR_PAD":
        edge = int(node.choice("mode", ("REFLECT", "SYMMETRIC")) == "REFLECT")
        op = MirrorPad(before, after, edge)
    elif is_plain_foreign(node) and node.optional(2) is not None:
        pads = Value.constant("pads", np.array([*before, *after], np.int64))
        form = onnx_form(node, "Pad", node.x, pads, node.input(2))
        yield from in_shape_of_output(node, _padded_reals(form, before, after))
        return
    else:
        op = Pad(before, after, _fill(node))
    yield Made(op, (node.x,), node.y)
