"""SqueezeNet 1.1: fire modules, which squeeze the channels and expand them in two branches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph, Value
from penstock.ops.concatenation import Concatenation
from penstock.zoo.network import Network, option
from penstock.zoo.parts import sample_count

STAGES = (
    ((16, 64), (16, 64)),
    ((32, 128), (32, 128)),
    ((48, 192), (48, 192), (64, 256), (64, 256)),
)
"""Channels of each fire module after squeezing and of each of its branches; max pooling before each
stage.  Source: the authors' `SqueezeNet_v1.1/train_val.prototxt` (forresti/SqueezeNet)."""


@dataclass(frozen=True, slots=True)
class SqueezeNet(Network):
    """Version 1.1: eight fire modules, whose two branches are concatenated, ReLU.

    Pooling drops the last row and column of maps of even size, where the authors' pooling pads.

    Source: Iandola et al., SqueezeNet, 2016, arXiv:1602.07360
    """

    NAME: ClassVar[str] = "squeezenet"

    resolution: int = option(224, 32, 512)
    classes: int = option(1000, 2, 100_000)

    def graph(self) -> Graph:
        net = GraphBuilder(self.NAME, self.seed, sample_count(self.resolution))
        x = net.input((1, self.resolution, self.resolution, 3))
        x = net.conv2d(x, 64, 3, 2, padding="valid", activation="relu", name="conv1")
        number = 1
        for stage, modules in enumerate(STAGES, start=1):
            x = net.max_pool2d(x, 3, 2, name=f"pool{stage}")
            for squeezed, expanded in modules:
                number += 1
                x = _fire(net, x, squeezed, expanded, f"fire{number}")
        x = net.conv2d(x, self.classes, 1, activation="relu", name="conv10")
        x = net.global_average_pool(x, name="pool")
        x = net.reshape(x, (1, self.classes), name="flat")
        return net.build(net.softmax(x, name="scores"))


def _fire(net: GraphBuilder, x: Value, squeezed: int, expanded: int, name: str) -> Value:
    """A 1 x 1 convolution, and on its output a 1 x 1 and a 3 x 3 convolution, concatenated.

    The branches share one scale, which the concatenation requires."""
    x = net.conv2d(x, squeezed, 1, activation="relu", name=f"{name}/squeeze")
    a = net.conv2d(x, expanded, 1, activation="relu", name=f"{name}/expand1")
    shared = a.type.quantisation
    y = f"{name}/expand3"
    b = net.conv2d(x, expanded, 3, activation="relu", quantisation=shared, name=y)
    return net.apply(Concatenation(3), a, b, quantisation=shared, name=f"{name}/concat")
