"""Frequencies with units, such as 168MHz, 1.5GHz and 32768."""

from __future__ import annotations

import re
from fractions import Fraction

from penstock.errors import UsageError

LARGEST_CLOCK_HZ = 10**11  # 100 GHz; no processor is faster.
SMALLEST_CLOCK_HZ = 1000  # 1 kHz; processors are faster, and smaller numbers lack their unit.
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


def parse_clock(clock: int | str, option: str) -> int:
    """Return the clock of a processor in hertz.

    Raises UsageError, which names the option, if it is malformed, too slow, or too fast."""
    try:
        found = parse_frequency(str(clock))
    except UsageError as error:
        raise error.but(where=option) from None
    if found > LARGEST_CLOCK_HZ:
        raise UsageError(
            "usage-003",
            f"'{clock}' is {found:g} Hz, must be at most {LARGEST_CLOCK_HZ:g} Hz",
            where=option,
            help=_HELP,
        )
    if found < SMALLEST_CLOCK_HZ:
        raise UsageError(
            "usage-003",
            f"'{clock}' is {found} Hz, must be at least 1 kHz",
            where=option,
            why="a number without a unit is in hertz",
            help=f"did you mean {found}MHz?",
        )
    return found


def frequency_text(frequency_hz: int) -> str:
    """Return a frequency as options state it.

    >>> frequency_text(84_500_000)
    '84.5MHz'
    """
    return f"{frequency_hz / 1e6:.6f}".rstrip("0").rstrip(".") + "MHz"
