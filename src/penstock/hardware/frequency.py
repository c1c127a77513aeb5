"""Parses frequencies with units, such as 168MHz, 1.5GHz and 32768."""

from __future__ import annotations

import re
from fractions import Fraction

from penstock.errors import UsageError

_UNITS = {"": 1, "hz": 1, "khz": 10**3, "mhz": 10**6, "ghz": 10**9}
_WHERE, _HELP = "clock", "write 168MHz, 1.5GHz or 168000000"


def parse_frequency(text: str) -> int:
    """The number of hertz that a text states.

    >>> parse_frequency("168MHz"), parse_frequency("1.5 GHz"), parse_frequency("32768")
    (168000000, 1500000000, 32768)

    Raises UsageError for a text that is no frequency, or not a whole number of hertz above 0."""
    found = re.fullmatch(r"\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([a-z]*)\s*", text.lower())
    if not found or found[2] not in _UNITS:
        raise UsageError(
            "usage-003",
            f"{text!r} is not a frequency",
            where=_WHERE,
            why="a frequency is a number and a unit: Hz, kHz, MHz, GHz, or none",
            help=_HELP,
        )
    frequency = Fraction(found[1]) * _UNITS[found[2]]
    if frequency.denominator != 1 or frequency == 0:
        raise UsageError(
            "usage-003",
            f"{text!r} is {float(frequency):g} Hz, must be a whole number of hertz above 0",
            where=_WHERE,
            help=_HELP,
        )
    return int(frequency)
