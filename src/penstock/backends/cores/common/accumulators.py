"""Accumulator ranges and reference requantisation of the output channels of a layer."""

from __future__ import annotations

import numpy as np

from penstock.choices import Rounding
from penstock.fixedpoint import INT32_MAX, INT32_MIN, Int64s
from penstock.ir.op import Site
from penstock.opkit.requantise import Multipliers
from penstock.opkit.sum_requantisation import SumRequantisation
from penstock.ops.conv2d import Conv2D
from penstock.ops.depthwise_conv2d import DepthwiseConv2D
from penstock.ops.fully_connected import FullyConnected
from penstock.ops.transpose_conv import TransposeConv
from penstock.requantisation.channels import Channels, reachable

Weighted = Conv2D | DepthwiseConv2D | FullyConnected | TransposeConv
"""Operators whose accumulators are a bias plus products of inputs and constant weights."""
Requantised = Weighted | SumRequantisation
"""Operators that requantise accumulators with constants for each output channel."""


def reference_channels(op: Requantised, site: Site) -> Channels:
    """Return the multiplier and shift of each output channel, and the range of its accumulators.

    Multiplier and shift are the requantisation parameters of the reference runtime."""
    if not isinstance(op, SumRequantisation):
        return reference_channels_with(op, site, weight_matrix(op, site))
    anything = ((INT32_MIN, INT32_MAX + 1),) * site.output.shape[-1]
    reach = np.array(op.reach or anything, np.int64)
    return _channels(op, site, op.multipliers, reach[:, 0], reach[:, 1])


def reference_channels_with(op: Weighted, site: Site, weights: Int64s) -> Channels:
    """Return the multiplier and shift of each output channel, and the range of its accumulators.

    Multiplier and shift are the requantisation parameters of the reference runtime.

    weights: replace the operator's own weights; of shape (output channels, taps).

    The range holds for windows with padding, too: padding has the input's zero point as its value,
    which is in the range of the inputs."""
    x = site.inputs[0]
    least, upper = x.dtype.lower - x.zero_point, x.dtype.upper - x.zero_point
    lower, above = reachable(weights, site.constant(2).astype(np.int64), least, upper)
    return _channels(op, site, op.multipliers(site), lower, above)


def weight_matrix(op: Weighted, site: Site) -> Int64s:
    """Return the constant weights as a matrix of shape (output channels, taps).

    Taps are the elements of a window in row-major order."""
    weights = site.constant(1).astype(np.int64)
    if isinstance(op, DepthwiseConv2D):
        return weights.reshape(-1, weights.shape[3]).T.copy()
    return weights.reshape(weights.shape[0], -1)


def _channels(
    op: Requantised, site: Site, multipliers: Multipliers, lower: Int64s, upper: Int64s
) -> Channels:
    return Channels(
        np.array(multipliers.multipliers, np.int64),
        np.array(multipliers.shifts, np.int64),
        lower,
        upper,
        site.output.zero_point,
        *op.activation.bounds(site.output),
        op.rounding if isinstance(op, FullyConnected | SumRequantisation) else Rounding.DOUBLE,
    )
