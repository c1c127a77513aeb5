"""Roofline model: the default cost of an accelerator call.

Source: S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model
for multicore architectures", Communications of the ACM 52(4), 2009.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from penstock.backends.offloaded import Offloaded
from penstock.errors import BackendError
from penstock.hardware.target import Target

DEFAULT_MACS_PER_CYCLE = 1.0
ABOVE_0 = 1e-9  # Smallest valid value of parameters that must be positive.


@dataclass(frozen=True, slots=True)
class Roofline:
    """Cost model of a call: `cycles_per_call` plus the larger of compute time and memory time.

    Compute time is max(multiply-accumulates, other operations on elements) / `macs_per_cycle`.
    Memory time is (bytes of inputs, constants and output) / `bytes_per_cycle`."""

    macs_per_cycle: float
    bytes_per_cycle: float
    cycles_per_call: float

    @staticmethod
    def of(chip: Target) -> Roofline:
        """Return the default model for a chip.

        The model assumes one multiply-accumulate per cycle, and the bandwidth of the chip's memory
        for the arena, which holds the activations."""
        bandwidth = chip.memory_for("arena").bandwidth_bytes_per_cycle
        return Roofline(DEFAULT_MACS_PER_CYCLE, bandwidth, 0.0)

    def check(self, where: str) -> None:
        """Raise BackendError unless the parameters of the model are valid, finite numbers.

        `macs_per_cycle` and `bytes_per_cycle` must be above 0, and `cycles_per_call` at least 0."""
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
        """Return the cycles of a call that computes `rows` rows of the output."""
        work = offloaded.work(rows)
        operations = max(work.macs, work.elements)
        longest = max(
            operations / self.macs_per_cycle, offloaded.bytes(rows) / self.bytes_per_cycle
        )
        return longest + self.cycles_per_call


def is_figure(value: object, least: float) -> bool:
    """Return whether `value` is a finite number of at least `least`; Booleans are not numbers.

    >>> is_figure(0.5, 0), is_figure(float("nan"), 0), is_figure("8", 0), is_figure(True, 0)
    (True, False, False, False)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and value >= least
