"""Calls that meet what can be wrong with what NVDLA is asked for."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from penstock.accelerators.nvdla.configurations import configuration
from penstock.accelerators.nvdla.sheet import (
    GOOGLENET,
    Hardware,
    Kind,
    SheetLayer,
    Window,
    figures_of,
)


def sheet_layer(rows: int = 8) -> SheetLayer:
    """A layer of a performance sheet, 3x3 over some rows of 8 columns."""
    return SheetLayer("conv1", Kind.CONVOLUTION, 16, rows, 8, 8, Window(3, 3, 1, 1), False)


TIGHT = Hardware(1, 1, Fraction(1, 4), 64, Fraction(1000), Fraction(1), 1)

WRONG_NVDLA: dict[str, Callable[[], object]] = {
    "nvdla-001": lambda: sheet_layer(rows=2),
    "nvdla-002": lambda: figures_of((sheet_layer(),), TIGHT, GOOGLENET),
    "usage-040": lambda: configuration("tiny"),
}
"""By code, the call that meets it."""
