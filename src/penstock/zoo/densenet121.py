"""DenseNet-121: each layer reads the outputs of all earlier layers of its block."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from penstock.frontends.builder import GraphBuilder
from penstock.frontends.calibration import quantisation
from penstock.frozen import frozen
from penstock.ir.graph import Graph, Value
from penstock.ir.tensor import Quantisation
from penstock.opkit.activation import Activation
from penstock.ops.binary import Add, Mul
from penstock.ops.concatenation import Concatenation
from penstock.zoo.network import Network, begun, classified, named_random, option

# Layers of the dense blocks. Source: table 1 of the paper, as are growth and bottleneck.
BLOCKS = (6, 12, 24, 16)
GROWTH = 32
BOTTLENECK = 4
# Of all tensors that are concatenated, for values in [-8, 8), the range of calibrated outputs.
FEATURES = Quantisation((1 / 16,), (0,))
UNIT_STEPS = 64  # Quantisation steps of a scale of 1.
LARGEST_SHIFT_STEPS = 32  # Largest magnitude of a shift, in quantisation steps of the input.


@frozen
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
        net, x = begun(self, self.resolution)
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
        return classified(net, x, self.classes)

    def _activated(self, net: GraphBuilder, x: Value, name: str) -> Value:
        return _batch_norm(net, x, self.seed, name, Activation.RELU)

    def _layer(self, net: GraphBuilder, x: Value, name: str) -> Value:
        y = self._activated(net, x, f"{name}/norm")
        y = net.conv2d(y, BOTTLENECK * self.growth, 1, activation="relu", name=f"{name}/reduce")
        y = net.conv2d(y, self.growth, 3, quantisation=FEATURES, name=f"{name}/conv")
        return net.apply(Concatenation(3), x, y, quantisation=FEATURES, name=f"{name}/concat")

    def _transition(self, net: GraphBuilder, x: Value, name: str) -> Value:
        y = self._activated(net, x, f"{name}/norm")
        y = net.conv2d(y, x.shape[3] // 2, 1, quantisation=FEATURES, name=f"{name}/conv")
        return net.average_pool2d(y, 2, name=f"{name}/pool")


def _batch_norm(
    net: GraphBuilder, x: Value, seed: int, name: str, activation: Activation = Activation.NONE
) -> Value:
    """Batch normalisation that no convolution can absorb: scales each channel by a random number of
    [0.5, 1.5), and shifts it."""
    random = named_random(seed, name)
    shape = (1, 1, 1, x.shape[3])

    def constant(lower: float, upper: float, scale: float, label: str) -> Value:
        elements = np.floor(random.uniform(shape[3], lower, upper)).astype(np.int8)
        return net.constant(elements.reshape(shape), quantisation(scale, 0), f"{name}/{label}")

    scales = constant(UNIT_STEPS / 2, UNIT_STEPS * 3 / 2, 1 / UNIT_STEPS, "scales")
    largest = LARGEST_SHIFT_STEPS
    shifts = constant(-largest, largest + 1, x.type.scale, "shifts")
    y = net.apply(Mul(), x, scales, name=f"{name}/scaled")
    return net.apply(Add(activation), y, shifts, name=name)
