"""Calibration inputs of a network: few, since networks are built anew at every command."""

from __future__ import annotations

PIXELS = 2 * 224**2
"""Pixels of all calibration inputs together, about."""
MOST_SAMPLES = 16


def sample_count(resolution: int) -> int:
    """Calibration inputs that are worth their time on images of `resolution`.

    >>> sample_count(32), sample_count(128), sample_count(224)
    (16, 6, 2)
    """
    return max(1, min(MOST_SAMPLES, PIXELS // resolution**2))
