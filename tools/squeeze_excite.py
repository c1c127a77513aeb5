"""MobileNetV3-Small as an int8 `.tflite` file with random weights, to measure compile times.

    python -m tools.squeeze_excite FILE

The network has 164 nodes: inverted residual blocks with squeeze-and-excite, hard swish written as
x * (relu6(x + 3) / 6), and float32 input and output. Weights are drawn, with a scale per output
channel. The ranges of the activations are typical of batch normalisation and are not calibrated, so
that the scores mean nothing. Equal seeds draw equal files.

Source: Howard et al., Searching for MobileNetV3, 2019, arXiv:1905.02244, table 2.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tools.network import Network
from tools.quantised_tensor import Reals
from tools.tflite_borders import with_border

BLOCKS = (
    (3, 16, 16, True, False, 2),
    (3, 72, 24, False, False, 2),
    (3, 88, 24, False, False, 1),
    (5, 96, 40, True, True, 2),
    (5, 240, 40, True, True, 1),
    (5, 240, 40, True, True, 1),
    (5, 120, 48, True, True, 1),
    (5, 144, 48, True, True, 1),
    (5, 288, 96, True, True, 2),
    (5, 576, 96, True, True, 1),
    (5, 576, 96, True, True, 1),
)
"""Kernel, expanded channels, channels, squeeze-and-excite, hard swish (otherwise ReLU), stride."""
STEM_CHANNELS, LAST_CHANNELS, HEAD_CHANNELS, CLASSES = 16, 576, 1024, 1000
RESOLUTION = 224
SQUEEZE = 4
"""Ratio of the channels of a block to those between its two squeeze-and-excite layers."""


@dataclass(slots=True)
class _Drawn:
    """A network, and the range of each activation."""

    rng: np.random.Generator
    net: Network = field(default_factory=Network)
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])

    def conv(
        self, name: str, x: str, made: int, kernel: int = 1, stride: int = 1, activation: str = ""
    ) -> str:
        """A convolution; `activation` is RELU or none."""
        w, b = self._weights(made, kernel, kernel, self.net.shape(x)[3])
        y = self.net.conv(name, x, w, b, activation or "NONE", stride=(stride, stride))
        return self._ranged(y, activation)

    def depthwise(self, name: str, x: str, kernel: int, stride: int, activation: str) -> str:
        """A depthwise convolution. The zeros before a stride of 2 are a node of their own."""
        padding = "SAME"
        if stride == 2:
            around = (kernel // 2 - 1 + self.net.shape(x)[1] % 2, kernel // 2)
            x = self.net.pad(f"{name}/pad", x, ((0, 0), around, around, (0, 0)))
            padding = "VALID"
        w, b = self._weights(self.net.shape(x)[3], kernel, kernel, 1)
        y = self.net.depthwise(
            name,
            x,
            w.transpose(3, 1, 2, 0),
            b,
            activation or "NONE",
            stride=(stride, stride),
            padding=padding,
        )
        return self._ranged(y, activation)

    def rescaled(self, x: str) -> str:
        """x / 127.5 - 1."""
        y = self.net.elementwise(
            "divide", "MUL", x, self.net.constant("divisor", np.array(1 / 127.5))
        )
        self.ranges[y] = (0.0, 2.0)
        y = self.net.elementwise("subtract", "ADD", y, self.net.constant("one", np.array(-1.0)))
        self.ranges[y] = (-1.0, 1.0)
        return y

    def hard_sigmoid(self, name: str, x: str) -> str:
        """relu6(x + 3) / 6."""
        three = self.net.constant(f"{name}/three", np.array(3.0))
        sixth = self.net.constant(f"{name}/sixth", np.array(1 / 6))
        y = self.net.elementwise(f"{name}/add", "ADD", x, three, "RELU6")
        self.ranges[y] = (0.0, 6.0)
        y = self.net.elementwise(f"{name}/divide", "MUL", y, sixth)
        self.ranges[y] = (0.0, 1.0)
        return y

    def hard_swish(self, name: str, x: str) -> str:
        """x * (relu6(x + 3) / 6)."""
        y = self.net.elementwise(f"{name}/multiply", "MUL", x, self.hard_sigmoid(name, x))
        self.ranges[y] = (-0.375, self.ranges[x][1])
        return y

    def squeezed(self, name: str, x: str) -> str:
        """x scaled by channel, with factors computed from the means of its channels."""
        channels = self.net.shape(x)[3]
        y = self.mean(f"{name}/mean", x)
        y = self.conv(f"{name}/reduce", y, _rounded(channels / SQUEEZE), activation="RELU")
        y = self.hard_sigmoid(name, self.conv(f"{name}/expand", y, channels))
        y = self.net.elementwise(f"{name}/scale", "MUL", x, y)
        self.ranges[y] = self.ranges[x]
        return y

    def mean(self, name: str, x: str) -> str:
        """The mean of each channel."""
        y = self.net.mean(name, x, (1, 2), keep_dims=True)
        lower, upper = self.ranges[x]
        self.ranges[y] = (lower / 2, upper / 2)
        return y

    def block(self, name: str, x: str, row: tuple[int, int, int, bool, bool, int]) -> str:
        """An inverted residual block; `row` is one of `BLOCKS`."""
        kernel, expanded, channels, squeezes, swishes, stride = row
        activation, y = "" if swishes else "RELU", x
        if expanded != self.net.shape(x)[3]:
            y = self.conv(f"{name}/expand", y, expanded, activation=activation)
            y = self.hard_swish(f"{name}/swish", y) if swishes else y
        y = self.depthwise(f"{name}/depthwise", y, kernel, stride, activation)
        y = self.hard_swish(f"{name}/depthwise_swish", y) if swishes else y
        y = self.squeezed(f"{name}/squeeze", y) if squeezes else y
        y = self.conv(f"{name}/project", y, channels)
        if self.net.shape(y) != self.net.shape(x):
            return y
        y = self.net.elementwise(f"{name}/residual", "ADD", x, y)
        return self._ranged(y, "")

    def _weights(self, made: int, *window: int) -> tuple[Reals, Reals]:
        """Weights of shape (made, *window) that keep the variance, times a gain for each channel,
        and biases."""
        gains = self.rng.lognormal(0.0, 1.5, (made, 1, 1, 1))
        weights = self.rng.normal(0.0, np.prod(window) ** -0.5, (made, *window)) * gains
        return weights, self.rng.normal(0.0, 0.5, made)

    def _ranged(self, y: str, activation: str) -> str:
        upper = float(self.rng.uniform(4.0, 12.0))
        self.ranges[y] = (0.0 if activation else -float(self.rng.uniform(4.0, 12.0)), upper)
        return y


def squeeze_excite(seed: int = 0, resolution: int = RESOLUTION) -> bytes:
    """The file of the network. `resolution`: the height and width of the image."""
    drawn = _Drawn(np.random.default_rng(seed))
    x = drawn.net.input("image", (1, resolution, resolution, 3))
    drawn.ranges[x] = (0.0, 255.0)
    x = drawn.rescaled(x)
    x = drawn.hard_swish("stem/swish", drawn.conv("stem", x, STEM_CHANNELS, 3, 2))
    for number, row in enumerate(BLOCKS):
        x = drawn.block(f"block{number}", x, row)
    x = drawn.hard_swish("last/swish", drawn.conv("last", x, LAST_CHANNELS))
    x = drawn.conv("head", drawn.mean("pool", x), HEAD_CHANNELS)
    x = drawn.conv("logits", drawn.hard_swish("head/swish", x), CLASSES)
    x = drawn.net.reshape("flat", x, (1, CLASSES))
    drawn.net.output(drawn.net.softmax("scores", x))
    return with_border(drawn.net.tflite_bytes(drawn.ranges, "random weights"), "float32")


def _rounded(channels: float) -> int:
    """The nearest multiple of 8, at least 8, and not below nine tenths of `channels`."""
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest + 8 if nearest < 0.9 * channels else nearest


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(squeeze_excite())
