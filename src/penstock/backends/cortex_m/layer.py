"""Layer: weights, bias and requantisation of a node, as kernels with certified arithmetic want
them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from penstock.backends.cortex_m.forms import forms_of
from penstock.backends.cortex_m.reach import channels_of, channels_with, weights_of
from penstock.fixedpoint import Int64s, wrap_int32
from penstock.ir.op import Op, Site
from penstock.ops.conv2d import Conv2D
from penstock.ops.depthwise_conv2d import DepthwiseConv2D
from penstock.ops.fully_connected import FullyConnected
from penstock.requantisation.certify import Certificate, certify
from penstock.requantisation.channels import Booleans, Channels
from penstock.requantisation.form import Form

NEIGHBOURS = 4
"""Channels that share a base."""
LayerOp = Conv2D | DepthwiseConv2D | FullyConnected


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """Weights (channels, taps), in the kernel's order; `classes`, in the layer's; `bias`: what is
    added to a sum of weights times inputs as they are stored; `outside`: channels, in the kernel's
    order, that have not the form of the others but `forms` of their own."""

    weights: Int64s
    bias: Int64s
    form: Form
    least: int
    most: int
    classes: str
    outside: Int64s
    forms: Int64s

    @property
    def offset(self) -> Int64s:
        """The bias with the form's fraction; wrapped, since its sum with products fits int32."""
        return wrap_int32((self.bias << self.form.fraction_bits) + self.form.offset)

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


def layer_of(
    op: Op, site: Site, fraction_bits: int, order: Int64s, most_outside: int = 0
) -> Layer | None:
    """The layer of a node with certified requantisation, its channels in this order, in which
    every four share a base; None where more channels are outside than the kernel may take."""
    if not isinstance(op, LayerOp):
        return None
    found = certificate(op, site, fraction_bits, tuple(order.tolist()))
    outside = np.flatnonzero(found.outside)
    if len(outside) > most_outside:
        return None
    weights = living_weights(op, site)[order]
    bias = site.constant(2).astype(np.int64)[order]
    bias = bias - site.inputs[0].zero_point * weights.sum(axis=1)
    kinds, forms = forms_of(living_channels(op, site).only(order[outside]))
    letters = {c: kind.value for c, kind in zip(order.tolist(), found.classes, strict=True)}
    letters |= dict(zip(order[outside].tolist(), kinds, strict=True))
    classes = "".join(letters[channel] for channel in sorted(letters))
    bounds = op.activation.bounds(site.output)
    return Layer(weights, bias, found.form, *bounds, classes, outside, forms)


@lru_cache(maxsize=1024)
def certificate(op: LayerOp, site: Site, fraction_bits: int, order: tuple[int, ...]) -> Certificate:
    """How the outputs of a layer may be requantised, proved."""
    channels = living_channels(op, site).only(np.array(order))
    return certify(channels, fraction_bits, NEIGHBOURS)


@lru_cache(maxsize=64)
def living_weights(op: LayerOp, site: Site) -> Int64s:
    """Weights (channels, taps), zeros in channels whose output is the same for every input."""
    weights = weights_of(op, site)
    weights[constant_outputs(op, site)[0]] = 0
    weights.setflags(write=False)
    return weights


@lru_cache(maxsize=64)
def constant_outputs(op: LayerOp, site: Site) -> tuple[Booleans, Int64s]:
    """Which channels have the same output for every input, and an output that each channel has."""
    channels = channels_of(op, site)
    ends = channels.outputs(np.stack([channels.lower, channels.upper - 1], axis=1))
    return ends[:, 0] == ends[:, 1], ends[:, 0]


def living_channels(op: LayerOp, site: Site) -> Channels:
    """The reference's requantisation of a layer with its living weights."""
    return channels_with(op, site, living_weights(op, site))
