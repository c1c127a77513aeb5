"""Parses sizes with units, such as 64KiB, 64k, 1.5MiB and 65536."""

from __future__ import annotations

import re
from fractions import Fraction

from penstock.errors import UsageError

_UNITS = {"": 1, "b": 1, "k": 1024, "kib": 1024, "m": 1024**2, "mib": 1024**2, "g": 1024**3,
          "gib": 1024**3, "kb": 1000, "mb": 1000**2, "gb": 1000**3}  # fmt: skip
_WHY = (
    "a size is a number, 0 or greater, and a unit: B, KiB, MiB, GiB (or k, M, G), kB, MB, GB "
    "(powers of 1000), or none"
)


def parse_size(text: str) -> int:
    """The number of bytes that a text states; k, m and g are binary, kb, mb and gb decimal units.

    >>> parse_size("64KiB"), parse_size("64k"), parse_size("65536")
    (65536, 65536, 65536)
    >>> parse_size("1.5KiB")
    1536

    Raises UsageError for a text that is no size or not a whole number of bytes."""
    found = re.fullmatch(r"\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([a-z]*)\s*", text.lower())
    if not found or found[2] not in _UNITS:
        raise UsageError(
            "usage-001", f"{text!r} is not a size", why=_WHY, help="write 64KiB, 64k or 65536"
        )
    size = Fraction(found[1]) * _UNITS[found[2]]
    if size.denominator != 1:
        raise UsageError(
            "usage-001",
            f"{text!r} is {float(size):g} bytes, must be a whole number of bytes",
            help="write 64KiB, 64k or 65536",
        )
    return int(size)
