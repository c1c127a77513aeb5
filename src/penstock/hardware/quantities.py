"""Sizes with units, such as 64KiB, 64kB, 64k, 1.5MiB and 65536, and clock frequencies."""

from __future__ import annotations

import re
from fractions import Fraction

from penstock.errors import UsageError

Size = int | str  # A number of bytes, or a text such as "64KiB".

_UNITS = {
    prefix + suffix: 1024**power
    for power, prefix in enumerate(("", "k", "m", "g"))
    for suffix in ("", "b", "ib")
    if prefix or suffix != "ib"
}
_WHY = (
    "a size is a number, 0 or greater, and a unit: KiB, MiB, GiB (kB, MB, GB and k, M, G mean the "
    "same: powers of 1024), B, or none"
)
_HELP = "write 64KiB or 65536"


def parse_size(text: str) -> int:
    """The number of bytes that a text states. All units are powers of 1024, as in data sheets of
    microcontrollers; letters may have either case.

    >>> {parse_size(text) for text in ("64KiB", "64kB", "64 K", "64k", "65536B", "65536")}
    {65536}
    >>> parse_size("1.5KiB")
    1536

    Raises UsageError for a text that is no size or not a whole number of bytes."""
    found = re.fullmatch(r"\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([a-z]*)\s*", text.lower())
    if not found or found[2] not in _UNITS:
        raise UsageError("usage-001", f"{text!r} is not a size", why=_WHY, help=_HELP)
    size = Fraction(found[1]) * _UNITS[found[2]]
    if size.denominator != 1:
        raise UsageError(
            "usage-001",
            f"{text!r} is {float(size):g} bytes, must be a whole number of bytes",
            help=_HELP,
        )
    return int(size)


def size_bytes(size: Size, option: str) -> int:
    """Return a size in bytes.  Raises UsageError, which names the option, if it is malformed or
    negative."""
    if isinstance(size, int) and size >= 0:
        return size
    try:
        return parse_size(str(size))
    except UsageError as error:
        raise error.at(option) from None


def size_text(size_bytes: int) -> str:
    """Return a size in the largest unit of which it is a multiple.

    >>> size_text(2**29), size_text(1536), size_text(1000)
    ('512MiB', '1536', '1000')
    """
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size_bytes >= size and size_bytes % size == 0:
            return f"{size_bytes // size}{unit}"
    return str(size_bytes)


# Frequencies with units, such as 168MHz, 1.5GHz and 32768.


LARGEST_CLOCK_HZ = 10**11  # 100 GHz; no processor is faster.
SMALLEST_CLOCK_HZ = 1000  # 1 kHz; processors are faster, and smaller numbers lack their unit.
_FREQUENCY_UNITS = {"": 1, "hz": 1, "khz": 10**3, "mhz": 10**6, "ghz": 10**9}
_WHERE, _FREQUENCY_HELP = "clock", "write 168MHz, 1.5GHz or 168000000"


def parse_frequency(text: str) -> int:
    """The number of hertz that a text states.

    >>> parse_frequency("168MHz"), parse_frequency("1.5 GHz"), parse_frequency("32768")
    (168000000, 1500000000, 32768)

    Raises UsageError for a text that is no frequency, or not a whole number of hertz above 0."""
    found = re.fullmatch(r"\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([a-z]*)\s*", text.lower())
    if not found or found[2] not in _FREQUENCY_UNITS:
        raise UsageError(
            "usage-003",
            f"{text!r} is not a frequency",
            where=_WHERE,
            why="a frequency is a number and a unit: Hz, kHz, MHz, GHz, or none",
            help=_FREQUENCY_HELP,
        )
    frequency = Fraction(found[1]) * _FREQUENCY_UNITS[found[2]]
    if frequency.denominator != 1 or frequency == 0:
        raise UsageError(
            "usage-003",
            f"{text!r} is {float(frequency):g} Hz, must be a whole number of hertz above 0",
            where=_WHERE,
            help=_FREQUENCY_HELP,
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
            help=_FREQUENCY_HELP,
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
