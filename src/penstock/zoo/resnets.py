"""Residual networks: ResNet-8, ResNet-50 and TC-ResNet8."""

from __future__ import annotations

from typing import ClassVar

from penstock.frontends.builder import GraphBuilder
from penstock.frozen import frozen
from penstock.ir.graph import Graph, Value
from penstock.zoo.network import MOST_SAMPLES, Network, begun, classified, option, scored

# Channels as a multiple of `width`, and stride. Source: MLPerf Tiny's `resnet_v1_eembc`.
RESNET8_STAGES = ((1, 1), (2, 2), (4, 2))


@frozen
class ResNet8(Network):
    """MLPerf Tiny's image classification: three residual stages, ReLU; width=40 is the larger IC02.

    Source: Banbury et al., MLPerf Tiny Benchmark, 2021, arXiv:2106.07597
    """

    NAME: ClassVar[str] = "resnet8"

    width: int = option(16, 1, 1024)
    resolution: int = option(32, 8, 512)
    classes: int = option(10, 2, 100_000)

    def graph(self) -> Graph:
        net, x = begun(self, self.resolution)
        x = net.conv2d(x, self.width, 3, activation="relu", name="conv")
        for k, (multiple, stride) in enumerate(RESNET8_STAGES, start=1):
            x = _stage(net, x, multiple * self.width, stride, f"stage{k}")
        x = net.global_average_pool(x, name="pool")
        x = net.reshape(x, (1, -1), name="flat")
        return scored(net, net.fully_connected(x, self.classes, name="logits"))


def _stage(net: GraphBuilder, x: Value, channels: int, stride: int, name: str) -> Value:
    """Two convolutions, added to x, or to a convolution of x where the shape changes."""
    y = net.conv2d(x, channels, 3, stride, activation="relu", name=f"{name}/conv1")
    y = net.conv2d(y, channels, 3, name=f"{name}/conv2")
    if stride > 1:
        x = net.conv2d(x, channels, 1, stride, name=f"{name}/shortcut")
    return net.add(x, y, activation="relu", name=f"{name}/add")


# ResNet-50: bottleneck blocks of three convolutions around a narrow tensor.


# Narrow channels, blocks, and stride of the first block. Source: table 1 of the paper.
RESNET50_STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
EXPANSION = 4
LEAST_CHANNELS = 8


@frozen
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
        net, x = begun(self, self.resolution)
        x = net.conv2d(x, self._scaled(64), 7, 2, activation="relu", name="conv1")
        x = net.max_pool2d(x, 3, 2, padding="same", name="pool1")
        for stage, (channels, blocks, first_stride) in enumerate(RESNET50_STAGES, start=2):
            for k in range(blocks):
                stride = first_stride if k == 0 else 1
                x = _bottleneck(net, x, self._scaled(channels), stride, f"conv{stage}_{k + 1}")
        return classified(net, x, self.classes)

    def _scaled(self, full: int) -> int:
        return max(LEAST_CHANNELS, int(full * self.alpha))


def _bottleneck(net: GraphBuilder, x: Value, channels: int, stride: int, name: str) -> Value:
    """Three convolutions, added to x, or to a convolution of x where the shape changes."""
    wide = EXPANSION * channels
    y = net.conv2d(x, channels, 1, activation="relu", name=f"{name}/reduce")
    y = net.conv2d(y, channels, 3, stride, activation="relu", name=f"{name}/conv")
    y = net.conv2d(y, wide, 1, name=f"{name}/expand")
    if stride > 1 or x.shape[3] != wide:
        x = net.conv2d(x, wide, 1, stride, name=f"{name}/shortcut")
    return net.add(x, y, activation="relu", name=f"{name}/add")


# TC-ResNet8: keyword spotting by convolutions along time alone.


COEFFICIENTS = 40  # MFCC coefficients of a frame, which are the channels of the input.
# Of the first convolution and of the three blocks. Source: figure 2 of the paper.
CHANNELS = (16, 24, 32, 48)


@frozen
class TCResNet8(Network):
    """Three residual blocks of windows over 9 frames, ReLU; each halves the frames.

    Rows are frames; there is one column.

    Source: Choi et al., Temporal Convolution for Real-time Keyword Spotting, 2019, arXiv:1904.03814
    """

    NAME: ClassVar[str] = "tc_resnet8"

    k: float = option(1.0, 0.25, 4.0)
    frames: int = option(101, 9, 2000)
    classes: int = option(12, 2, 100_000)

    def graph(self) -> Graph:
        net = GraphBuilder(self.NAME, self.seed, MOST_SAMPLES)
        first, *others = (int(self.k * channels) for channels in CHANNELS)
        x = net.input((1, self.frames, 1, COEFFICIENTS))
        x = net.conv2d(x, first, (3, 1), activation="relu", name="conv")
        for number, channels in enumerate(others, start=1):
            x = _temporal_block(net, x, channels, f"block{number}")
        x = net.global_average_pool(x, name="pool")
        x = net.reshape(x, (1, -1), name="flat")
        return scored(net, net.fully_connected(x, self.classes, name="logits"))


def _temporal_block(net: GraphBuilder, x: Value, channels: int, name: str) -> Value:
    """Two convolutions over 9 frames, the first with stride 2, added to the same frames of x."""
    y = net.conv2d(x, channels, (9, 1), (2, 1), activation="relu", name=f"{name}/conv1")
    y = net.conv2d(y, channels, (9, 1), name=f"{name}/conv2")
    x = net.conv2d(x, channels, 1, (2, 1), activation="relu", name=f"{name}/shortcut")
    return net.add(x, y, activation="relu", name=f"{name}/add")
