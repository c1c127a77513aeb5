"""Roofline: what a call costs where an accelerator's author states nothing better.

Source: Williams, Waterman, Patterson, Roofline: an insightful visual performance model, 2009.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from penstock.backends.kernel_call import Offloaded
from penstock.errors import BackendError
from penstock.hardware.target import Target

DEFAULT_MACS_PER_CYCLE = 1.0
ABOVE_0 = 1e-9
"""The least figure where 0 would be none."""


@dataclass(frozen=True, slots=True)
class Roofline:
    """A call takes as long as its products, or as its bytes (inputs, constants, output), whichever
    is longer; and `cycles_per_call` to begin.  Where nothing is multiplied, elements count."""

    macs_per_cycle: float
    bytes_per_cycle: float
    cycles_per_call: float

    @staticmethod
    def of(chip: Target) -> Roofline:
        """The default: one product a cycle, and the bandwidth of the chip's memory."""
        bandwidth = chip.memory_for("arena").bandwidth_bytes_per_cycle
        return Roofline(DEFAULT_MACS_PER_CYCLE, bandwidth, 0.0)

    def check(self, where: str) -> None:
        """Raises BackendError where a figure is none."""
        figures = (
            ("macs_per_cycle", self.macs_per_cycle, ABOVE_0),
            ("bytes_per_cycle", self.bytes_per_cycle, ABOVE_0),
            ("cycles_per_call", self.cycles_per_call, 0),
        )
        for name, value, least in figures:
            if not is_figure(value, least):
                raise BackendError(
                    "backend-040",
                    f"{name} of the roofline is {value!r}, must be a number "
                    + ("above 0" if least else "of at least 0"),
                    where=where,
                    help="take it from the accelerator's data sheet, in units of its clock",
                )

    def cycles(self, offloaded: Offloaded, rows: int) -> float:
        """Cycles of a call that computes so many rows of the output."""
        work = offloaded.work(rows)
        operations = max(work.macs, work.elements)
        longest = max(
            operations / self.macs_per_cycle, offloaded.bytes(rows) / self.bytes_per_cycle
        )
        return longest + self.cycles_per_call


def is_figure(value: object, least: float) -> bool:
    """Whether a value is a finite number of at least that.

    >>> is_figure(0.5, 0), is_figure(float("nan"), 0), is_figure("8", 0), is_figure(True, 0)
    (True, False, False, False)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and value >= least
