"""Pooling on cores with the DSP extension."""

from __future__ import annotations

from dataclasses import replace

from penstock.backends.cortex_m import cycles
from penstock.ir.op import Kernel, Site
from penstock.ops.average_pool2d import AveragePool2D
from penstock.ops.max_pool2d import MaxPool2D
from penstock.ops.window import Window

LEAST_CHANNELS = 8
MOST_TAPS = 256
"""So many elements add up in 16 bits."""


def pool_kernel(op: AveragePool2D | MaxPool2D, site: Site) -> Kernel:
    """Eight channels at a time; the portable kernel where they are fewer, windows are large or lie
    in the padding, or so small that a compiler does better."""
    averages, taps = isinstance(op, AveragePool2D), op.rows.size * op.columns.size
    if (found := _in_eights(op, site, averages=averages)) is not None:
        least = cycles.of_unrolled_pool(site.output.elements, taps, averages=averages)
        if (found.work_cycles or 0) < least:
            return found
    estimate = cycles.of_portable_average if averages else cycles.of_portable_max
    size = (op.rows.size, op.columns.size)
    return replace(op.kernel(site), work_cycles=estimate(site.output.elements, size))


def _in_eights(op: AveragePool2D | MaxPool2D, site: Site, *, averages: bool) -> Kernel | None:
    windows, x = (op.rows, op.columns), site.inputs[0].shape
    taps = op.rows.size * op.columns.size
    if x[3] < LEAST_CHANNELS or taps > MOST_TAPS or not all(map(_sees_inputs, windows)):
        return None
    rows, columns = (_taps_inside(w, size) for w, size in zip(windows, x[1:3], strict=True))
    return Kernel(
        "pool2d_s8_dsp",
        params=(*op.kernel(site).params, ("averages", int(averages))),
        by_rows=True,
        work_cycles=cycles.of_pool(site.output.shape, rows, columns, averages=averages),
        call_cycles=cycles.CALL,
    )


def _sees_inputs(window: Window) -> bool:
    """Whether taps lie side by side, and wherever the window lies, some of them inside."""
    return window.dilation == 1 and max(window.before, window.after) < window.size


def _taps_inside(window: Window, extent: int) -> int:
    """Taps that lie inside, of all outputs' windows."""
    seen = (window.needs((k, k + 1), extent) for k in range(window.outputs(extent)))
    return sum(upper - lower for lower, upper in seen)
