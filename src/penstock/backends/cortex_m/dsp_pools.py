"""Pooling on cores with the DSP extension."""

from __future__ import annotations

from penstock.backends.cortex_m.figures import cycles
from penstock.ir.op import Kernel, Site
from penstock.ops.average_pool2d import AveragePool2D
from penstock.ops.max_pool2d import MaxPool2D
from penstock.ops.window import Window

FAMILY = "dsp"
LEAST_CHANNELS = 8
MOST_TAPS = 256
"""So many elements add up in 16 bits."""


def pool_kernel(op: AveragePool2D | MaxPool2D, site: Site) -> Kernel:
    """Eight channels at a time; the portable kernel where they are fewer, windows are large or lie
    in the padding, or where it is faster."""
    portable, found = op.kernel(site), _in_eights(op, site)
    if found is not None and cycles(op, site, found, FAMILY) <= cycles(op, site, portable, FAMILY):
        return found
    return portable


def _in_eights(op: AveragePool2D | MaxPool2D, site: Site) -> Kernel | None:
    windows, x = (op.rows, op.columns), site.inputs[0].shape
    taps = op.rows.size * op.columns.size
    if x[3] < LEAST_CHANNELS or taps > MOST_TAPS or not all(map(_sees_inputs, windows)):
        return None
    return Kernel(
        "pool2d_s8_dsp",
        params=(*op.kernel(site).params, ("averages", int(isinstance(op, AveragePool2D)))),
        by_rows=True,
    )


def _sees_inputs(window: Window) -> bool:
    """Whether taps lie side by side, and wherever the window lies, some of them inside."""
    return window.dilation == 1 and max(window.before, window.after) < window.size
