"""Grouped convolutions, and depthwise ones with a channel multiplier, on DSP cores.

The kernel reads inputs in fours.  Neighbouring groups are therefore merged until their input depth
is a multiple of four; weights between an output of one group and an input of another are zero.
Merging all groups yields an ordinary convolution.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from penstock.backends.cores.common.layer import certified_layer
from penstock.backends.cores.dsp import tiles
from penstock.fixedpoint import Int64s
from penstock.ir.op import Kernel, Site, Table
from penstock.ir.tensor import Data, DType, Quantisation, TensorType
from penstock.opkit import sliding
from penstock.ops.conv2d import Conv2D
from penstock.ops.depthwise_conv2d import DepthwiseConv2D

MOST_TAPS = 25
"""Size of the kernel's array of pointers to taps."""
MOST_MERGED = 4
"""Largest number of groups merged into an ordinary convolution, whose weights take that many times
as much memory."""
GroupedOp = Conv2D | DepthwiseConv2D


@dataclass(frozen=True, slots=True)
class ChannelGroups:
    """`count` groups of `depth` input and `outputs` output channels each.

    The kernel processes `merged` consecutive groups as one.  If `merged` does not divide `count`,
    the last merged group overlaps the one before."""

    count: int
    depth: int
    outputs: int
    merged: int = 1

    @staticmethod
    def of(op: GroupedOp, site: Site) -> ChannelGroups:
        """The groups of an operator, not merged."""
        channels = site.inputs[0].shape[3]
        depth = 1 if isinstance(op, DepthwiseConv2D) else site.inputs[1].shape[3]
        return ChannelGroups(channels // depth, depth, site.output.shape[3] * depth // channels)

    @property
    def starts(self) -> list[int]:
        """The first group of each merged group.

        >>> ChannelGroups(6, 1, 2, merged=4).starts
        [0, 2]
        """
        last = self.count - self.merged
        return [min(first, last) for first in range(0, self.count, self.merged)]

    @property
    def order(self) -> Int64s:
        """Output channels, merged group by merged group, each padded to fours with its last one."""
        outputs = self.merged * self.outputs
        fours = np.minimum(np.arange(-(-outputs // tiles.QUAD) * tiles.QUAD), outputs - 1)
        return np.concatenate([first * self.outputs + fours for first in self.starts])

    def spread(self, weights: Int64s) -> Int64s:
        """Weights (channels in `order`, taps, merged depth), zero between groups, from weights
        (channels in `order`, taps * depth)."""
        order = self.order
        each = len(order) // len(self.starts)
        member = order // self.outputs - np.repeat(self.starts, each)
        taps = weights.reshape(len(order), -1, self.depth)
        found = np.zeros((*taps.shape[:2], self.merged, self.depth), np.int64)
        found[np.arange(len(order)), :, member] = taps
        return found.reshape(*taps.shape[:2], -1)


def group_kernel(op: GroupedOp, site: Site) -> Kernel | None:
    """A kernel that computes two pixels and four outputs of a merged group at a time and reads its
    inputs in place; None if groups cannot be merged or requantisation is not proven."""
    taps = op.rows.size * op.columns.size
    possible = list(_merged(ChannelGroups.of(op, site)))
    if not possible or taps > MOST_TAPS:
        return None
    groups = min(possible, key=lambda some: _products(some, taps))
    layer = certified_layer(op, site, tiles.FRACTION_BITS, groups.order)
    if layer is None:
        return None
    depth = groups.merged * groups.depth
    spread = groups.spread(layer.weights).reshape(len(layer.weights), -1)
    weights = tiles.packed_weights(spread[:, tiles.window_order(taps, depth)])
    if weights is None:
        return None
    x = site.inputs[0]
    return Kernel(
        "conv2d_groups_s8_dsp",
        params=(
            *sliding.shape_params(x.shape, site.output.shape),
            *sliding.window_params(op.rows, op.columns),
            ("groups", len(groups.starts)),
            ("group_in", depth),
            ("group_out", groups.merged * groups.outputs),
            *layer.clamps,
        ),
        tables=(
            ("weights", weights),
            ("scales", tiles.packed_scales(layer)),
            ("padding", Table.of(np.full(x.shape[3], x.zero_point, np.int8))),
        ),
        folded=(1, 2),
        by_rows=True,
        classes=layer.classes,
    )


def _merged(groups: ChannelGroups) -> Iterator[ChannelGroups]:
    """Merges that make the input depth a multiple of four: the fewest groups, and twice as many."""
    least = tiles.QUAD // np.gcd(groups.depth, tiles.QUAD)
    for merged in (int(least), 2 * int(least)):
        if merged <= groups.count:
            yield ChannelGroups(groups.count, groups.depth, groups.outputs, merged)


def _products(groups: ChannelGroups, taps: int) -> int:
    """Multiplications per pixel, including those by zero weights and by padding outputs."""
    outputs = -(-groups.merged * groups.outputs // tiles.QUAD) * tiles.QUAD
    return len(groups.starts) * outputs * taps * groups.merged * groups.depth


def as_one_group(op: GroupedOp, site: Site) -> tuple[Conv2D, Site] | None:
    """The equivalent ordinary convolution; None if there are more than `MOST_MERGED` groups."""
    groups = ChannelGroups.of(op, site)
    if groups.count > MOST_MERGED:
        return None
    x, w, b = site.inputs
    weights = site.constant(1)
    if isinstance(op, DepthwiseConv2D):
        weights = weights.transpose(3, 1, 2, 0)
    one = ChannelGroups(groups.count, groups.depth, groups.outputs, groups.count)
    order = one.order[: site.output.shape[3]]
    spread = one.spread(weights.reshape(len(order), -1)[one.order].astype(np.int64))
    shape = (len(order), op.rows.size, op.columns.size, x.shape[3])
    q = w.quantisation
    assert q is not None
    axis = None if q.axis is None else 0
    type = TensorType(shape, DType.INT8, Quantisation(q.scales, q.zero_points, axis))
    data = Data.of(spread[: len(order)].reshape(shape).astype(np.int8))
    constants = (None, data, site.constants[2])
    return Conv2D(op.rows, op.columns, op.activation), Site((x, type, b), site.output, constants)
