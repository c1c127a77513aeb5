"""Patterns: sub-graphs that an accelerator takes."""

from __future__ import annotations


class Pattern:
    """A pattern of nodes."""
