"""ResNet-50: bottleneck blocks of three convolutions around a narrow tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph, Value
from penstock.zoo.network import Network, option
from penstock.zoo.parts import sample_count

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Narrow channels, blocks, and stride of the first block.  Source: table 1 of the paper."""
EXPANSION = 4
LEAST_CHANNELS = 8


@dataclass(frozen=True, slots=True)
class ResNet50(Network):
    """Sixteen bottleneck blocks, with the stride in the 3 x 3 convolution (version 1.5), ReLU.

    `alpha` scales all widths, which the paper does not.

    Source: He et al., Deep Residual Learning, 2015, arXiv:1512.03385
    """

    NAME: ClassVar[str] = "resnet50"

    alpha: float = option(1.0, 0.05, 1.0)
    resolution: int = option(224, 32, 512)
    classes: int = option(1000, 2, 100_000)

    def graph(self) -> Graph:
        net = GraphBuilder(self.NAME, self.seed, sample_count(self.resolution))
        x = net.input((1, self.resolution, self.resolution, 3))
        x = net.conv2d(x, self._scaled(64), 7, 2, activation="relu", name="conv1")
        x = net.max_pool2d(x, 3, 2, padding="same", name="pool1")
        for stage, (channels, blocks, first_stride) in enumerate(STAGES, start=2):
            for k in range(blocks):
                stride = first_stride if k == 0 else 1
                x = _block(net, x, self._scaled(channels), stride, f"conv{stage}_{k + 1}")
        x = net.global_average_pool(x, name="pool")
        x = net.fully_connected(x, self.classes, name="logits")
        return net.build(net.softmax(x, name="scores"))

    def _scaled(self, full: int) -> int:
        """Number of channels, scaled by `alpha`."""
        return max(LEAST_CHANNELS, int(full * self.alpha))


def _block(net: GraphBuilder, x: Value, channels: int, stride: int, name: str) -> Value:
    """Three convolutions, added to x, or to a convolution of x where the shape changes."""
    wide = EXPANSION * channels
    y = net.conv2d(x, channels, 1, activation="relu", name=f"{name}/reduce")
    y = net.conv2d(y, channels, 3, stride, activation="relu", name=f"{name}/conv")
    y = net.conv2d(y, wide, 1, name=f"{name}/expand")
    if stride > 1 or x.type.shape[3] != wide:
        x = net.conv2d(x, wide, 1, stride, name=f"{name}/shortcut")
    return net.add(x, y, activation="relu", name=f"{name}/add")
