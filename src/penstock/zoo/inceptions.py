"""GoogLeNet and Inception-v3: modules of branches that are concatenated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from penstock.frontends.builder import GraphBuilder
from penstock.frozen import frozen
from penstock.ir.graph import Graph, Value
from penstock.ir.tensor import Quantisation
from penstock.ops.concatenation import Concatenation
from penstock.zoo.network import Network, begun, classified, option

Widths = tuple[int, int, int, int, int, int]
# Channels of 1 x 1, 3 x 3 reduce, 3 x 3, 5 x 5 reduce, 5 x 5 and pool projection; max pooling
# before each stage. Source: table 1 of the paper.
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


@frozen
class GoogLeNet(Network):
    """Nine inception modules without the auxiliary classifiers and local normalisation, ReLU.

    Source: Szegedy et al., Going Deeper with Convolutions, 2014, arXiv:1409.4842
    """

    NAME: ClassVar[str] = "googlenet"

    resolution: int = option(224, 32, 512)
    classes: int = option(1000, 2, 100_000)

    def graph(self) -> Graph:
        net, x = begun(self, self.resolution)
        x = net.conv2d(x, 64, 7, 2, activation="relu", name="conv1")
        x = net.max_pool2d(x, 3, 2, padding="same", name="pool1")
        x = net.conv2d(x, 64, 1, activation="relu", name="conv2/reduce")
        x = net.conv2d(x, 192, 3, activation="relu", name="conv2")
        for stage, modules in enumerate(STAGES, start=2):
            x = net.max_pool2d(x, 3, 2, padding="same", name=f"pool{stage}")
            for name, widths in modules:
                x = _inception(net, x, widths, f"inception{name}")
        return classified(net, x, self.classes)


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


# Inception-v3: inception modules with factorised convolutions.


Kernel = tuple[int, int]
Layer = tuple[int, Kernel]  # Channels and kernel of a convolution with stride 1 and SAME padding.
ONE, THREE, FIVE = (1, 1), (3, 3), (5, 5)
ROW, COLUMN = (1, 7), (7, 1)
HALVES = ((1, 3), (3, 1))


@frozen
class InceptionV3(Network):
    """Eleven modules after a stem of convolutions, without the auxiliary classifier, ReLU.

    The widths are those of the authors' implementation (tensorflow/models, slim).

    Source: Szegedy et al., Rethinking the Inception Architecture, 2015, arXiv:1512.00567
    """

    NAME: ClassVar[str] = "inception_v3"

    resolution: int = option(299, 75, 512)
    classes: int = option(1000, 2, 100_000)

    def graph(self) -> Graph:
        net, x = begun(self, self.resolution)
        x = net.conv2d(x, 32, 3, 2, "valid", "relu", name="stem/conv1")
        x = net.conv2d(x, 32, 3, 1, "valid", "relu", name="stem/conv2")
        x = net.conv2d(x, 64, 3, 1, "same", "relu", name="stem/conv3")
        x = net.max_pool2d(x, 3, 2, name="stem/pool1")
        x = net.conv2d(x, 80, 1, 1, "valid", "relu", name="stem/conv4")
        x = net.conv2d(x, 192, 3, 1, "valid", "relu", name="stem/conv5")
        x = net.max_pool2d(x, 3, 2, name="stem/pool2")
        for number, projected in enumerate((32, 64, 64)):
            fives = ((48, ONE), (64, FIVE))
            threes = ((64, ONE), (96, THREE), (96, THREE))
            x = _mixed(net, x, (((64, ONE),), fives, threes), projected, f"mixed{number}")
        x = _reduced(net, x, (((), 384), (((64, ONE), (96, THREE)), 96)), "mixed3")
        for number, width in enumerate((128, 160, 160, 192), start=4):
            pair = ((width, ONE), (width, ROW), (192, COLUMN))
            four = ((width, ONE), *((width, k) for k in (COLUMN, ROW, COLUMN)), (192, ROW))
            x = _mixed(net, x, (((192, ONE),), pair, four), 192, f"mixed{number}")
        factors = ((192, ONE), (192, ROW), (192, COLUMN))
        x = _reduced(net, x, ((((192, ONE),), 320), (factors, 192)), "mixed8")
        for number in (9, 10):
            x = _widened(net, x, f"mixed{number}")
        return classified(net, x, self.classes)


def _branch(
    net: GraphBuilder,
    x: Value,
    layers: Sequence[Layer],
    name: str,
    last: Quantisation | None = None,
) -> Value:
    """Convolutions in a row; `last` is the quantisation of the last output."""
    for k, (channels, kernel) in enumerate(layers, start=1):
        chosen = last if k == len(layers) else None
        label = f"{name}/conv{k}"
        x = net.conv2d(x, channels, kernel, activation="relu", quantisation=chosen, name=label)
    return x


def _mixed(
    net: GraphBuilder, x: Value, branches: Sequence[Sequence[Layer]], projected: int, name: str
) -> Value:
    """Branches of convolutions and one that pools, concatenated; they share one scale."""
    first = _branch(net, x, branches[0], f"{name}/branch1")
    shared = first.type.quantisation
    found = [first]
    for k, layers in enumerate(branches[1:], start=2):
        found.append(_branch(net, x, layers, f"{name}/branch{k}", shared))
    found.append(_pooled(net, x, projected, shared, name))
    return _concatenated(net, found, name)


def _pooled(
    net: GraphBuilder, x: Value, projected: int, shared: Quantisation | None, name: str
) -> Value:
    y = net.average_pool2d(x, 3, 1, "same", name=f"{name}/pool")
    return _branch(net, y, ((projected, ONE),), f"{name}/project", shared)


def _reduced(
    net: GraphBuilder, x: Value, branches: Sequence[tuple[Sequence[Layer], int]], name: str
) -> Value:
    """Branches that end in a 3 x 3 convolution with stride 2, and max pooling of x."""
    shared = x.type.quantisation
    found: list[Value] = []
    for k, (layers, channels) in enumerate(branches, start=1):
        y = _branch(net, x, layers, f"{name}/branch{k}")
        label = f"{name}/branch{k}/reduce"
        found.append(
            net.conv2d(y, channels, 3, 2, "valid", "relu", quantisation=shared, name=label)
        )
    found.append(net.max_pool2d(x, 3, 2, name=f"{name}/pool"))
    return _concatenated(net, found, name)


def _widened(net: GraphBuilder, x: Value, name: str) -> Value:
    """A module in which 1 x 3 and 3 x 1 convolutions read the same tensor."""
    first = _branch(net, x, ((320, ONE),), f"{name}/branch1")
    shared = first.type.quantisation
    found = [first]
    for number, layers in enumerate((((384, ONE),), ((448, ONE), (384, THREE))), start=2):
        y = _branch(net, x, layers, f"{name}/branch{number}")
        for k, kernel in enumerate(HALVES):
            label = f"{name}/branch{number}/half{k}"
            found.append(_branch(net, y, ((384, kernel),), label, shared))
    found.append(_pooled(net, x, 192, shared, name))
    return _concatenated(net, found, name)


def _concatenated(net: GraphBuilder, values: Sequence[Value], name: str) -> Value:
    shared = values[0].type.quantisation
    return net.apply(Concatenation(3), *values, quantisation=shared, name=f"{name}/concat")
