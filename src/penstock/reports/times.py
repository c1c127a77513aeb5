"""Cycles as time, at the clock of a target."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from penstock.reports.engine_work import CycleCounts
from penstock.reports.formats import ABSENT

Times = Mapping[str, float | None]
"""Figures by kind of cycles; None if the clock or the cycles are not known."""


def times(cycles: CycleCounts, clock_hz: int | None) -> dict[str, Times]:
    """Return the duration of an inference in milliseconds, and inferences per second, by kind of
    cycles.

    >>> times(CycleCounts(84_000, None), 168_000_000)["milliseconds"]
    {'estimated': 0.5, 'simulated': None}
    """
    kinds = dataclasses.asdict(cycles)
    seconds = {k: n / clock_hz if n and clock_hz else None for k, n in kinds.items()}
    return {
        "milliseconds": {k: s and round(1000 * s, 6) for k, s in seconds.items()},
        "inferences_per_second": {k: s and round(1 / s, 6) for k, s in seconds.items()},
    }


def duration(cycles: int, clock_hz: int | None) -> str:
    """Return the duration of an inference and inferences per second at a clock; empty if it is not
    known.

    >>> duration(4_823_148, 168_000_000), duration(0, 1_000), duration(1_000, None)
    ('28.7 ms at 168 MHz, 34.8 inferences/s', '', '')
    """
    if not clock_hz or not cycles:
        return ""
    rate = rounded(clock_hz / cycles)
    return f"{milliseconds(cycles, clock_hz)} ms at {clock_hz / 1e6:g} MHz, {rate} inferences/s"


def milliseconds(cycles: int | None, clock_hz: int) -> str:
    """Return cycles as milliseconds with three significant digits.

    >>> milliseconds(4_823_148, 168_000_000), milliseconds(2_000_000_000, 1_000_000)
    ('28.7', '2,000,000')
    """
    return ABSENT if cycles is None else rounded(1000 * cycles / clock_hz)


def rounded(value: float) -> str:
    """Return a number with three significant digits, or all digits before the decimal point.

    >>> rounded(0.012345), rounded(1234.5)
    ('0.0123', '1,234')
    """
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
