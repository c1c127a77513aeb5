"""CertifiedLayer: weights, biases and proven requantisation of a convolution or matrix product.

Output channels whose value is the same for every input (constant channels) get zero weights; the
others are called variable channels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from penstock.backends.cores.common.accumulators import (
    reference_channels,
    reference_channels_with,
    weight_matrix,
)
from penstock.backends.cores.common.forms import channel_forms
from penstock.fixedpoint import Int64s, wrap_int32
from penstock.ir.op import Op, Site
from penstock.ops.conv2d import Conv2D
from penstock.ops.depthwise_conv2d import DepthwiseConv2D
from penstock.ops.fully_connected import FullyConnected
from penstock.requantisation.certify import Certificate, certify
from penstock.requantisation.channels import Booleans, Channels
from penstock.requantisation.form import Form

CHANNELS_PER_BASE = 4
"""Consecutive channels that share the base of their requantisation form."""
LayerOp = Conv2D | DepthwiseConv2D | FullyConnected


@dataclass(frozen=True, slots=True, eq=False)
class CertifiedLayer:
    """A layer in the channel order of a kernel, with one requantisation form for all channels but
    those listed as `outside`.

    weights        (channels, taps), in the kernel's order
    bias           (channels,): added to the dot product of weights and stored inputs, so it
                   contains the correction for the input's zero point
    form           requantisation form of the channels that are not outside
    least, most    bounds of the output values (fused activation)
    classes        requantisation class of each channel, a letter each, in the operator's order
    outside        positions, in the kernel's order, of channels that need a form of their own
    forms          (outside channels, NUMBERS): the forms of those
    """

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
        """Biases at the precision of the form, wrapped to int32: only the sum of bias and products
        is guaranteed to fit."""
        return wrap_int32((self.bias << self.form.fraction_bits) + self.form.offset)

    @property
    def clamps(self) -> tuple[tuple[str, int], ...]:
        """Kernel parameters of the requantisation that all channels share."""
        form = self.form
        return (
            ("least", self.least),
            ("most", self.most),
            ("shift", form.shift),
            ("is_signed", int(form.corrects)),
        )


def certified_layer(
    op: Op, site: Site, fraction_bits: int, order: Int64s, most_outside: int = 0
) -> CertifiedLayer | None:
    """The layer of a node with proven requantisation, its output channels in `order`.

    Sums have `fraction_bits` extra bits; each `CHANNELS_PER_BASE` channels share a base.  Returns
    None if the operator is no layer, or if more than `most_outside` channels need a form of their
    own."""
    if not isinstance(op, LayerOp):
        return None
    found = certificate(op, site, fraction_bits, tuple(order.tolist()))
    outside = np.flatnonzero(found.outside)
    if len(outside) > most_outside:
        return None
    weights = variable_weights(op, site)[order]
    bias = site.constant(2).astype(np.int64)[order]
    bias = bias - site.inputs[0].zero_point * weights.sum(axis=1)
    kinds, forms = channel_forms(variable_channels(op, site).only(order[outside]))
    letters = {c: kind.value for c, kind in zip(order.tolist(), found.classes, strict=True)}
    letters |= dict(zip(order[outside].tolist(), kinds, strict=True))
    classes = "".join(letters[channel] for channel in sorted(letters))
    bounds = op.activation.bounds(site.output)
    return CertifiedLayer(weights, bias, found.form, *bounds, classes, outside, forms)


@lru_cache(maxsize=1024)
def certificate(op: LayerOp, site: Site, fraction_bits: int, order: tuple[int, ...]) -> Certificate:
    """The proof that one requantisation form is exact, and the channels that it excludes."""
    channels = variable_channels(op, site).only(np.array(order))
    return certify(channels, fraction_bits, CHANNELS_PER_BASE)


@lru_cache(maxsize=64)
def variable_weights(op: LayerOp, site: Site) -> Int64s:
    """Weights (channels, taps), zero in constant channels; read-only."""
    weights = weight_matrix(op, site)
    weights[constant_outputs(op, site)[0]] = 0
    weights.setflags(write=False)
    return weights


@lru_cache(maxsize=64)
def constant_outputs(op: LayerOp, site: Site) -> tuple[Booleans, Int64s]:
    """Whether each channel is constant, and an output value that each channel can have."""
    channels = reference_channels(op, site)
    ends = channels.outputs(np.stack([channels.lower, channels.upper - 1], axis=1))
    return ends[:, 0] == ends[:, 1], ends[:, 0]


def variable_channels(op: LayerOp, site: Site) -> Channels:
    """The reference's requantisation of a layer whose constant channels have zero weights."""
    return reference_channels_with(op, site, variable_weights(op, site))
