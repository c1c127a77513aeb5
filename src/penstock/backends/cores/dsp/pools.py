"""Average and maximum pooling on DSP cores."""

from __future__ import annotations

from penstock.backends.cores.dsp.cycle_model import DSP_CYCLES
from penstock.ir.op import Kernel, Op, Site
from penstock.ops.average_pool2d import AveragePool2D
from penstock.ops.max_pool2d import MaxPool2D

LEAST_CHANNELS = 8
MOST_TAPS = 256
"""Largest number of taps: the sum of that many int8 elements fits 16 bits."""


def pool_kernel(op: AveragePool2D | MaxPool2D, site: Site) -> Kernel:
    """Return the faster of the DSP kernel and the portable kernel.

    The DSP kernel computes eight channels at a time.  It does not support layers with fewer than
    eight channels, with large windows, or with windows that are entirely in the padding."""
    portable, found = op.kernel(site), _in_eights(op, site)
    if found is not None and DSP_CYCLES.cycles(op, site, found) <= DSP_CYCLES.cycles(
        op, site, portable
    ):
        return found
    return portable


def unmet_condition(op: Op, site: Site) -> str:
    """Return a condition of the DSP kernel that a pooling layer does not meet, for messages.

    Returns "" if the layer meets all conditions, and for operators other than pooling."""
    if not isinstance(op, AveragePool2D | MaxPool2D):
        return ""
    if site.inputs[0].shape[3] < LEAST_CHANNELS:
        return f"at least {LEAST_CHANNELS} channels"
    if op.rows.size * op.columns.size > MOST_TAPS:
        return f"windows of at most {MOST_TAPS} elements"
    _, height, width, _ = site.inputs[0].shape
    if not (op.rows.always_meets(height) and op.columns.always_meets(width)):
        return "windows of which none is entirely in the padding"
    return ""


def _in_eights(op: AveragePool2D | MaxPool2D, site: Site) -> Kernel | None:
    if unmet_condition(op, site):
        return None
    return Kernel(
        "pool2d_s8_dsp",
        params=(*op.kernel(site).params, ("averages", int(isinstance(op, AveragePool2D)))),
        by_rows=True,
    )
