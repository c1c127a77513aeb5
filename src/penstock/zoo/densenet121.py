"""DenseNet-121: each layer reads the outputs of all earlier layers of its block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph, Value
from penstock.ir.tensor import Quantisation
from penstock.opkit.activation import Activation
from penstock.ops.concatenation import Concatenation
from penstock.zoo.batch_norm import batch_norm
from penstock.zoo.network import Network, option
from penstock.zoo.samples import sample_count

BLOCKS = (6, 12, 24, 16)
"""Layers of the dense blocks.  Source: table 1 of the paper, as are growth and bottleneck."""
GROWTH = 32
BOTTLENECK = 4
FEATURES = Quantisation((1 / 16,), (0,))
"""Of all tensors that are concatenated, for values in [-8, 8), the range of calibrated outputs."""


@dataclass(frozen=True, slots=True)
class DenseNet121(Network):
    """Four dense blocks of bottleneck layers with growth rate 32, with pre-activation, ReLU.

    `growth` scales all widths.

    Source: Huang et al., Densely Connected Convolutional Networks, 2016, arXiv:1608.06993
    """

    NAME: ClassVar[str] = "densenet121"

    growth: int = option(GROWTH, 4, 64)
    resolution: int = option(224, 32, 512)
    classes: int = option(1000, 2, 100_000)

    def graph(self) -> Graph:
        net = GraphBuilder(self.NAME, self.seed, sample_count(self.resolution))
        x = net.input((1, self.resolution, self.resolution, 3))
        x = net.conv2d(
            x, 2 * self.growth, 7, 2, activation="relu", quantisation=FEATURES, name="conv1"
        )
        x = net.max_pool2d(x, 3, 2, padding="same", name="pool1")
        for number, layers in enumerate(BLOCKS, start=1):
            for k in range(1, layers + 1):
                x = self._layer(net, x, f"block{number}/layer{k}")
            if number < len(BLOCKS):
                x = self._transition(net, x, f"transition{number}")
        x = self._activated(net, x, "norm")
        x = net.global_average_pool(x, name="pool")
        x = net.fully_connected(x, self.classes, name="logits")
        return net.build(net.softmax(x, name="scores"))

    def _activated(self, net: GraphBuilder, x: Value, name: str) -> Value:
        """Batch normalisation and ReLU before a convolution: other layers also read x itself."""
        return batch_norm(net, x, self.seed, name, Activation.RELU)

    def _layer(self, net: GraphBuilder, x: Value, name: str) -> Value:
        """x, and the features that two convolutions compute from it."""
        y = self._activated(net, x, f"{name}/norm")
        y = net.conv2d(y, BOTTLENECK * self.growth, 1, activation="relu", name=f"{name}/reduce")
        y = net.conv2d(y, self.growth, 3, quantisation=FEATURES, name=f"{name}/conv")
        return net.apply(Concatenation(3), x, y, quantisation=FEATURES, name=f"{name}/concat")

    def _transition(self, net: GraphBuilder, x: Value, name: str) -> Value:
        """Half the channels, half the rows and columns."""
        y = self._activated(net, x, f"{name}/norm")
        y = net.conv2d(y, x.type.shape[3] // 2, 1, quantisation=FEATURES, name=f"{name}/conv")
        return net.average_pool2d(y, 2, name=f"{name}/pool")
