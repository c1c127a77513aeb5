"""Forms: requantisation that is proved channel by channel, for kernels that serve any layer.

Each channel has the six numbers of `runtime/certified.h`, whatever its neighbours have."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from penstock.backends.cortex_m.reach import Requantised, channels_of
from penstock.fixedpoint import Int64s, Rounding
from penstock.ir.op import Kernel, Op, Site, Table
from penstock.requantisation.certify import Lone, certify_each
from penstock.requantisation.channels import Channels
from penstock.requantisation.form import Class

NUMBERS = 6
"""Of a channel."""
_REFERENCE = {Rounding.DOUBLE: -1, Rounding.SINGLE: -2}
"""What stands for the bits of the fraction where the reference's arithmetic is needed."""


def forms_of(channels: Channels) -> tuple[str, Int64s]:
    """Class of each channel, a letter each, and its numbers (channels, NUMBERS)."""
    lone = certify_each(channels)
    rows = [_numbers(one, channels, c) for c, one in enumerate(lone)]
    classes = "".join(one.kind.value for one in lone)
    return classes, np.array(rows, np.int64).reshape(-1, NUMBERS)


def _numbers(lone: Lone, channels: Channels, channel: int) -> tuple[int, ...]:
    form = lone.form
    if form is None:
        multiplier, shift = int(channels.multiplier[channel]), int(channels.shift[channel])
        return _REFERENCE[channels.rounding], multiplier, shift, channels.zero, 0, 0
    constants = (form.offset, form.correction, form.factor, form.base)
    return form.fraction_bits, *(int(one[0]) for one in constants), form.shift


def with_forms(op: Op, site: Site, kernel: Kernel) -> Kernel:
    """The portable kernel of an operator with the cheapest requantisation that is proved, where
    its outputs are requantised channel by channel."""
    if not isinstance(op, Requantised):
        return kernel
    classes, forms = _forms(op, site)
    if set(classes) == {Class.D.value}:
        return replace(kernel, classes=classes)
    others = tuple((name, t) for name, t in kernel.tables if name not in ("multiplier", "shift"))
    return replace(kernel, tables=(*others, ("forms", form_table(forms))), classes=classes)


def form_table(forms: Int64s) -> Table:
    """Numbers of channels as a kernel reads them."""
    return Table.of(forms.astype(np.int32).ravel())


@lru_cache(maxsize=1024)
def _forms(op: Requantised, site: Site) -> tuple[str, Int64s]:
    return forms_of(channels_of(op, site))
