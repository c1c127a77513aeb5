"""VGG16: plain 3 x 3 convolutions, halved by max pooling, and three dense layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph
from penstock.zoo.network import Network, option
from penstock.zoo.parts import sample_count

STAGES = ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))
"""Convolutions and their channels.  Source: table 1 of the paper, configuration D."""
DENSE_OUTPUTS = 4096
LEAST_CHANNELS = 8


@dataclass(frozen=True, slots=True)
class VGG16(Network):
    """Thirteen 3 x 3 convolutions and three dense layers, ReLU.

    `alpha` scales all widths, which the paper does not.

    Source: Simonyan and Zisserman, Very Deep Convolutional Networks, 2014, arXiv:1409.1556
    """

    NAME: ClassVar[str] = "vgg16"

    alpha: float = option(1.0, 0.05, 1.0)
    resolution: int = option(224, 32, 512)
    classes: int = option(1000, 2, 100_000)

    def graph(self) -> Graph:
        net = GraphBuilder(self.NAME, self.seed, sample_count(4 * self.resolution))
        x = net.input((1, self.resolution, self.resolution, 3))
        for stage, (count, channels) in enumerate(STAGES, start=1):
            for k in range(1, count + 1):
                name = f"conv{stage}_{k}"
                x = net.conv2d(x, self._scaled(channels), 3, activation="relu", name=name)
            x = net.max_pool2d(x, 2, name=f"pool{stage}")
        for name in ("dense1", "dense2"):
            x = net.fully_connected(x, self._scaled(DENSE_OUTPUTS), activation="relu", name=name)
        x = net.fully_connected(x, self.classes, name="logits")
        return net.build(net.softmax(x, name="scores"))

    def _scaled(self, full: int) -> int:
        """Number of channels or outputs, scaled by `alpha`."""
        return max(LEAST_CHANNELS, int(full * self.alpha))
