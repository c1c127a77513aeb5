"""Number of calibration inputs of a network; few, since every command rebuilds the network."""

from __future__ import annotations

PIXELS = 2 * 224**2
"""Approximate number of pixels of all calibration inputs."""
MOST_SAMPLES = 16


def sample_count(resolution: int) -> int:
    """Number of calibration inputs for images of `resolution`.

    >>> sample_count(32), sample_count(128), sample_count(224)
    (16, 6, 2)
    """
    return max(1, min(MOST_SAMPLES, PIXELS // resolution**2))
