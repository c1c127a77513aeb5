"""RandWire: stages of separable convolutions that are wired at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from penstock.frontends.builder import GraphBuilder
from penstock.frontends.calibration import SeededRandom, quantisation
from penstock.frozen import frozen
from penstock.ir.graph import Graph, Value
from penstock.opkit.activation import Activation
from penstock.ops.binary import Add, Mul
from penstock.zoo.network import Network, SharedRelu, begun, classified, named_random, option

NEIGHBOURS, PROBABILITY = 4, 0.75  # WS(4, 0.75). Source: section 4.1 of the paper.
STAGES = 3
HEAD_CHANNELS = 1280
WEIGHT_STEPS = 128  # Quantisation steps of an edge's weight of 1.


@frozen
class RandWire(Network):
    """Three stages of separable convolutions wired by Watts-Strogatz graphs, WS(4, 0.75), ReLU.

    The small regime of the paper, with `nodes` in a stage.  `seed` selects the wiring, too.  The
    weights of edges are constants in (0, 1), the values of the paper's sigmoid.  The following
    layers absorb two factors: a node with a single edge has no weight, and the output of a stage is
    a sum instead of a mean.

    Source: Xie et al., Exploring Randomly Wired Neural Networks, 2019, arXiv:1904.01569
    """

    NAME: ClassVar[str] = "randwire"

    nodes: int = option(32, 6, 64)
    channels: int = option(78, 2, 256)
    resolution: int = option(224, 32, 512)
    classes: int = option(1000, 2, 100_000)

    def graph(self) -> Graph:
        net, x = begun(self, self.resolution)
        relu = SharedRelu(net)
        x = net.conv2d(x, self.channels // 2, 3, 2, activation="relu", name="conv1")
        x = net.conv2d(x, self.channels, 3, 2, name="conv2")
        for stage in range(STAGES):
            x = self._stage(net, relu, x, self.channels * 2**stage, f"conv{stage + 3}")
        x = net.conv2d(relu(x), HEAD_CHANNELS, 1, name="head")
        return classified(net, x, self.classes)

    def _stage(
        self, net: GraphBuilder, relu: SharedRelu, x: Value, channels: int, name: str
    ) -> Value:
        """Nodes without an edge from an earlier one read x, with stride 2; the output is the sum of
        the nodes without an edge to a later one."""
        random = named_random(self.seed, f"{name}/wiring")
        edges = small_world(self.nodes, NEIGHBOURS, PROBABILITY, random)
        first = relu(x)
        found: list[Value] = []
        for node in range(self.nodes):
            label = f"{name}/node{node}"
            sources = [found[a] for a, b in edges if b == node]
            y = self._joined(net, relu, sources, label) if sources else first
            y = net.depthwise_conv2d(y, 3, 1 if sources else 2, name=f"{label}/depthwise")
            found.append(net.conv2d(y, channels, 1, name=label))
        ends = [found[node] for node in range(self.nodes) if node not in {a for a, _ in edges}]
        return _sum(net, ends, Activation.NONE, f"{name}/sum")

    def _joined(
        self, net: GraphBuilder, relu: SharedRelu, values: Sequence[Value], name: str
    ) -> Value:
        if len(values) == 1:
            return relu(values[0])
        random = named_random(self.seed, f"{name}/weights")
        steps = np.floor(random.uniform(len(values), WEIGHT_STEPS / 8, WEIGHT_STEPS * 7 / 8))
        weighted: list[Value] = []
        for number, (value, weight) in enumerate(zip(values, steps, strict=True), start=1):
            elements = np.full((1, 1, 1, 1), weight, np.int8)
            scale = quantisation(1 / WEIGHT_STEPS, 0)
            factor = net.constant(elements, scale, f"{name}/weight{number}")
            weighted.append(net.apply(Mul(), value, factor, name=f"{name}/weighted{number}"))
        return _sum(net, weighted, Activation.RELU, f"{name}/sum")


def _sum(net: GraphBuilder, values: Sequence[Value], activation: Activation, name: str) -> Value:
    """The sum of values; the last addition applies the activation."""
    total = values[0]
    for number, value in enumerate(values[1:], start=1):
        last = number == len(values) - 1
        op = Add(activation if last else Activation.NONE)
        total = net.apply(op, total, value, name=f"{name}{number}")
    return total


def small_world(
    nodes: int, neighbours: int, probability: float, random: SeededRandom
) -> tuple[tuple[int, int], ...]:
    """Edges (a, b), with a < b, of a random graph of `nodes` nodes, in ascending order.

    Source: Watts and Strogatz, Collective dynamics of small-world networks, Nature 393, 1998, in
    the form of Xie et al., section 3.3.

    In a ring, every node is connected to `neighbours` / 2 nodes on either side.  Then, for each
    distance, every node in turn moves the edge to the node at that distance, with `probability`,
    to another node, to which it has no edge."""
    ring = [(v, (v + k) % nodes) for k in range(1, neighbours // 2 + 1) for v in range(nodes)]
    edges = {frozenset(edge) for edge in ring}
    for v, neighbour in ring:
        chosen = float(random.uniform(1, 0.0, 1.0)[0]) < probability
        free = [u for u in range(nodes) if u != v and frozenset((u, v)) not in edges]
        if chosen and free:
            edges.remove(frozenset((v, neighbour)))
            edges.add(frozenset((v, free[int(random.uniform(1, 0.0, len(free))[0])])))
    return tuple(sorted((min(edge), max(edge)) for edge in edges))
