"""CertifiedLayer: a convolution or matrix product whose requantisation is proved bit-exact.

A requantisation form is integer arithmetic that converts accumulators to outputs, faster than the
reference runtime (`requantisation/form.py`).  It is bit-exact for a channel if it yields the same
output as the reference runtime for every accumulator that can occur.

Constant channels are output channels that have the same value for every input; their weights are
replaced by zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, wraps

import numpy as np

from penstock.choices import Rounding
from penstock.fixedpoint import INT32_MAX, INT32_MIN, Int64s, wrap_int32
from penstock.frozen import frozen
from penstock.ir.element_types import INT8, INT8_LAYER, ElementTypes
from penstock.ir.op import Kernel, Op, Site, Table, members
from penstock.ir.tensor import Region, row_count
from penstock.opkit.layers import WIDE
from penstock.opkit.requantise import (
    Multipliers,
    SumRequantisation,
    form_table,
    reference_forms,
)
from penstock.opkit.sliding import Window
from penstock.ops.binary import Add, Sub
from penstock.ops.convolutions import Conv2D, DepthwiseConv2D
from penstock.ops.fully_connected import FullyConnected
from penstock.ops.pool import AveragePool2D
from penstock.ops.transpose_conv import TransposeConv
from penstock.requantisation.certify import Certificate, ChannelCertificate, certify, certify_each
from penstock.requantisation.form import (
    INPUTS,
    Booleans,
    Channels,
    Class,
    Form,
    reachable,
    weighted_sum,
)

# Accumulator ranges and reference requantisation of the output channels of a layer.


# Operators whose accumulators are a bias plus products of inputs and constant weights.
Weighted = Conv2D | DepthwiseConv2D | FullyConnected | TransposeConv
# Operators that requantise accumulators with constants for each output channel.
Requantised = Weighted | SumRequantisation


def reference_channels(op: Requantised, site: Site) -> Channels:
    """Return the multiplier and shift of each output channel, and the range of its accumulators."""
    # Multiplier and shift are the requantisation parameters of the reference runtime.
    if not isinstance(op, SumRequantisation):
        return reference_channels_with(op, site, weight_matrix(op, site))
    anything = ((INT32_MIN, INT32_MAX + 1),) * site.output.shape[-1]
    reach = np.array(op.reach or anything, np.int64)
    return _channels(op, site, op.multipliers, reach[:, 0], reach[:, 1])


def reference_channels_with(op: Weighted, site: Site, weights: Int64s) -> Channels:
    """Return the multiplier and shift of each output channel, and the range of its accumulators.

    weights: replace the operator's own weights; of shape (output channels, taps)."""
    # Multiplier and shift are the requantisation parameters of the reference runtime.
    #
    # The range holds for windows with padding, too: padding has the input's zero point as its
    # value, which is in the range of the inputs.
    x = site.x
    least, upper = x.dtype.lower - x.zero_point, x.dtype.upper - x.zero_point
    lower, above = reachable(weights, site.constant(2).astype(np.int64), least, upper)
    return _channels(op, site, op.multipliers(site), lower, above)


def weight_matrix(op: Weighted, site: Site) -> Int64s:
    """Return the constant weights as a matrix of shape (output channels, taps)."""
    # Taps are the elements of a window in row-major order.
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
        multipliers.rounding(
            op.rounding if isinstance(op, FullyConnected | SumRequantisation) else Rounding.DOUBLE
        ),
        np.array(multipliers.addends, np.int64) if multipliers.addends else None,
    )


# Requantisation forms that are chosen for each channel separately, mainly for portable kernels.
#
# A form is the arithmetic that converts an accumulator to an output (`requantisation/form.py`).
# The form of a channel is encoded as six numbers that `runtime/certified.h` reads.


NUMBERS = 6  # Numbers per channel in the table of forms.
_REQUANTISATION = ("multiplier", "shift", "forms")  # Tables of a kernel.


def channel_forms(channels: Channels) -> tuple[str, Int64s]:
    """Return the cheapest proved requantisation form of each channel: its letter, from A to D,
    and the numbers that encode it, of shape (channels, 6)."""
    lone = certify_each(channels)
    constants = (channels.multiplier, channels.shift, channels.addends)
    reference = reference_forms(*constants, channels.zero, channels.rounding)
    rows = [_numbers(one, own) for one, own in zip(lone, reference.tolist(), strict=True)]
    classes = "".join(one.kind.value for one in lone)
    return classes, np.array(rows, np.int64).reshape(-1, NUMBERS)


def _numbers(lone: ChannelCertificate, reference: list[int]) -> tuple[int, ...]:
    form = lone.form
    if form is None:
        return tuple(reference)
    constants = (form.offset, form.correction, form.factor, form.base)
    return form.fraction_bits, *(int(one[0]) for one in constants), form.shift


def with_forms(op: Op, site: Site, kernel: Kernel) -> Kernel:
    """Return a portable kernel with the cheapest bit-exact requantisation of each channel."""
    # The kernel's code stays the same.  Its tables of constants describe, for each channel, the
    # cheapest integer arithmetic (form) that is proved to yield the outputs of the reference
    # runtime.  Kernels of operators that do not requantise per channel are returned unchanged.
    if not isinstance(op, Requantised):
        return kernel
    if isinstance(op, LayerOp) and site.inputs[1].dtype is WIDE:
        return wide_kernel(op, site, np.arange(site.output.shape[-1]))
    classes, forms = certified_forms(op, site)
    if set(classes) == {Class.D.value}:
        return replace(kernel, classes=classes)
    others = tuple((name, t) for name, t in kernel.tables if name not in _REQUANTISATION)
    return replace(kernel, tables=(*others, ("forms", form_table(forms))), classes=classes)


def wide_kernel(op: LayerOp, site: Site, channels: Int64s) -> Kernel:
    """Return the kernel of some channels, whose weights may be wide (int16), with the cheapest
    bit-exact requantisation of each; its `classes` are those of these channels."""
    kernel = op.wide_kernel(site, channels)
    classes, forms = certified_forms(op, site)
    tables = {**dict(kernel.tables), "wide_forms": form_table(forms[channels])}
    letters = "".join(classes[channel] for channel in channels)
    return replace(kernel, tables=tuple(tables.items()), classes=letters)


@lru_cache(maxsize=1024)
def certified_forms(op: Requantised, site: Site) -> tuple[str, Int64s]:
    """Return the letters and the encoded forms of the output channels, as `channel_forms` does."""
    return channel_forms(reference_channels(op, site))


# Number of consecutive channels that share the base of their requantisation form.
CHANNELS_PER_BASE = 4
# Operators whose requantisation can be certified.
LayerOp = Conv2D | DepthwiseConv2D | FullyConnected


@frozen(eq=False)
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
        """The offset of each channel in the requantisation form, with the bias included."""
        # It is `form.offset` + (`bias` << `form.fraction_bits`), so that kernels need not add the
        # bias.  If it does not fit int32, it is stored modulo 2^32.
        # Kernels add the offset, modulo 2^32, to the sum of products, shifted like the bias.  The
        # total is proved to fit int32, so it is correct even if the offset alone does not fit.
        return wrap_int32((self.bias << self.form.fraction_bits) + self.form.offset)

    @property
    def shared_params(self) -> tuple[tuple[str, int], ...]:
        """Kernel parameters (name, value) of requantisation that are the same for all channels.

        is_signed: 1 if the form corrects negative accumulators, by subtracting a constant from
            each; otherwise 0."""
        form = self.form
        return members(least=self.least, most=self.most, shift=form.shift, is_signed=form.corrects)


def certified_layer(
    op: Op, site: Site, fraction_bits: int, order: Int64s, most_outside: int = 0
) -> CertifiedLayer | None:
    """Return an operator's weights and requantisation, in the channel order of a kernel.

    Returns None if more than `most_outside` channels need a form of their own, or if the operator
    is not a `LayerOp`.

    order: indices of the output channels to include, in the kernel's order.
    most_outside: the largest accepted number of channels that need a form of their own."""
    # The requantisation is proved bit-exact: it yields the outputs of the reference runtime.  All
    # channels have the same requantisation form (arithmetic from accumulator to output), except
    # those for which this form is not proved bit-exact; each of these has a form of its own.
    if not isinstance(op, LayerOp):
        return None
    found = certificate(op, site, fraction_bits, tuple(order.tolist()))
    outside = np.flatnonzero(found.outside)
    if len(outside) > most_outside:
        return None
    weights = variable_weights(op, site)[order]
    bias = site.constant(2).astype(np.int64)[order]
    bias = bias - site.x.zero_point * weights.sum(axis=1)
    kinds, forms = channel_forms(variable_channels(op, site).only(order[outside]))
    letters = {c: kind.value for c, kind in zip(order.tolist(), found.classes, strict=True)}
    letters |= dict(zip(order[outside].tolist(), kinds, strict=True))
    classes = "".join(letters[channel] for channel in sorted(letters))
    bounds = op.activation.bounds(site.output)
    return CertifiedLayer(weights, bias, found.form, *bounds, classes, outside, forms)


@lru_cache(maxsize=1024)
def certificate(op: LayerOp, site: Site, fraction_bits: int, order: tuple[int, ...]) -> Certificate:
    """Return 32-bit requantisation constants of a layer, and the channels that cannot use them.

    order: indices of the output channels to include, in the order in which the kernel computes
        them.  The order matters because each group of `CHANNELS_PER_BASE` consecutive channels
        has a single `base`, one of the constants."""
    # A channel can use the constants if they are proved to yield the same output as the reference
    # runtime for every accumulator that can occur.
    channels = variable_channels(op, site).only(np.array(order))
    return certify(channels, fraction_bits, CHANNELS_PER_BASE)


@lru_cache(maxsize=64)
def variable_weights(op: LayerOp, site: Site) -> Int64s:
    """Return the weights, of shape (channels, taps), with zeros for constant channels."""
    # A constant channel has the same output for every input.  The array is cached and therefore
    # read-only.
    weights = weight_matrix(op, site)
    weights[constant_outputs(op, site)[0]] = 0
    weights.setflags(write=False)
    return weights


@lru_cache(maxsize=64)
def constant_outputs(op: LayerOp, site: Site) -> tuple[Booleans, Int64s]:
    """Return (is constant, output value), two arrays with one element for each output channel."""
    # A constant channel has the same output for every input.  For any other channel, the output
    # value is a placeholder: the output for the smallest accumulator that can occur.
    channels = reference_channels(op, site)
    ends = channels.outputs(np.stack([channels.lower, channels.upper - 1], axis=1))
    # Where the reference's left shift overflows, equal outputs at both ends prove nothing.
    return channels.monotone & (ends[:, 0] == ends[:, 1]), ends[:, 0]


def variable_channels(op: LayerOp, site: Site) -> Channels:
    """Return the reference requantisation and the accumulator range of every output channel."""
    # A requantisation form is bit-exact if it equals the reference in this range.  The range of a
    # constant channel, whose output is the same for every input, is the bias alone, as if its
    # weights were zero.
    return reference_channels_with(op, site, variable_weights(op, site))


# Fully connected kernels in which each output has a requantisation form of its own.
#
# A requantisation form is arithmetic that converts an accumulator to an output.  Kernels with one
# form for all outputs need fewer cycles, but for some layers, no such form is proved bit-exact: the
# accumulators have too many bits, or some outputs need other constants.


def separate_forms_kernel(name: str, op: FullyConnected, site: Site, weights: Table) -> Kernel:
    """Return a fully connected kernel in which each output has a requantisation form of its own."""
    # It suits layers for which no single form is proved bit-exact for all outputs.
    classes, forms = certified_forms(op, site)
    matrix = weight_matrix(op, site)
    bias = site.constant(2).astype(np.int64) - site.x.zero_point * matrix.sum(axis=1)
    outputs, depth = matrix.shape
    least, most = op.activation.bounds(site.output)
    return Kernel(
        name,
        params=members(
            batches=math.prod(site.output.shape[:-1]),
            in_c=depth,
            out_c=outputs,
            least=least,
            most=most,
        ),
        tables=(
            ("weights", weights),
            ("bias", Table.of(bias.astype(np.int32))),
            ("forms", form_table(forms)),
        ),
        folded=(1, 2),
        classes=classes,
    )


# Kernel parameters that several core families use.


def inner_columns(window: Window, extent: int) -> tuple[tuple[str, int], ...]:
    """Return the parameters `inner_lower` and `inner_upper`: the half-open range of output
    columns (or rows) whose windows are entirely inside the input of `extent` columns."""
    lower = -(-window.before // window.stride)
    upper = (extent - window.extent + window.before) // window.stride + 1
    return ("inner_lower", lower), ("inner_upper", max(0, upper))


def sum_params(op: Add | Sub, site: Site) -> tuple[tuple[str, int], ...] | None:
    """Return the kernel parameters (name, value) with which an addition or subtraction is computed.

    The kernel computes (a * left + b * right + offset) >> shift for input elements a and b, and
    clamps the result.  Returns None if an input differs in shape from the output, or if no values
    of these constants yield the operator's outputs for all pairs of int8 elements."""
    shape = site.output.shape
    if any(x.shape != shape for x in site.inputs):
        return None
    found = weighted_pairs(op, site)
    least, most = op.activation.bounds(site.output)
    row = (("row_elements", math.prod(shape) // row_count(shape)),)
    return None if found is None else (*row, *found, ("least", least), ("most", most))


def weighted_pairs(op: Add | Sub, site: Site) -> tuple[tuple[str, int], ...] | None:
    """Return the constants of integer arithmetic that equals an addition or subtraction.

    The result contains the (name, value) pairs of `left`, `right`, `offset` and `shift`.  For input
    elements a and b, the output is (a * left + b * right + offset) >> shift, before clamping.
    Returns None if no constants yield the operator's outputs for all pairs of elements: of int8
    values or, if an input is constant, of its elements."""
    values = [
        INPUTS if constant is None else np.unique(site.constant(k))
        for k, constant in enumerate(site.constants)
    ]
    shape = len(values[0]), len(values[1])
    left, right, output = (type.with_shape(shape) for type in (*site.inputs, site.output))
    pairs = Site((left, right), output, (None, None))
    return _of_every_pair(op, pairs, tuple(values[0].tolist()), tuple(values[1].tolist()))


@lru_cache(maxsize=256)
def _of_every_pair(
    op: Add | Sub, site: Site, left: tuple[int, ...], right: tuple[int, ...]
) -> tuple[tuple[str, int], ...] | None:
    least, most = op.activation.bounds(site.output)
    scales = [x.scale / site.output.scale for x in site.inputs]
    inputs = np.array(left, np.int64), np.array(right, np.int64)
    a, b = (each.astype(np.int8) for each in np.meshgrid(*inputs, indexing="ij"))
    outputs = op.evaluate(site, (a, b), Region.whole(site.output.shape)).astype(np.int64)
    found = weighted_sum(inputs, outputs, scales[0], op.SIGN * scales[1], least, most)
    if found is None:
        return None
    return members(left=found.left, right=found.right, offset=found.offset, shift=found.shift)


# Restriction of functions that choose kernels to the element types that the kernels support.


# Returns a kernel for an operator, or None if there is none.
Choice = Callable[[Op, Site], Kernel | None]


INT8_OPERATORS: Mapping[type[Op], ElementTypes] = {
    Conv2D: INT8_LAYER,
    DepthwiseConv2D: INT8_LAYER,
    FullyConnected: INT8_LAYER,
    Add: INT8,
    Sub: INT8,
    AveragePool2D: INT8,
}
"""Operators of which all families with kernels have one, with its element types."""


def for_element_types(types: Mapping[type[Op], ElementTypes]) -> Callable[[Choice], Choice]:
    """Return a decorator that restricts a function that chooses kernels to some element types."""
    # The decorated function returns None ("no kernel of this family") for an operator that is not
    # in `types`, or whose inputs or output have other element types.

    def decorate(choose: Choice) -> Choice:
        @wraps(choose)
        def checked(op: Op, site: Site) -> Kernel | None:
            declared = types.get(type(op))
            if declared is None or declared.mismatch(site):
                return None
            return choose(op, site)

        return checked

    return decorate
