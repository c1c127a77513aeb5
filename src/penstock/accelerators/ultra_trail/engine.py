"""The engine as its driver sees it: configuration words, memories, and what each function does.

A layer is three words of 32 bits; a field is bits [lower, upper) of its value less the least one:

    word 0  in_length [0, 12)  out_length [12, 24)  source [24, 26)  target [26, 28)
            padding [28, 32)
    word 1  in_channels [0, 9)  out_channels [9, 18)  taps [18, 23)  stride [23, 27)
            dilation [27, 31)
    word 2  in_zero [0, 8)  out_zero [8, 16)  least [16, 24)  most [24, 32)

Lengths, channels, taps, stride and dilation are at least 1; zero points and bounds at least -128.
`source` and `target` are feature memories.  The layout is ours: UltraTrail's is not published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.uma import Array, Driver, Offloaded, elements, requantise

MEMORIES = {"fmem0": 4096, "fmem1": 4096, "fmem2": 4096, "wmem": 32768}
"""Bytes of each."""
BUS_BYTES_PER_CYCLE = 4
SOURCES = "ultra_trail.h", "ultra_trail.c"
WORDS = 3
FIELDS = {
    "in_length": (0, 0, 12, 1),
    "out_length": (0, 12, 12, 1),
    "source": (0, 24, 2, 0),
    "target": (0, 26, 2, 0),
    "padding": (0, 28, 4, 0),
    "in_channels": (1, 0, 9, 1),
    "out_channels": (1, 9, 9, 1),
    "taps": (1, 18, 5, 1),
    "stride": (1, 23, 4, 1),
    "dilation": (1, 27, 4, 1),
    "in_zero": (2, 0, 8, -128),
    "out_zero": (2, 8, 8, -128),
    "least": (2, 16, 8, -128),
    "most": (2, 24, 8, -128),
}
"""By name: word, lowest bit, bits, least value."""


def encode(numbers: Mapping[str, int]) -> tuple[int, ...]:
    """The words of a layer whose numbers fit into their fields."""
    words = [0] * WORDS
    for name, (word, bit, _, least) in FIELDS.items():
        words[word] |= (numbers[name] - least) << bit
    return tuple(words)


def decode(words: Sequence[int]) -> dict[str, int]:
    """The numbers of a layer, by field."""
    return {
        name: (words[word] >> bit) % (1 << bits) + least
        for name, (word, bit, bits, least) in FIELDS.items()
    }


def misfits(numbers: Mapping[str, int]) -> str:
    """Which numbers do not fit into their fields."""
    rooms = ((name, numbers[name] - least, bits) for name, (_, _, bits, least) in FIELDS.items())
    return ", ".join(f"{n} {numbers[n]}" for n, code, bits in rooms if not 0 <= code < 1 << bits)


def numbers(layer: Offloaded) -> dict[str, int]:
    """The numbers of a layer, along its axis, of which there is one; from feature memory 0 to 1."""
    p = layer.parameters
    axis, before = ("h", "top") if (p["in_w"], p["kernel_w"]) == (1, 1) else ("w", "left")
    found = {name: p[f"{name}_{axis}"] for name in ("stride", "dilation")}
    found |= {"in_length": p[f"in_{axis}"], "out_length": p[f"out_{axis}"]}
    found |= {"taps": p[f"kernel_{axis}"], "padding": p[f"pad_{before}"]}
    found |= {"in_channels": p["in_c"], "out_channels": p["out_c"], "source": 0, "target": 1}
    return found | {name: p[name] for name in ("in_zero", "out_zero", "least", "most")}


@dataclass
class Engine:
    """The memories, and registers of the output channels: bias, multiplier, shift."""

    memories: dict[str, Array] = field(
        default_factory=lambda: {name: np.zeros(size, np.int8) for name, size in MEMORIES.items()}
    )
    channels: tuple[Array, ...] = ()

    def fmem(self, number: int) -> Array:
        return self.memories[f"fmem{number}"]


def _numbers(words: Array) -> dict[str, int]:
    """What the words at an address say."""
    return decode(elements(words, np.uint32, WORDS).tolist())


def load_weights(
    engine: Engine, words: Array, weights: Array, bias: Array, multiplier: Array, shift: Array
) -> None:
    """Weights, output channel by output channel, and what each of those has."""
    n = _numbers(words)
    count = n["out_channels"] * n["taps"] * n["in_channels"]
    engine.memories["wmem"][:count] = elements(weights, np.int8, count)
    typed = (bias, np.int32), (multiplier, np.int32), (shift, np.int8)
    engine.channels = tuple(elements(a, dtype, n["out_channels"]).copy() for a, dtype in typed)


def load_features(engine: Engine, words: Array, x: Array) -> None:
    """Features, step by step, into the source."""
    n = _numbers(words)
    count = n["in_length"] * n["in_channels"]
    engine.fmem(n["source"])[:count] = elements(x, np.int8, count)


def convolve(engine: Engine, words: Array) -> None:
    """A window of weights slides over the source, into the target; padding counts as in_zero."""
    n = _numbers(words)
    x = elements(engine.fmem(n["source"]), np.int8, n["in_length"], n["in_channels"])
    weights = elements(
        engine.memories["wmem"], np.int8, n["out_channels"], n["taps"], n["in_channels"]
    )
    bias, multiplier, shift = engine.channels
    first = np.arange(n["out_length"]) * n["stride"] - n["padding"]
    steps = first[:, None] + np.arange(n["taps"]) * n["dilation"]
    inside = (steps >= 0) & (steps < n["in_length"])
    taps = x.astype(np.int64)[steps.clip(0, n["in_length"] - 1)] - n["in_zero"]
    sums = np.tensordot(taps * inside[..., None], weights.astype(np.int64), ((1, 2), (1, 2)))
    bounds = n["least"], n["most"]
    y = elements(engine.fmem(n["target"]), np.int8, n["out_length"], n["out_channels"])
    y[:] = requantise(sums + bias, multiplier, shift, n["out_zero"], bounds)


def store_features(engine: Engine, words: Array, y: Array) -> None:
    """Features from the target."""
    n = _numbers(words)
    count = n["out_length"] * n["out_channels"]
    elements(y, np.int8, count)[:] = engine.fmem(n["target"])[:count]


def next_layer(engine: Engine, words: Array, *weights_and_y: Array) -> None:
    """A layer on features that the source holds already."""
    *weights, y = weights_and_y
    load_weights(engine, words, *weights)
    convolve(engine, words)
    store_features(engine, words, y)


def layer(engine: Engine, words: Array, x: Array, *weights_and_y: Array) -> None:
    """A whole layer."""
    load_features(engine, words, x)
    next_layer(engine, words, *weights_and_y)


LOAD_WEIGHTS, LOAD_FEATURES, CONVOLVE, STORE_FEATURES, NEXT_LAYER, LAYER = (
    Driver(f"ultra_trail_{model.__name__}", "ultra_trail", model, device=Engine)
    for model in (load_weights, load_features, convolve, store_features, next_layer, layer)
)
