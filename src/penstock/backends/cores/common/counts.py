"""What the counts of portable and of special kernels have in common."""

from __future__ import annotations

from collections.abc import Mapping

Counts = Mapping[str, float]
"""How often each section of a kernel runs, by the section's name."""
Params = Mapping[str, int]
"""Parameters of a kernel by name (`Kernel.params`)."""


def taps_inside(
    extent: int, outputs: int, taps: int, stride: int, before: int, dilation: int
) -> int:
    """Return the number of taps that are inside an input axis, summed over all outputs along it.

    The axis has `extent` elements and is preceded by `before` elements of padding.  Each of the
    `outputs` windows has `taps` taps, `dilation` apart; windows are `stride` apart.

    >>> taps_inside(extent=4, outputs=4, taps=3, stride=1, before=1, dilation=1)
    10
    """
    return sum(
        0 <= k * stride - before + tap * dilation < extent
        for k in range(outputs)
        for tap in range(taps)
    )
