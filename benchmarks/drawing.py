"""Drawing: a random network under construction, and random sizes and windows."""

from __future__ import annotations

from random import Random
from typing import TypeVar

import numpy as np

from penstock.frontends.builder import Clamp, GraphBuilder, Padding
from penstock.frontends.calibrated_graph import Weights
from penstock.ir.graph import Value

T = TypeVar("T")
CHANNELS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 13, 16, 17, 20, 24, 32, 33, 40, 48, 64)
SIDES = (1, 2, 3, 4, 5, 7, 8, 10, 12, 13, 16, 20, 25, 32)
ACTIVATIONS: tuple[Clamp, ...] = ("none", "relu", "relu6")
MOST_ELEMENTS = 16_384
"""Most elements of an input or output of a layer."""
MOST_MACS = 2_000_000


class Drawing:
    """A random network, built layer by layer."""

    def __init__(self, name: str, seed: int) -> None:
        self.random = Random(f"{name} {seed}")
        self.net = GraphBuilder(f"{name.replace(' ', '_')}_{seed}", seed=seed)

    def one_of(self, *values: T) -> T:
        return self.random.choice(values)

    def channels(self) -> int:
        return self.random.choice(CHANNELS)

    def image(self) -> Value:
        """An input of random shape."""
        while True:
            height, width = self.random.choice(SIDES[3:]), self.random.choice(SIDES)
            shape = (1, height, width, self.channels())
            if 64 <= np.prod(shape) <= MOST_ELEMENTS:
                return self.net.input(shape)

    def window(self, x: Value, most: int = 5) -> tuple[int, int]:
        """Rows and columns of a window that fits into the image."""
        _, height, width, _ = x.type.shape
        if self.random.random() < 0.5:
            size = self.one_of(*(s for s in (1, 2, 3, 3, 3, 5) if s <= min(height, width, most)))
            return size, size
        return self.random.randint(1, min(height, most)), self.random.randint(1, min(width, most))

    def pool_window(self, x: Value) -> tuple[int, int]:
        """A window of several taps, if the image is large enough."""
        while True:
            window = self.window(x)
            if window != (1, 1) or x.type.shape[1:3] == (1, 1):
                return window

    def stride(self) -> tuple[int, int]:
        return self.one_of((1, 1), (1, 1), (2, 2), (1, 2), (2, 1))

    def padding(self) -> Padding:
        return self.one_of("same", "valid")

    def activation(self) -> Clamp:
        return self.random.choice(ACTIVATIONS)

    def weights(self, outputs: int, window: tuple[int, int], depth: int) -> Weights | None:
        """None, or weights whose channels differ by a factor of up to 1000 or are all 0."""
        if self.random.random() < 0.6:
            return None
        return self._drawn_weights(outputs, window, depth, (0, 0, 5))

    def uneven_weights(self, outputs: int, window: tuple[int, int], depth: int) -> Weights:
        """Weights whose channels differ by a factor of up to a thousand."""
        return self._drawn_weights(outputs, window, depth, (5,))

    def _drawn_weights(
        self, outputs: int, window: tuple[int, int], depth: int, spreads: tuple[int, ...]
    ) -> Weights:
        shape = (outputs, *window, depth)
        drawn = [round(self.random.gauss(0, 40)) for _ in range(int(np.prod(shape)))]
        elements = np.clip(drawn, -127, 127).astype(np.int8).reshape(shape)
        elements[[self.random.random() < 0.3 for _ in range(outputs)]] = 0
        spread = self.one_of(*spreads)
        scale = 0.02 / (window[0] * window[1] * depth) ** 0.5
        scales = [scale * 2.0 ** self.random.uniform(-spread, spread) for _ in range(outputs)]
        bias = np.array([self.random.randint(-999, 999) for _ in range(outputs)], np.int32)
        return Weights(elements, tuple(scales), bias)
