"""Layer: weights, bias and requantisation of a node, as kernels with certified arithmetic want them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from penstock.fixedpoint import Int64s, Rounding, wrap_int32
from penstock.ir.op import Op, Site
from penstock.ops.conv2d import Conv2D
from penstock.ops.depthwise_conv2d import DepthwiseConv2D
from penstock.ops.fully_connected import FullyConnected
from penstock.requantisation.certify import Certificate, certify
from penstock.requantisation.channels import Channels, reachable
from penstock.requantisation.form import Form

LayerOp = Conv2D | DepthwiseConv2D | FullyConnected
FRACTION_BITS = (12, 10, 8)
"""Bits below accumulators, the most first: with more of them, channels are easier to serve."""


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """Weights (channels, taps); `offset`: what is added to a sum of weights times inputs as they are
    stored, with the form's fraction; wrapped, since the sum of both fits int32."""

    weights: Int64s
    offset: Int64s
    form: Form
    least: int
    most: int

    @property
    def clamps(self) -> tuple[tuple[str, int], ...]:
        """Members of a kernel's parameters that say how outputs are made of sums."""
        form = self.form
        return (
            ("least", self.least),
            ("most", self.most),
            ("base", form.base),
            ("shift", form.shift),
            ("is_signed", int(form.corrects)),
        )


def layer_of(op: Op, site: Site, fraction_bits: tuple[int, ...] = FRACTION_BITS) -> Layer | None:
    """The layer of a node with certified requantisation; None where it has none."""
    if not isinstance(op, LayerOp):
        return None
    weights, bias = _weights(op, site), site.constant(2).astype(np.int64)
    for bits in fraction_bits:
        form = certificate(op, site, bits).form
        if form is not None:
            bias = bias - site.inputs[0].zero_point * weights.sum(axis=1)
            offset = wrap_int32((bias << bits) + form.offset)
            return Layer(weights, offset, form, *op.activation.bounds(site.output))
    return None


@lru_cache(maxsize=1024)
def certificate(op: LayerOp, site: Site, fraction_bits: int) -> Certificate:
    """How the outputs of a layer may be requantised, proved."""
    x, weights, bias = site.inputs[0], _weights(op, site), site.constant(2).astype(np.int64)
    lower, upper = reachable(
        weights, bias, x.dtype.lower - x.zero_point, x.dtype.upper - x.zero_point
    )
    found = op.multipliers(site)
    channels = Channels(
        np.array(found.multipliers, np.int64),
        np.array(found.shifts, np.int64),
        lower,
        upper,
        site.output.zero_point,
        *op.activation.bounds(site.output),
        op.rounding if isinstance(op, FullyConnected) else Rounding.DOUBLE,
    )
    return certify(channels, fraction_bits)


def _weights(op: LayerOp, site: Site) -> Int64s:
    """(channels, taps)."""
    weights = site.constant(1).astype(np.int64)
    if isinstance(op, DepthwiseConv2D):
        return weights.reshape(-1, weights.shape[3]).T
    return weights.reshape(weights.shape[0], -1)
