"""The rungs at which `verify` can end."""

from __future__ import annotations

from penstock.api.choices import one_of

LAST_RUNGS = ("reference", "machine", "host", "core")
"""Lowest first."""


def check_last_rung(name: str) -> str:
    """The name of a rung.  Raises UsageError if `verify` cannot end there."""
    return one_of(name, LAST_RUNGS, "--last-rung")
