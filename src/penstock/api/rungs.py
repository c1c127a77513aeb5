"""The rungs at which `verify` can end."""

LAST_RUNGS = ("reference", "machine", "host", "core")
"""Lowest first."""
