"""DepthToSpace, SpaceToDepth: moves between channels and blocks of rows and columns.

DepthToSpace with block b (SpaceToDepth is the inverse):

    x  (N, H,     W,     b * b * C)  any type
    y  (N, H * b, W * b, C)          y[n, h, w, c] = x[n, h // b, w // b, (h % b, w % b, c)]

With `channels_first`, channels are (c, h % b, w % b) instead: ONNX DepthToSpace in mode CRD, which
is PyTorch's PixelShuffle.

Source: TFLite DEPTH_TO_SPACE, SPACE_TO_DEPTH; `reference/depth_to_space.h`, `space_to_depth.h`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.operator_facts import AxisOrder, OnnxName, onnx, relay
from penstock.opkit.checks import require, require_rank
from penstock.opkit.nodes import requantised
from penstock.opkit.rearrangement import AxisGrouping, Rearrangement
from penstock.opkit.samples import int8, sample


@dataclass(frozen=True, slots=True)
class DepthToSpace(Rearrangement):
    """Moves elements from the channels to blocks of `block` x `block` rows and columns."""

    block: int
    channels_first: bool = False

    TFLITE = ("DEPTH_TO_SPACE",)
    ONNX = onnx(OnnxName(AxisOrder.CHANNELS_LAST, carries=True, floats=True), "DepthToSpace")
    RELAY = relay("nn.depth_to_space")

    def layout(self, x: tuple[int, ...]) -> AxisGrouping:
        n, h, w, c = _four(x)
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


@dataclass(frozen=True, slots=True)
class SpaceToDepth(Rearrangement):
    """Moves elements from blocks of `block` x `block` rows and columns to the channels."""

    block: int

    TFLITE = ("SPACE_TO_DEPTH",)
    ONNX = onnx(OnnxName(AxisOrder.CHANNELS_LAST, carries=True, floats=True), "SpaceToDepth")
    RELAY = relay("nn.space_to_depth")

    def layout(self, x: tuple[int, ...]) -> AxisGrouping:
        n, h, w, c = _four(x)
        b = self.block
        require(
            b > 0 and h % b == 0 and w % b == 0,
            f"{h} rows and {w} columns are not multiples of the block, {b}",
        )
        splits = ((n,), (h // b, b), (w // b, b), (c,))
        return AxisGrouping(splits, ((0,), (1,), (3,), (2, 4, 5)))


def _four(x: tuple[int, ...]) -> tuple[int, int, int, int]:
    require(len(x) == 4, f"input has shape {list(x)}, its rank must be 4")
    return x[0], x[1], x[2], x[3]


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite DEPTH_TO_SPACE, SPACE_TO_DEPTH."""
    require_rank(node.input(0).type, (4,), "input")
    make = DepthToSpace if node.name == "DEPTH_TO_SPACE" else SpaceToDepth
    yield Made(make(node.integer("block_size")), (node.input(0),), node.output())


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX DepthToSpace and SpaceToDepth."""
    size, mode = node.integer("blocksize"), node.text("mode", "DCR")
    require(1 <= size < 2**15, f"blocksize is {size}, must be at least 1")
    require(mode in ("DCR", "CRD"), f"mode is {mode!r:.60}, must be DCR or CRD")
    if node.name == "SpaceToDepth":
        if mode != "DCR":
            raise node.unsupported(f"mode is {mode}, must be DCR")
        op = SpaceToDepth(size)
    else:
        op = DepthToSpace(size, channels_first=mode == "CRD")
    yield from requantised(node, op, node.input(0))


SAMPLES = (
    sample(DepthToSpace(2), int8(1, 3, 2, 12)),
    sample(DepthToSpace(3), int8(2, 2, 1, 9)),
    sample(DepthToSpace(2, channels_first=True), int8(1, 3, 2, 12)),
    sample(SpaceToDepth(2), int8(1, 4, 6, 3)),
    sample(SpaceToDepth(3), int8(2, 3, 6, 1)),
)
