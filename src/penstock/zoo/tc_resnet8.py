"""TC-ResNet8: keyword spotting by convolutions along time alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph, Value
from penstock.zoo.network import Network, option
from penstock.zoo.parts import MOST_SAMPLES

COEFFICIENTS = 40
"""MFCC coefficients of a frame, which are the channels of the input."""
CHANNELS = (16, 24, 32, 48)
"""Of the first convolution and of the three blocks.  Source: figure 2 of the paper."""


@dataclass(frozen=True, slots=True)
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
            x = _block(net, x, channels, f"block{number}")
        x = net.global_average_pool(x, name="pool")
        x = net.reshape(x, (1, -1), name="flat")
        x = net.fully_connected(x, self.classes, name="logits")
        return net.build(net.softmax(x, name="scores"))


def _block(net: GraphBuilder, x: Value, channels: int, name: str) -> Value:
    """Two convolutions over 9 frames, the first with stride 2, added to the same frames of x."""
    y = net.conv2d(x, channels, (9, 1), (2, 1), activation="relu", name=f"{name}/conv1")
    y = net.conv2d(y, channels, (9, 1), name=f"{name}/conv2")
    x = net.conv2d(x, channels, 1, (2, 1), activation="relu", name=f"{name}/shortcut")
    return net.add(x, y, activation="relu", name=f"{name}/add")
