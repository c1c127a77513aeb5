"""BatchToSpace, SpaceToBatch: moves between the batch axis and blocks of rows and columns.

BatchToSpace with blocks b along H and c along W (SpaceToBatch is the inverse):

    x  (b * c * N, H,     W,     C)  any type; or rank 3, without W
    y  (N,         H * b, W * c, C)  y[n, h, w] = x[(h % b, w % c, n), h // b, w // c]

Source: TFLite BATCH_TO_SPACE_ND, whose crops become a Slice after it, and SPACE_TO_BATCH_ND, whose
paddings become a Pad before it; `reference/batch_to_space_nd.h`, `space_to_batch_nd.h`.  The fill
value is the zero point, as in TensorFlow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.operator_facts import relay
from penstock.opkit.checks import constant_paddings, require, require_rank
from penstock.opkit.nodes import intermediate
from penstock.opkit.rearrangement import AxisGrouping, Rearrangement
from penstock.opkit.samples import int8, sample
from penstock.ops.pad import Pad
from penstock.ops.slice import Slice


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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


def from_foreign(node: ForeignNode) -> Iterable[Made]:
    """TFLite BATCH_TO_SPACE_ND, SPACE_TO_BATCH_ND."""
    x = node.input(0)
    require_rank(x.type, (3, 4), "input")
    blocks = node.constant_ints(1)
    require(
        len(blocks) == x.type.rank - 2,
        f"there are {len(blocks)} blocks, must be {x.type.rank - 2}",
    )
    before, after = constant_paddings(node, 2, len(blocks))
    if node.name == "SPACE_TO_BATCH_ND":
        yield from _padded(node, blocks, (0, *before, 0), (0, *after, 0))
    else:
        yield from _cropped(node, blocks, (0, *before, 0), (0, *after, 0))


def _padded(
    node: ForeignNode, blocks: tuple[int, ...], before: tuple[int, ...], after: tuple[int, ...]
) -> Iterable[Made]:
    """A Pad, if there are paddings, and the operator."""
    x, y = node.input(0), node.output()
    op = SpaceToBatch(blocks)
    if not any((*before, *after)):
        yield Made(op, (x,), y)
        return
    pad = Pad(before, after, y.type.zero_point)
    wide = intermediate(y, pad.result_type((x.type,)).shape, "padded")
    yield Made(pad, (x,), wide)
    yield Made(op, (wide,), y)


def _cropped(
    node: ForeignNode, blocks: tuple[int, ...], before: tuple[int, ...], after: tuple[int, ...]
) -> Iterable[Made]:
    """The operator, and a Slice, if there are crops."""
    x, y = node.input(0), node.output()
    op = BatchToSpace(blocks)
    if not any((*before, *after)):
        yield Made(op, (x,), y)
        return
    full = op.result_type((x.type,)).shape
    kept = tuple(e - b - a for e, b, a in zip(full, before, after, strict=True))
    wide = intermediate(y, full, "uncropped")
    yield Made(op, (x,), wide)
    yield Made(Slice(before, kept, (1,) * len(full)), (wide,), y)


SAMPLES = (
    sample(BatchToSpace((2, 3)), int8(6, 2, 3, 2)),
    sample(BatchToSpace((2,)), int8(4, 3, 2)),
    sample(SpaceToBatch((2, 3)), int8(2, 4, 6, 2)),
    sample(SpaceToBatch((2,)), int8(1, 6, 3)),
)
