"""EfficientNet-B0: inverted bottlenecks with squeeze and excitation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from penstock.frontends.builder import GraphBuilder
from penstock.frontends.seeded_random import WEIGHT_DEVIATION
from penstock.frontends.weighted_layer import Weights
from penstock.ir.graph import Graph, Value
from penstock.ir.tensor import Quantisation
from penstock.ops.logistic import Logistic
from penstock.ops.mul import Mul
from penstock.zoo.mobilenet_v2 import rounded
from penstock.zoo.named_random import named_random
from penstock.zoo.network import Network, option
from penstock.zoo.samples import sample_count

STAGES = (
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)
"""Expansion, kernel, stride of the first block, channels, blocks.  Source: table 1 of the paper."""
STEM_CHANNELS, HEAD_CHANNELS = 32, 1280
SQUEEZE = 4
"""Ratio of the channels of a block's input to those between squeeze and excitation."""
SIGMOID = Quantisation((1 / 256,), (-128,))
"""Source: TFLite quantisation specification, LOGISTIC."""
SQUEEZED, EXCITED = Quantisation((1 / 32,), (0,)), Quantisation((1 / 96,), (0,))
"""For values in [-4, 4) and [-4/3, 4/3), which `GAIN` yields."""
GAIN = 0.5
"""Ratio of the deviations of output and input of the layers on averages of channels."""


@dataclass(frozen=True, slots=True)
class EfficientNetB0(Network):
    """Sixteen inverted bottlenecks with squeeze and excitation, swish.

    `alpha` scales all widths, as the paper does for larger networks.

    Source: Tan and Le, EfficientNet, 2019, arXiv:1905.11946
    """

    NAME: ClassVar[str] = "efficientnet_b0"

    alpha: float = option(1.0, 0.05, 2.0)
    resolution: int = option(224, 32, 512)
    classes: int = option(1000, 2, 100_000)

    def graph(self) -> Graph:
        net = GraphBuilder(self.NAME, self.seed, sample_count(self.resolution))
        x = net.input((1, self.resolution, self.resolution, 3))
        x = _swish(net, net.conv2d(x, rounded(STEM_CHANNELS * self.alpha), 3, 2, name="stem"))
        for number, (expansion, kernel, first_stride, channels, blocks) in enumerate(STAGES, 1):
            width = rounded(channels * self.alpha)
            for k in range(blocks):
                stride = first_stride if k == 0 else 1
                name = f"stage{number}/block{k + 1}"
                x = self._block(net, x, expansion, kernel, stride, width, name)
        x = _swish(net, net.conv2d(x, rounded(HEAD_CHANNELS * self.alpha), 1, name="head"))
        x = net.global_average_pool(x, name="pool")
        x = net.fully_connected(x, self.classes, name="logits")
        return net.build(net.softmax(x, name="scores"))

    def _block(
        self,
        net: GraphBuilder,
        x: Value,
        expansion: int,
        kernel: int,
        stride: int,
        channels: int,
        name: str,
    ) -> Value:
        """Expansion, depthwise convolution, squeeze and excitation, projection; added to x if
        shapes match."""
        before, y = x.type.shape[3], x
        if expansion > 1:
            y = _swish(net, net.conv2d(y, before * expansion, 1, name=f"{name}/expand"))
        y = _swish(net, net.depthwise_conv2d(y, kernel, stride, name=f"{name}/depthwise"))
        y = self._excited(net, y, max(1, before // SQUEEZE), name)
        y = net.conv2d(y, channels, 1, name=f"{name}/project")
        return net.add(x, y, name=f"{name}/add") if (before, stride) == (channels, 1) else y

    def _excited(self, net: GraphBuilder, x: Value, squeezed: int, name: str) -> Value:
        """x, each channel multiplied by a number that depends on the averages of all channels."""
        y = net.global_average_pool(x, name=f"{name}/squeeze")
        y = _swish(net, self._dense(net, y, squeezed, SQUEEZED, f"{name}/reduce"), SQUEEZED)
        y = self._dense(net, y, x.type.shape[3], EXCITED, f"{name}/excite")
        gate = net.apply(Logistic(), y, quantisation=SIGMOID, name=f"{name}/gate")
        return net.apply(Mul(), x, gate, name=f"{name}/excited")

    def _dense(
        self, net: GraphBuilder, x: Value, channels: int, chosen: Quantisation, name: str
    ) -> Value:
        """A convolution of one pixel, with the gain `GAIN`.

        Averages hardly differ between calibration inputs.  A calibrated layer would amplify these
        differences."""
        depth = x.type.shape[3]
        elements = named_random(self.seed, name).weights((channels, 1, 1, depth))
        scale = GAIN / (WEIGHT_DEVIATION * math.sqrt(depth))
        weights = Weights(elements, (scale,))
        return net.conv2d(x, channels, 1, weights=weights, quantisation=chosen, name=name)


def _swish(net: GraphBuilder, x: Value, chosen: Quantisation | None = None) -> Value:
    """x * sigmoid(x)"""
    gate = net.apply(Logistic(), x, quantisation=SIGMOID, name=f"{x.name}/sigmoid")
    return net.apply(Mul(), x, gate, quantisation=chosen, name=f"{x.name}/swish")
