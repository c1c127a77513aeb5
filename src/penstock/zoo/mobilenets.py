"""MobileNetV1 and MobileNetV2."""

from __future__ import annotations

from typing import ClassVar

from penstock.frontends.builder import GraphBuilder
from penstock.frozen import frozen
from penstock.ir.graph import Graph, Value
from penstock.zoo.network import Network, begun, choice, classified, option, scored

# Channels and stride of each block. Source: table 1 of the paper; its last stride of 2, on a map of
# 7 x 7 that stays 7 x 7, is taken as the misprint that it is.
BLOCKS = (
    *((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)),
    *((512, 1), (512, 1), (512, 1), (512, 1), (512, 1), (1024, 2), (1024, 1)),
)
LEAST_CHANNELS = 8  # Source: `min_depth` of the authors' implementation (tensorflow/models, slim).


@frozen
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
        net, x = begun(self, self.resolution, self.input_channels)
        x = net.conv2d(x, self._channels(32), 3, stride=2, activation="relu6", name="conv")
        for k, (channels, stride) in enumerate(BLOCKS, start=1):
            x = net.depthwise_conv2d(x, 3, stride, activation="relu6", name=f"block{k}/depthwise")
            name = f"block{k}/pointwise"
            x = net.conv2d(x, self._channels(channels), 1, activation="relu6", name=name)
        x = net.global_average_pool(x, name="pool")
        x = net.conv2d(x, self.classes, 1, name="logits")
        return scored(net, net.reshape(x, (1, self.classes), name="flat"))

    def _channels(self, full: int) -> int:
        return max(LEAST_CHANNELS, int(full * self.alpha))


# MobileNetV2: narrow tensors between, wide ones within inverted residual blocks.


# Expansion, channels, blocks, and stride of the first block. Source: table 2 of the paper.
STAGES = (
    *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
    *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
)
HEAD_CHANNELS = 1280
DIVISOR = 8


@frozen
class MobileNetV2(Network):
    """Inverted residual blocks with linear bottlenecks, ReLU6.

    Source: Sandler et al., MobileNetV2, 2018, arXiv:1801.04381
    """

    NAME: ClassVar[str] = "mobilenet_v2"

    alpha: float = option(1.0, 0.05, 2.0)
    resolution: int = option(224, 32, 512)
    classes: int = option(1000, 2, 100_000)

    def graph(self) -> Graph:
        net, x = begun(self, self.resolution)
        x = net.conv2d(x, rounded(32 * self.alpha), 3, 2, activation="relu6", name="conv")
        number = 0
        for expansion, channels, blocks, first_stride in STAGES:
            for k in range(blocks):
                number += 1
                width = rounded(channels * self.alpha)
                stride = first_stride if k == 0 else 1
                x = _block(net, x, width, expansion, stride, f"block{number}")
        head = rounded(HEAD_CHANNELS * max(1.0, self.alpha))
        x = net.conv2d(x, head, 1, activation="relu6", name="head")
        return classified(net, x, self.classes)


def rounded(channels: float) -> int:
    """The nearest multiple of 8, at least 8, and not below nine tenths of `channels`.

    Source: `_make_divisible` of the authors' implementation (tensorflow/models, slim)."""
    nearest = max(DIVISOR, int(channels + DIVISOR / 2) // DIVISOR * DIVISOR)
    return nearest + DIVISOR if nearest < 0.9 * channels else nearest


def _block(
    net: GraphBuilder, x: Value, channels: int, expansion: int, stride: int, name: str
) -> Value:
    """Expansion, depthwise convolution and projection, added to x if shapes match."""
    before, y = x.shape[3], x
    if expansion > 1:
        y = net.conv2d(y, before * expansion, 1, activation="relu6", name=f"{name}/expand")
    y = net.depthwise_conv2d(y, 3, stride, activation="relu6", name=f"{name}/depthwise")
    y = net.conv2d(y, channels, 1, name=f"{name}/project")
    return net.add(x, y, name=f"{name}/add") if (before, stride) == (channels, 1) else y
