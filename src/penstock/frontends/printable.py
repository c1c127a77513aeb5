"""Printable: names in model files as they may be shown on a terminal and in C comments."""

from __future__ import annotations

MOST_NAME = 1000
"""Characters of a name that are kept."""


def printable(text: bytes | str | None) -> str:
    """A name without what a terminal would obey, cut where it is absurdly long."""
    decoded = text.decode("utf-8", "replace") if isinstance(text, bytes) else text or ""
    return "".join(c if c.isprintable() else "?" for c in decoded[:MOST_NAME])
