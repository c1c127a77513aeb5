"""ResNet-8: three residual stages on small images, as in MLPerf Tiny."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph, Value
from penstock.zoo.network import Network, option
from penstock.zoo.parts import sample_count

STAGES = ((1, 1), (2, 2), (4, 2))
"""Channels as a multiple of `width`, and stride.  Source: MLPerf Tiny's `resnet_v1_eembc`."""


@dataclass(frozen=True, slots=True)
class ResNet8(Network):
    """MLPerf Tiny's image classification: three residual stages, ReLU; width=40 is the larger IC02.

    Source: Banbury et al., MLPerf Tiny Benchmark, 2021, arXiv:2106.07597
    """

    NAME: ClassVar[str] = "resnet8"

    width: int = option(16, 1, 1024)
    resolution: int = option(32, 8, 512)
    classes: int = option(10, 2, 100_000)

    def graph(self) -> Graph:
        net = GraphBuilder(self.NAME, self.seed, sample_count(self.resolution))
        x = net.input((1, self.resolution, self.resolution, 3))
        x = net.conv2d(x, self.width, 3, activation="relu", name="conv")
        for k, (multiple, stride) in enumerate(STAGES, start=1):
            x = _stage(net, x, multiple * self.width, stride, f"stage{k}")
        x = net.global_average_pool(x, name="pool")
        x = net.reshape(x, (1, -1), name="flat")
        x = net.fully_connected(x, self.classes, name="logits")
        return net.build(net.softmax(x, name="scores"))


def _stage(net: GraphBuilder, x: Value, channels: int, stride: int, name: str) -> Value:
    """Two convolutions, added to x, or to a convolution of x where the shape changes."""
    y = net.conv2d(x, channels, 3, stride, activation="relu", name=f"{name}/conv1")
    y = net.conv2d(y, channels, 3, name=f"{name}/conv2")
    if stride > 1:
        x = net.conv2d(x, channels, 1, stride, name=f"{name}/shortcut")
    return net.add(x, y, activation="relu", name=f"{name}/add")
