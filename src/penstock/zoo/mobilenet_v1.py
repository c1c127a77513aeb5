"""MobileNetV1: depthwise and pointwise convolutions in turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph
from penstock.zoo.network import Network, choice, option
from penstock.zoo.parts import sample_count

BLOCKS = (
    *((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)),
    *((512, 1), (512, 1), (512, 1), (512, 1), (512, 1), (1024, 2), (1024, 1)),
)
"""Channels and stride of each block.  Source: table 1 of the paper; its last stride of 2, on a map
of 7 x 7 that stays 7 x 7, is taken as the misprint that it is."""
LEAST_CHANNELS = 8
"""Source: `min_depth` of the authors' implementation (tensorflow/models, slim)."""


@dataclass(frozen=True, slots=True)
class MobileNetV1(Network):
    """Depthwise separable convolutions, ReLU6.

    Source: Howard et al., MobileNets, 2017, arXiv:1704.04861
    """

    NAME: ClassVar[str] = "mobilenet_v1"

    alpha: float = option(1.0, 0.05, 2.0)
    resolution: int = option(224, 32, 512)
    classes: int = option(1000, 2, 100_000)
    input_channels: int = choice(3, 1)

    def graph(self) -> Graph:
        net = GraphBuilder(self.NAME, self.seed, sample_count(self.resolution))
        x = net.input((1, self.resolution, self.resolution, self.input_channels))
        x = net.conv2d(x, self._channels(32), 3, stride=2, activation="relu6", name="conv")
        for k, (channels, stride) in enumerate(BLOCKS, start=1):
            x = net.depthwise_conv2d(x, 3, stride, activation="relu6", name=f"block{k}/depthwise")
            name = f"block{k}/pointwise"
            x = net.conv2d(x, self._channels(channels), 1, activation="relu6", name=name)
        x = net.global_average_pool(x, name="pool")
        x = net.conv2d(x, self.classes, 1, name="logits")
        x = net.reshape(x, (1, self.classes), name="flat")
        return net.build(net.softmax(x, name="scores"))

    def _channels(self, full: int) -> int:
        return max(LEAST_CHANNELS, int(full * self.alpha))
