"""GoogLeNet: inception modules, four branches that are concatenated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph, Value
from penstock.ops.concatenation import Concatenation
from penstock.zoo.network import Network, option
from penstock.zoo.parts import sample_count

Widths = tuple[int, int, int, int, int, int]
STAGES: tuple[tuple[tuple[str, Widths], ...], ...] = (
    (("3a", (64, 96, 128, 16, 32, 32)), ("3b", (128, 128, 192, 32, 96, 64))),
    (
        ("4a", (192, 96, 208, 16, 48, 64)),
        ("4b", (160, 112, 224, 24, 64, 64)),
        ("4c", (128, 128, 256, 24, 64, 64)),
        ("4d", (112, 144, 288, 32, 64, 64)),
        ("4e", (256, 160, 320, 32, 128, 128)),
    ),
    (("5a", (256, 160, 320, 32, 128, 128)), ("5b", (384, 192, 384, 48, 128, 128))),
)
"""Channels of 1 x 1, 3 x 3 reduce, 3 x 3, 5 x 5 reduce, 5 x 5 and pool projection; max pooling
before each stage.  Source: table 1 of the paper."""


@dataclass(frozen=True, slots=True)
class GoogLeNet(Network):
    """Nine inception modules without the auxiliary classifiers and local normalisation, ReLU.

    Source: Szegedy et al., Going Deeper with Convolutions, 2014, arXiv:1409.4842
    """

    NAME: ClassVar[str] = "googlenet"

    resolution: int = option(224, 32, 512)
    classes: int = option(1000, 2, 100_000)

    def graph(self) -> Graph:
        net = GraphBuilder(self.NAME, self.seed, sample_count(self.resolution))
        x = net.input((1, self.resolution, self.resolution, 3))
        x = net.conv2d(x, 64, 7, 2, activation="relu", name="conv1")
        x = net.max_pool2d(x, 3, 2, padding="same", name="pool1")
        x = net.conv2d(x, 64, 1, activation="relu", name="conv2/reduce")
        x = net.conv2d(x, 192, 3, activation="relu", name="conv2")
        for stage, modules in enumerate(STAGES, start=2):
            x = net.max_pool2d(x, 3, 2, padding="same", name=f"pool{stage}")
            for name, widths in modules:
                x = _inception(net, x, widths, f"inception{name}")
        x = net.global_average_pool(x, name="pool")
        x = net.fully_connected(x, self.classes, name="logits")
        return net.build(net.softmax(x, name="scores"))


def _inception(net: GraphBuilder, x: Value, widths: Widths, name: str) -> Value:
    """Four branches, concatenated; they share one scale, which the concatenation requires."""
    ones, reduce3, threes, reduce5, fives, projected = widths
    a = net.conv2d(x, ones, 1, activation="relu", name=f"{name}/conv1")
    shared = a.type.quantisation

    def last(before: Value, channels: int, kernel: int, branch: str) -> Value:
        return net.conv2d(
            before,
            channels,
            kernel,
            activation="relu",
            quantisation=shared,
            name=f"{name}/{branch}",
        )

    b = net.conv2d(x, reduce3, 1, activation="relu", name=f"{name}/reduce3")
    b = last(b, threes, 3, "conv3")
    c = net.conv2d(x, reduce5, 1, activation="relu", name=f"{name}/reduce5")
    c = last(c, fives, 5, "conv5")
    d = net.max_pool2d(x, 3, 1, padding="same", name=f"{name}/pool")
    d = last(d, projected, 1, "project")
    op = Concatenation(3)
    return net.apply(op, a, b, c, d, quantisation=shared, name=f"{name}/concat")
