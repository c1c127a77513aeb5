"""Random numbers for constants that the graph builder does not draw itself."""

from __future__ import annotations

import zlib

from penstock.frontends.seeded_random import SeededRandom

STREAM = 2
"""The graph builder uses streams 0 and 1."""


def named_random(seed: int, name: str) -> SeededRandom:
    """The random source of a node, by its name."""
    return SeededRandom(seed, STREAM, zlib.crc32(name.encode()))
