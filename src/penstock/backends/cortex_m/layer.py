"""Layer: weights, bias and requantisation of a node, as kernels with certified arithmetic want
them."""

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
from penstock.requantisation.channels import Booleans, Channels, reachable
from penstock.requantisation.form import Form

NEIGHBOURS = 4
"""Channels that share a base."""
LayerOp = Conv2D | DepthwiseConv2D | FullyConnected


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """Weights (channels, taps), in the kernel's order; `classes`, in the layer's; `offset`: what is
    added to a sum of weights times inputs as they are stored, with the form's fraction; wrapped,
    since the sum of both fits int32."""

    weights: Int64s
    offset: Int64s
    form: Form
    least: int
    most: int
    classes: str

    @property
    def clamps(self) -> tuple[tuple[str, int], ...]:
        """Members of a kernel's parameters that say how outputs are made of sums."""
        form = self.form
        return (
            ("least", self.least),
            ("most", self.most),
            ("shift", form.shift),
            ("is_signed", int(form.corrects)),
        )


def layer_of(op: Op, site: Site, fraction_bits: int, order: Int64s) -> Layer | None:
    """The layer of a node with certified requantisation, its channels in this order, in which
    every four share a base; None where it has none."""
    if not isinstance(op, LayerOp):
        return None
    found = certificate(op, site, fraction_bits, tuple(order.tolist()))
    if (form := found.form) is None:
        return None
    weights = living_weights(op, site)[order]
    bias = site.constant(2).astype(np.int64)[order]
    bias = bias - site.inputs[0].zero_point * weights.sum(axis=1)
    offset = wrap_int32((bias << fraction_bits) + form.offset)
    letters = dict(zip(order.tolist(), found.classes, strict=True))
    classes = "".join(letters[channel].value for channel in sorted(letters))
    return Layer(weights, offset, form, *op.activation.bounds(site.output), classes)


@lru_cache(maxsize=1024)
def certificate(op: LayerOp, site: Site, fraction_bits: int, order: tuple[int, ...]) -> Certificate:
    """How the outputs of a layer may be requantised, proved."""
    channels = _channels(op, site, living_weights(op, site))
    return certify(channels.only(np.array(order)), fraction_bits, NEIGHBOURS)


@lru_cache(maxsize=64)
def living_weights(op: LayerOp, site: Site) -> Int64s:
    """Weights (channels, taps), zeros in channels whose output is the same for every input."""
    weights = _weights(op, site)
    weights[constant_outputs(op, site)[0]] = 0
    weights.setflags(write=False)
    return weights


@lru_cache(maxsize=64)
def constant_outputs(op: LayerOp, site: Site) -> tuple[Booleans, Int64s]:
    """Which channels have the same output for every input, and an output that each channel has."""
    channels = _channels(op, site, _weights(op, site))
    ends = channels.outputs(np.stack([channels.lower, channels.upper - 1], axis=1))
    return ends[:, 0] == ends[:, 1], ends[:, 0]


def living_channels(op: LayerOp, site: Site) -> Channels:
    """The reference's requantisation of a layer with its living weights."""
    return _channels(op, site, living_weights(op, site))


def _channels(op: LayerOp, site: Site, weights: Int64s) -> Channels:
    """The reference's requantisation of a layer with these weights."""
    x = site.inputs[0]
    least, upper = x.dtype.lower - x.zero_point, x.dtype.upper - x.zero_point
    found = op.multipliers(site)
    return Channels(
        np.array(found.multipliers, np.int64),
        np.array(found.shifts, np.int64),
        *reachable(weights, site.constant(2).astype(np.int64), least, upper),
        site.output.zero_point,
        *op.activation.bounds(site.output),
        op.rounding if isinstance(op, FullyConnected) else Rounding.DOUBLE,
    )


def _weights(op: LayerOp, site: Site) -> Int64s:
    """(channels, taps)."""
    weights = site.constant(1).astype(np.int64)
    if isinstance(op, DepthwiseConv2D):
        return weights.reshape(-1, weights.shape[3]).T.copy()
    return weights.reshape(weights.shape[0], -1)
