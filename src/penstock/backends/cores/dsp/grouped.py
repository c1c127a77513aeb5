"""Grouped convolutions, and depthwise convolutions with a channel multiplier, on DSP cores.

The kernel reads four inputs at a time.  Neighbouring groups are therefore merged, such that the
number of input channels of a merged group is a multiple of four.  Weights between an input of one
original group and an output of another are zero.  Merging all groups yields an ordinary
convolution.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from penstock.backends.cores.common.layer import certified_layer
from penstock.backends.cores.dsp.packing import (
    QUAD,
    TILE_FRACTION_BITS,
    packed_tile,
    tile_scales,
    window_order,
)
from penstock.fixedpoint import Int64s
from penstock.frozen import frozen
from penstock.ir.op import Kernel, Site, Table, members, row_kernel
from penstock.ir.tensor import Data, DType, Quantisation, TensorType
from penstock.opkit import sliding
from penstock.ops.convolutions import Conv2D, DepthwiseConv2D

MOST_TAPS = 25  # Largest number of taps of the kernel, the size of its array of pointers.
# Largest number of groups that are merged into an ordinary convolution.
#
# Merging g groups makes the weights g times as large.
MOST_MERGED = 4
GroupedOp = Conv2D | DepthwiseConv2D


@frozen
class ChannelGroups:
    """The channel groups of a convolution.

    count: number of groups.
    depth, outputs: numbers of input and output channels of each group.
    merged: number of consecutive groups that the kernel processes as one merged group.  If it does
        not divide `count`, the last merged group overlaps the one before."""

    count: int
    depth: int
    outputs: int
    merged: int = 1

    @staticmethod
    def of(op: GroupedOp, site: Site) -> ChannelGroups:
        """Return the channel groups of an operator, with `merged` 1: each is processed alone."""
        channels = site.x.shape[3]
        depth = 1 if isinstance(op, DepthwiseConv2D) else site.inputs[1].shape[3]
        return ChannelGroups(channels // depth, depth, site.output.shape[3] * depth // channels)

    @property
    def starts(self) -> list[int]:
        """The index of the first group of each merged group.

        >>> ChannelGroups(count=6, depth=1, outputs=2, merged=4).starts
        [0, 2]
        """
        last = self.count - self.merged
        return [min(first, last) for first in range(0, self.count, self.merged)]

    @property
    def order(self) -> Int64s:
        """The indices of the output channels in the order in which the kernel computes them.

        One merged group (`merged` consecutive groups) follows the other.  The last channel of a
        merged group is repeated until the number of its channels is a multiple of 4.

        >>> ChannelGroups(count=2, depth=4, outputs=3).order.tolist()
        [0, 1, 2, 2, 3, 4, 5, 5]
        """
        outputs = self.merged * self.outputs
        fours = np.minimum(np.arange(-(-outputs // QUAD) * QUAD), outputs - 1)
        return np.concatenate([first * self.outputs + fours for first in self.starts])

    def spread(self, weights: Int64s) -> Int64s:
        """Return the weights of each output channel for all input channels of its merged group.

        An output channel depends only on the `depth` input channels of its own group.  The kernel
        multiplies all `merged * depth` input channels of the merged group, so the result has the
        weight 0 for the others.  For example, if `depth` is 1, `merged` is 4 and there is one tap,
        the weight 7 of a channel in the second group becomes 0, 7, 0, 0.

        weights: of shape (output channels, taps * depth), with the output channels in the kernel's
            order (the property `order`).

        The result has shape (output channels, taps, merged * depth), in the same order."""
        order = self.order
        each = len(order) // len(self.starts)
        member = order // self.outputs - np.repeat(self.starts, each)
        taps = weights.reshape(len(order), -1, self.depth)
        found = np.zeros((*taps.shape[:2], self.merged, self.depth), np.int64)
        found[np.arange(len(order)), :, member] = taps
        return found.reshape(*taps.shape[:2], -1)


def group_kernel(op: GroupedOp, site: Site) -> Kernel | None:
    """Return a kernel for grouped convolutions that reads its inputs in place.

    Returns None if there are too few groups to merge, if the window has more than `MOST_TAPS` taps,
    if the kernel's requantisation is not proved bit-exact, or if two weights do not fit into 16
    bits as w0 + 256 * w1 (`packed_tile`)."""
    # The kernel processes several neighbouring channel groups as one merged group, and computes two
    # pixels of four output channels at a time.
    taps = op.rows.size * op.columns.size
    possible = list(_merged(ChannelGroups.of(op, site)))
    if not possible or taps > MOST_TAPS:
        return None
    groups = min(possible, key=lambda some: _products(some, taps))
    layer = certified_layer(op, site, TILE_FRACTION_BITS, groups.order)
    if layer is None:
        return None
    depth = groups.merged * groups.depth
    spread = groups.spread(layer.weights).reshape(len(layer.weights), -1)
    weights = packed_tile(spread[:, window_order(taps, depth)])
    if weights is None:
        return None
    x = site.x
    return replace(
        row_kernel(
            "conv2d_groups_s8_dsp",
            sliding.params(site, op.rows, op.columns),
            members(
                groups=len(groups.starts), group_in=depth, group_out=groups.merged * groups.outputs
            ),
            layer.shared_params,
            weights=weights,
            scales=tile_scales(layer),
            padding=Table.of(np.full(x.shape[3], x.zero_point, np.int8)),
            folded=(1, 2),
        ),
        classes=layer.classes,
    )


def _merged(groups: ChannelGroups) -> Iterator[ChannelGroups]:
    """Yield at most two ways to merge channel groups, of which `group_kernel` chooses one."""
    # The number of input channels of a merged group must be a multiple of four.  The first result
    # merges as few groups as possible, and the second twice as many.  A result that would merge
    # more groups than exist is omitted.
    least = QUAD // np.gcd(groups.depth, QUAD)
    for merged in (int(least), 2 * int(least)):
        if merged <= groups.count:
            yield ChannelGroups(groups.count, groups.depth, groups.outputs, merged)


def _products(groups: ChannelGroups, taps: int) -> int:
    """The number of multiplications per output pixel."""
    # The number includes multiplications by the zero weights of merged groups, and multiplications
    # for channels that are repeated to fill groups of four.
    outputs = -(-groups.merged * groups.outputs // QUAD) * QUAD
    return len(groups.starts) * outputs * taps * groups.merged * groups.depth


def as_one_group(op: GroupedOp, site: Site) -> tuple[Conv2D, Site] | None:
    """Return (operator, site) of the equivalent convolution with a single channel group."""
    # Its weights, a constant of the site, are zero between channels of different groups.  Returns
    # None if there are more than `MOST_MERGED` groups.
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
