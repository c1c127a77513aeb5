"""Networks without residuals: LeNet-5, VGG16 and SqueezeNet 1.1."""

from __future__ import annotations

from typing import ClassVar

from penstock.frontends.builder import GraphBuilder
from penstock.frozen import frozen
from penstock.ir.graph import Graph, Value
from penstock.ops.concatenation import Concatenation
from penstock.zoo.network import Network, begun, choice, option, sample_count, scored


@frozen
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
        net, x = begun(self, self.resolution, 1)
        border = "same" if self.resolution == 28 else "valid"
        x = net.conv2d(x, 6, 5, padding=border, activation="relu", name="conv1")
        x = net.max_pool2d(x, 2, name="pool1")
        x = net.conv2d(x, 16, 5, padding="valid", activation="relu", name="conv2")
        x = net.max_pool2d(x, 2, name="pool2")
        x = net.reshape(x, (1, -1), name="flat")
        x = net.fully_connected(x, 120, activation="relu", name="dense1")
        x = net.fully_connected(x, 84, activation="relu", name="dense2")
        return scored(net, net.fully_connected(x, self.classes, name="logits"))


# VGG16: plain 3 x 3 convolutions, halved by max pooling, and three dense layers.


# Convolutions and their channels. Source: table 1 of the paper, configuration D.
VGG16_STAGES = ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))
DENSE_OUTPUTS = 4096
LEAST_CHANNELS = 8


@frozen
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
        for stage, (count, channels) in enumerate(VGG16_STAGES, start=1):
            for k in range(1, count + 1):
                name = f"conv{stage}_{k}"
                x = net.conv2d(x, self._scaled(channels), 3, activation="relu", name=name)
            x = net.max_pool2d(x, 2, name=f"pool{stage}")
        for name in ("dense1", "dense2"):
            x = net.fully_connected(x, self._scaled(DENSE_OUTPUTS), activation="relu", name=name)
        return scored(net, net.fully_connected(x, self.classes, name="logits"))

    def _scaled(self, full: int) -> int:
        return max(LEAST_CHANNELS, int(full * self.alpha))


# SqueezeNet 1.1: fire modules, which squeeze the channels and expand them in two branches.


# Channels of each fire module after squeezing and of each of its branches; max pooling before each
# stage. Source: the authors' `SqueezeNet_v1.1/train_val.prototxt` (forresti/SqueezeNet).
SQUEEZENET_STAGES = (
    ((16, 64), (16, 64)),
    ((32, 128), (32, 128)),
    ((48, 192), (48, 192), (64, 256), (64, 256)),
)


@frozen
class SqueezeNet(Network):
    """Version 1.1: eight fire modules, whose two branches are concatenated, ReLU.

    Pooling drops the last row and column of maps of even size, where the authors' pooling pads.

    Source: Iandola et al., SqueezeNet, 2016, arXiv:1602.07360
    """

    NAME: ClassVar[str] = "squeezenet"

    resolution: int = option(224, 32, 512)
    classes: int = option(1000, 2, 100_000)

    def graph(self) -> Graph:
        net, x = begun(self, self.resolution)
        x = net.conv2d(x, 64, 3, 2, padding="valid", activation="relu", name="conv1")
        number = 1
        for stage, modules in enumerate(SQUEEZENET_STAGES, start=1):
            x = net.max_pool2d(x, 3, 2, name=f"pool{stage}")
            for squeezed, expanded in modules:
                number += 1
                x = _fire(net, x, squeezed, expanded, f"fire{number}")
        x = net.conv2d(x, self.classes, 1, activation="relu", name="conv10")
        x = net.global_average_pool(x, name="pool")
        return scored(net, net.reshape(x, (1, self.classes), name="flat"))


def _fire(net: GraphBuilder, x: Value, squeezed: int, expanded: int, name: str) -> Value:
    """A 1 x 1 convolution, and on its output a 1 x 1 and a 3 x 3 convolution, concatenated."""
    # The branches share one scale, which the concatenation requires.
    x = net.conv2d(x, squeezed, 1, activation="relu", name=f"{name}/squeeze")
    a = net.conv2d(x, expanded, 1, activation="relu", name=f"{name}/expand1")
    shared = a.type.quantisation
    y = f"{name}/expand3"
    b = net.conv2d(x, expanded, 3, activation="relu", quantisation=shared, name=y)
    return net.apply(Concatenation(3), a, b, quantisation=shared, name=f"{name}/concat")
