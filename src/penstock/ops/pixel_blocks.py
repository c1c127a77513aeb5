"""Moves of elements between blocks of rows and columns and the batch axis, or channels.

BatchToSpace with blocks b along H and c along W (SpaceToBatch is the inverse):

    x  (b * c * N, H,     W,     C)  any type; or rank 3, without W
    y  (N,         H * b, W * c, C)  y[n, h, w] = x[(h % b, w % c, n), h // b, w // c]

DepthToSpace with block b (SpaceToDepth is the inverse):

    x  (N, H,     W,     b * b * C)  any type
    y  (N, H * b, W * b, C)          y[n, h, w, c] = x[n, h // b, w // b, (h % b, w % b, c)]

With `channels_first`, channels are (c, h % b, w % b) instead: ONNX DepthToSpace in mode CRD, which
is PyTorch's PixelShuffle.

Sources: TFLite BATCH_TO_SPACE_ND, whose crops become a Slice after it, and SPACE_TO_BATCH_ND, whose
paddings become a Pad before it; `reference/batch_to_space_nd.h`, `space_to_batch_nd.h`.  The fill
value is the zero point, as in TensorFlow.  DEPTH_TO_SPACE, SPACE_TO_DEPTH;
`reference/depth_to_space.h`, `space_to_depth.h`.
"""

from __future__ import annotations

import math

import numpy as np

from penstock.frozen import frozen
from penstock.ir.foreign import ForeignNode, Made, Nodes
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.operator_facts import AxisOrder, OnnxName, onnx, relay
from penstock.opkit.checks import constant_paddings, image_shape, require, require_rank
from penstock.opkit.nodes import intermediate, requantised
from penstock.opkit.rearrangement import AxisGrouping, Rearrangement
from penstock.ops.gather import Gather
from penstock.ops.pad import Pad
from penstock.ops.slice import part


@frozen
class BatchToSpace(Rearrangement):
    """Moves elements from the batch axis to `blocks` of rows and columns."""

    blocks: tuple[int, ...]

    TFLITE = ("BATCH_TO_SPACE_ND",)
    RELAY = relay("nn.batch_to_space_nd")

    def layout(self, x: tuple[int, ...]) -> AxisGrouping:
        m = len(self.blocks)
        require(len(x) > m, f"input has shape {list(x)}, its rank must be above {m}")
        images = math.prod(self.blocks)
        require(
            images > 0 and min(self.blocks) > 0 and x[0] % images == 0,
            f"batch is {x[0]}, must be a multiple of the blocks {list(self.blocks)}",
        )
        splits = ((*self.blocks, x[0] // images), *((extent,) for extent in x[1:]))
        spaces = tuple((m + 1 + k, k) for k in range(m))
        rest = tuple((k,) for k in range(2 * m + 1, len(x) + m))
        return AxisGrouping(splits, ((m,), *spaces, *rest))


@frozen
class SpaceToBatch(Rearrangement):
    """Moves elements from `blocks` of rows and columns to the batch axis."""

    blocks: tuple[int, ...]

    TFLITE = ("SPACE_TO_BATCH_ND",)
    RELAY = relay("nn.space_to_batch_nd")

    def layout(self, x: tuple[int, ...]) -> AxisGrouping:
        m = len(self.blocks)
        require(len(x) > m, f"input has shape {list(x)}, its rank must be above {m}")
        spaces = tuple(zip(x[1 : m + 1], self.blocks, strict=True))
        require(
            all(block > 0 and extent % block == 0 for extent, block in spaces),
            f"extents {list(x[1 : m + 1])} are not multiples of the blocks {list(self.blocks)}",
        )
        splits = (
            (x[0],),
            *((extent // block, block) for extent, block in spaces),
            *((extent,) for extent in x[m + 1 :]),
        )
        batch = (*(2 * k + 2 for k in range(m)), 0)
        rest = tuple((k,) for k in range(2 * m + 1, len(x) + m))
        return AxisGrouping(splits, (batch, *((2 * k + 1,) for k in range(m)), *rest))


def _foreign_batch(node: ForeignNode) -> Nodes:
    x = node.x
    require_rank(x.type, "input", 3, 4)
    blocks = node.constant_ints(1)
    require(
        len(blocks) == x.rank - 2,
        f"there are {len(blocks)} blocks, must be {x.rank - 2}",
    )
    before, after = constant_paddings(node, 2, len(blocks))
    if node.name == "SPACE_TO_BATCH_ND":
        yield from _padded(node, blocks, (0, *before, 0), (0, *after, 0))
    else:
        yield from _cropped(node, blocks, (0, *before, 0), (0, *after, 0))


def _padded(
    node: ForeignNode, blocks: tuple[int, ...], before: tuple[int, ...], after: tuple[int, ...]
) -> Nodes:
    """A Pad, if there are paddings, and the operator."""
    x, y = node.x, node.y
    op = SpaceToBatch(blocks)
    if not any((*before, *after)):
        yield Made(op, (x,), y)
        return
    pad = Pad(before, after, y.zero_point)
    wide = intermediate(y, pad.result_type((x.type,)).shape, "padded")
    yield Made(pad, (x,), wide)
    yield Made(op, (wide,), y)


def _cropped(
    node: ForeignNode, blocks: tuple[int, ...], before: tuple[int, ...], after: tuple[int, ...]
) -> Nodes:
    """The operator, and a Slice, if there are crops."""
    x, y = node.x, node.y
    op = BatchToSpace(blocks)
    if not any((*before, *after)):
        yield Made(op, (x,), y)
        return
    full = op.result_type((x.type,)).shape
    kept = tuple(e - b - a for e, b, a in zip(full, before, after, strict=True))
    wide = intermediate(y, full, "uncropped")
    yield Made(op, (x,), wide)
    yield Made(part(before, kept), (wide,), y)


@frozen
class DepthToSpace(Rearrangement):
    """Moves elements from the channels to blocks of `block` x `block` rows and columns."""

    block: int
    channels_first: bool = False

    TFLITE = ("DEPTH_TO_SPACE",)
    ONNX = onnx(OnnxName(AxisOrder.CHANNELS_LAST, carries=True, floats=True), "DepthToSpace")
    RELAY = relay("nn.depth_to_space")

    def layout(self, x: tuple[int, ...]) -> AxisGrouping:
        n, h, w, c = image_shape(x)
        b = self.block
        require(
            b > 0 and c % (b * b) == 0,
            f"{c} channels are not a multiple of {b} x {b} of the block",
        )
        if self.channels_first:
            splits = ((n,), (h,), (w,), (c // (b * b), b, b))
            return AxisGrouping(splits, ((0,), (1, 4), (2, 5), (3,)))
        splits = ((n,), (h,), (w,), (b, b, c // (b * b)))
        return AxisGrouping(splits, ((0,), (1, 3), (2, 4), (5,)))


@frozen
class SpaceToDepth(Rearrangement):
    """Moves elements from blocks of `block` x `block` rows and columns to the channels."""

    block: int

    TFLITE = ("SPACE_TO_DEPTH",)
    ONNX = onnx(OnnxName(AxisOrder.CHANNELS_LAST, carries=True, floats=True), "SpaceToDepth")
    RELAY = relay("nn.space_to_depth")

    def layout(self, x: tuple[int, ...]) -> AxisGrouping:
        n, h, w, c = image_shape(x)
        b = self.block
        require(
            b > 0 and h % b == 0 and w % b == 0,
            f"{h} rows and {w} columns are not multiples of the block, {b}",
        )
        splits = ((n,), (h // b, b), (w // b, b), (c,))
        return AxisGrouping(splits, ((0,), (1,), (3,), (2, 4, 5)))


def _foreign_depth(node: ForeignNode) -> Nodes:
    require_rank(node.x.type, "input", 4)
    make = DepthToSpace if node.name == "DEPTH_TO_SPACE" else SpaceToDepth
    yield Made(make(node.integer("block_size")), (node.x,), node.y)


def from_onnx(node: OnnxNode) -> Nodes:
    size, mode = node.integer("blocksize"), node.text("mode", "DCR", ("DCR", "CRD"))
    require(1 <= size < 2**15, f"blocksize is {size}, must be at least 1")
    if node.name == "SpaceToDepth":
        op = SpaceToDepth(size)
        if mode == "CRD":
            yield from _channels_first(node, op, size * size)
            return
    else:
        op = DepthToSpace(size, channels_first=mode == "CRD")
    yield from requantised(node, op, node.x)


def _channels_first(node: OnnxNode, op: SpaceToDepth, blocks: int) -> Nodes:
    """SpaceToDepth whose channels are those of the input, of which each has its blocks."""
    made = node.between(op, node.x, label="blocks", like=node.x.quantisation)
    channels = node.x.shape[-1]
    order = np.arange(blocks * channels).reshape(blocks, channels).T.ravel()
    yield made
    yield from requantised(node, Gather(3, tuple(int(k) for k in order)), made.output)


def from_foreign(node: ForeignNode) -> Nodes:
    return _foreign_batch(node) if "BATCH" in node.name else _foreign_depth(node)
