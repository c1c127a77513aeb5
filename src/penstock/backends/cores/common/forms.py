"""Requantisation forms that are chosen for each channel separately, mainly for portable kernels.

A form is the arithmetic that converts an accumulator to an output (`requantisation/form.py`).  The
form of a channel is encoded as six numbers that `runtime/certified.h` reads."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from penstock.backends.cores.common.accumulators import Requantised, reference_channels
from penstock.choices import Rounding
from penstock.fixedpoint import Int64s
from penstock.ir.op import Kernel, Op, Site, Table
from penstock.requantisation.certify import ChannelCertificate, certify_each
from penstock.requantisation.channels import Channels
from penstock.requantisation.form import Class

NUMBERS = 6
"""Numbers per channel in the table of forms."""
_REFERENCE = {Rounding.DOUBLE: -1, Rounding.SINGLE: -2}
"""First number of a channel without a proved form, which uses the arithmetic of the reference.

The first number of other channels is their number of fraction bits."""


def channel_forms(channels: Channels) -> tuple[str, Int64s]:
    """Return the cheapest requantisation form of each channel, as (classes, numbers).

    A form is integer arithmetic that is proved to yield the outputs of the reference runtime.

    classes: a letter per channel, from A (the cheapest arithmetic) to D (the arithmetic of the
        reference runtime).
    numbers: the numbers that encode the forms, with shape (channels, 6)."""
    lone = certify_each(channels)
    rows = [_numbers(one, channels, c) for c, one in enumerate(lone)]
    classes = "".join(one.kind.value for one in lone)
    return classes, np.array(rows, np.int64).reshape(-1, NUMBERS)


def _numbers(lone: ChannelCertificate, channels: Channels, channel: int) -> tuple[int, ...]:
    form = lone.form
    if form is None:
        multiplier, shift = int(channels.multiplier[channel]), int(channels.shift[channel])
        return _REFERENCE[channels.rounding], multiplier, shift, channels.zero, 0, 0
    constants = (form.offset, form.correction, form.factor, form.base)
    return form.fraction_bits, *(int(one[0]) for one in constants), form.shift


def with_forms(op: Op, site: Site, kernel: Kernel) -> Kernel:
    """Return a portable kernel with the cheapest bit-exact requantisation of each channel.

    The kernel's code stays the same.  Its tables of constants describe, for each channel, the
    cheapest integer arithmetic (form) that is proved to yield the outputs of the reference runtime.
    Kernels of operators that do not requantise per channel are returned unchanged."""
    if not isinstance(op, Requantised):
        return kernel
    classes, forms = certified_forms(op, site)
    if set(classes) == {Class.D.value}:
        return replace(kernel, classes=classes)
    others = tuple((name, t) for name, t in kernel.tables if name not in ("multiplier", "shift"))
    return replace(kernel, tables=(*others, ("forms", form_table(forms))), classes=classes)


def form_table(forms: Int64s) -> Table:
    """Return the table of requantisation forms that a kernel reads, as int32.

    forms: the six numbers that encode the form of each channel, with shape (channels, 6)."""
    return Table.of(forms.astype(np.int32).ravel())


@lru_cache(maxsize=1024)
def certified_forms(op: Requantised, site: Site) -> tuple[str, Int64s]:
    """Return (classes, numbers), the cheapest requantisation form of each output channel.

    classes: a letter per channel, from A (the cheapest arithmetic) to D (the arithmetic of the
        reference runtime).
    numbers: the encoded forms, of shape (channels, 6), from which a kernel's table is made
        (`form_table`)."""
    return channel_forms(reference_channels(op, site))
