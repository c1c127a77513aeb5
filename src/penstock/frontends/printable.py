"""Names in model files, made safe for terminals and C comments."""

from __future__ import annotations

MOST_NAME = 1000
"""Names are truncated to this many characters."""


def printable(text: bytes | str | None) -> str:
    """The name with control characters replaced by "?", truncated to `MOST_NAME` characters."""
    decoded = text.decode("utf-8", "replace") if isinstance(text, bytes) else text or ""
    return "".join(c if c.isprintable() else "?" for c in decoded[:MOST_NAME])
