"""LeNet-5: the first convolutional network in wide use, on images of digits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph
from penstock.zoo.network import Network, choice, option
from penstock.zoo.parts import sample_count


@dataclass(frozen=True, slots=True)
class LeNet5(Network):
    """Two convolutions, three dense layers; ReLU and max pooling, as it is mostly built today.

    The paper has tanh and trained sub-sampling; its images of 32 x 32 are digits of 28 x 28 with a
    border, so at resolution 28 the first convolution pads.

    Source: LeCun et al., Gradient-Based Learning Applied to Document Recognition, 1998
    """

    NAME: ClassVar[str] = "lenet5"

    resolution: int = choice(28, 32)
    classes: int = option(10, 2, 100_000)

    def graph(self) -> Graph:
        net = GraphBuilder(self.NAME, self.seed, sample_count(self.resolution))
        x = net.input((1, self.resolution, self.resolution, 1))
        border = "same" if self.resolution == 28 else "valid"
        x = net.conv2d(x, 6, 5, padding=border, activation="relu", name="conv1")
        x = net.max_pool2d(x, 2, name="pool1")
        x = net.conv2d(x, 16, 5, padding="valid", activation="relu", name="conv2")
        x = net.max_pool2d(x, 2, name="pool2")
        x = net.reshape(x, (1, -1), name="flat")
        x = net.fully_connected(x, 120, activation="relu", name="dense1")
        x = net.fully_connected(x, 84, activation="relu", name="dense2")
        x = net.fully_connected(x, self.classes, name="logits")
        return net.build(net.softmax(x, name="scores"))
