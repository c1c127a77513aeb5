"""CertifiedLayer: a convolution or matrix product whose requantisation is proved bit-exact.

A requantisation form is integer arithmetic that converts accumulators to outputs, faster than the
reference runtime (`requantisation/form.py`).  It is bit-exact for a channel if it yields the same
output as the reference runtime for every accumulator that can occur.

Constant channels are output channels that have the same value for every input; their weights are
replaced by zeros.
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
"""Number of consecutive channels that share the base of their requantisation form."""
LayerOp = Conv2D | DepthwiseConv2D | FullyConnected
"""Operators whose requantisation can be certified."""


@dataclass(frozen=True, slots=True, eq=False)
class CertifiedLayer:
    """A layer whose requantisation is proved bit-exact, with its output channels in the order in
    which a kernel computes them ("the kernel's channel order").

    A requantisation form is integer arithmetic that converts accumulators to outputs.  One form
    serves all channels, except those listed in `outside`.

    weights        (channels, taps), in the kernel's channel order
    bias           (channels,), including the correction for the input's zero point: an accumulator
                   is the bias plus the products of weights and stored inputs
    form           the shared requantisation form
    least, most    inclusive bounds of the output values (fused activation)
    classes        one letter per channel, in the operator's order: its requantisation class, from A
                   (the cheapest arithmetic) to D (the arithmetic of the reference runtime)
    outside        indices, in the kernel's channel order, of channels with a form of their own
    forms          (channels in `outside`, 6): the numbers that encode each of these forms
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
        """The offset of each channel in the requantisation form, with the bias included.

        It is `form.offset` + (`bias` << `form.fraction_bits`), so that kernels need not add the
        bias.  If it does not fit int32, it is stored modulo 2^32."""
        # Kernels add the offset, modulo 2^32, to the sum of products, shifted like the bias.  The
        # total is proved to fit int32, so it is correct even if the offset alone does not fit.
        return wrap_int32((self.bias << self.form.fraction_bits) + self.form.offset)

    @property
    def shared_params(self) -> tuple[tuple[str, int], ...]:
        """Kernel parameters (name, value) of requantisation that are the same for all channels.

        least, most: inclusive bounds of the outputs.
        shift: the right shift of the requantisation form.
        is_signed: 1 if the form corrects negative accumulators, by subtracting a constant from
            each; otherwise 0."""
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
    """Return an operator's weights and requantisation, in the channel order of a kernel.

    The requantisation is proved bit-exact: it yields the outputs of the reference runtime.  All
    channels have the same requantisation form (arithmetic from accumulator to output), except those
    for which this form is not proved bit-exact; each of these has a form of its own.

    fraction_bits: number of bits by which requantisation shifts accumulators to the left.
    order: indices of the output channels to include, in the kernel's order.
    most_outside: the largest accepted number of channels that need a form of their own.

    Returns None if more than `most_outside` channels need a form of their own, or if the operator
    is not a `LayerOp`."""
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
    """Return 32-bit requantisation constants of a layer, and the channels that cannot use them.

    A channel can use the constants if they are proved to yield the same output as the reference
    runtime for every accumulator that can occur.

    fraction_bits: number of bits by which requantisation shifts accumulators to the left.
    order: indices of the output channels to include, in the order in which the kernel computes
        them.  The order matters because each group of `CHANNELS_PER_BASE` consecutive channels
        has a single `base`, one of the constants."""
    channels = variable_channels(op, site).only(np.array(order))
    return certify(channels, fraction_bits, CHANNELS_PER_BASE)


@lru_cache(maxsize=64)
def variable_weights(op: LayerOp, site: Site) -> Int64s:
    """Return the weights, of shape (channels, taps), with zeros for constant channels.

    A constant channel has the same output for every input.  The array is cached and therefore
    read-only."""
    weights = weight_matrix(op, site)
    weights[constant_outputs(op, site)[0]] = 0
    weights.setflags(write=False)
    return weights


@lru_cache(maxsize=64)
def constant_outputs(op: LayerOp, site: Site) -> tuple[Booleans, Int64s]:
    """Return (is constant, output value), two arrays with one element for each output channel.

    A constant channel has the same output for every input.  For any other channel, the output value
    is a placeholder: the output for the smallest accumulator that can occur."""
    channels = reference_channels(op, site)
    ends = channels.outputs(np.stack([channels.lower, channels.upper - 1], axis=1))
    # Where the reference's left shift overflows, equal outputs at both ends prove nothing.
    return channels.monotone & (ends[:, 0] == ends[:, 1]), ends[:, 0]


def variable_channels(op: LayerOp, site: Site) -> Channels:
    """Return the reference requantisation and the accumulator range of every output channel.

    A requantisation form is bit-exact if it equals the reference in this range.  The range of a
    constant channel, whose output is the same for every input, is the bias alone, as if its weights
    were zero."""
    return reference_channels_with(op, site, variable_weights(op, site))
