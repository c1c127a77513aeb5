"""The rungs at which `verify` can end."""

from __future__ import annotations

from penstock.errors import UsageError, did_you_mean

LAST_RUNGS = ("reference", "machine", "host", "core")
"""Lowest first."""


def check_last_rung(name: str) -> str:
    """The name of a rung.  Raises UsageError if `verify` cannot end there."""
    if name not in LAST_RUNGS:
        raise UsageError(
            "usage-013",
            f"unknown value {name!r}",
            where="--last-rung",
            help=f"{did_you_mean(name, LAST_RUNGS)}use one of {', '.join(LAST_RUNGS)}",
        )
    return name
