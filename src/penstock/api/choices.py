"""Arguments that name one of several choices."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import UsageError, did_you_mean


def one_of(value: str, allowed: Sequence[str], option: str) -> str:
    """The value.  Raises UsageError if it is not allowed."""
    if value not in allowed:
        suggestion = did_you_mean(value, allowed) if isinstance(value, str) else ""  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(
            "usage-013",
            f"unknown value {value!r}",
            where=option,
            help=f"{suggestion}use one of {', '.join(allowed)}",
        )
    return value
