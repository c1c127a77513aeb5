"""What several networks of the zoo share: numbers of samples, random numbers by name, ReLUs."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

from penstock.frontends.builder import GraphBuilder
from penstock.frontends.seeded_random import SeededRandom
from penstock.ir.graph import Value
from penstock.ops.relu import Relu

PIXELS = 2 * 224**2
"""Approximate number of pixels of all calibration inputs."""
MOST_SAMPLES = 16
STREAM = 2
"""Of random numbers; the graph builder uses streams 0 and 1."""


def sample_count(resolution: int) -> int:
    """Number of calibration inputs for images of `resolution`; few, since every command rebuilds
    the network.

    >>> sample_count(32), sample_count(128), sample_count(224)
    (16, 6, 2)
    """
    return max(1, min(MOST_SAMPLES, PIXELS // resolution**2))


def named_random(seed: int, name: str) -> SeededRandom:
    """The random source of a node by its name, for constants that the graph builder does not draw
    itself."""
    return SeededRandom(seed, STREAM, zlib.crc32(name.encode()))


@dataclass(frozen=True, slots=True)
class SharedRelu:
    """ReLUs before convolutions; all readers of a tensor share one.

    found: the ReLUs added so far, by the name of their input.
    """

    net: GraphBuilder
    found: dict[str, Value] = field(default_factory=dict[str, Value])

    def __call__(self, x: Value) -> Value:
        """The ReLU of x, which is added on the first call."""
        if x.name not in self.found:
            self.found[x.name] = self.net.apply(Relu(), x, name=f"{x.name}/relu")
        return self.found[x.name]
