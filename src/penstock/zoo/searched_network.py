"""SearchedNetwork: stem, options and classifier of the networks that consist of searched cells."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph, Value
from penstock.zoo.network import Network, option
from penstock.zoo.samples import sample_count
from penstock.zoo.searched_cells import CellBuilder
from penstock.zoo.shared_relu import SharedRelu

STEM_CHANNELS = 32
STAGES = 3
"""Stages of the cells after the stem; each doubles the number of filters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedNetwork(Network):
    """Base of the networks; each defines its cells, and defaults and ranges of `filters` and
    `cells`, the number of cells in a stage."""

    filters: int
    cells: int
    resolution: int = option(224, 32, 512)
    classes: int = option(1000, 2, 100_000)

    def graph(self) -> Graph:
        net = GraphBuilder(self.NAME, self.seed, sample_count(self.resolution))
        builder = CellBuilder(net, SharedRelu(net))
        x = net.input((1, self.resolution, self.resolution, 3))
        x = net.conv2d(x, STEM_CHANNELS, 3, 2, "valid", name="stem")
        x = net.global_average_pool(builder.relu(self.output(builder, x)), name="pool")
        x = net.fully_connected(x, self.classes, name="logits")
        return net.build(net.softmax(x, name="scores"))

    @abstractmethod
    def output(self, builder: CellBuilder, x: Value) -> Value:
        """The output of the last cell; `x` is that of the first convolution."""
