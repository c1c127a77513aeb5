"""Progress callbacks that do nothing: the defaults of the API's functions."""

from __future__ import annotations


def ignore_stage(name: str) -> None:
    """Ignore the beginning of a stage."""


def ignore_progress(name: str, done: int = 0, of: int = 1) -> None:
    """Ignore the beginning of a stage, and its progress."""
