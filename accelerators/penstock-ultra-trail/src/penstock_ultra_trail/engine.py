"""engine: the configuration words of a layer, and the functional models of the driver's functions.

`ultra_trail.h` is the corresponding C interface.
"""

from __future__ import annotations

from ctypes import LittleEndianStructure, c_int32, c_uint32

import numpy as np

from penstock.uma import Array, Driver, Offloaded, convolved, elements, requantise

LENGTHS = {"in_length": 12, "out_length": 12, "padding": 8}
SIZES = {"in_c": 9, "out_c": 9, "taps": 5, "stride": 4, "dilation": 5}
# The width in bits of each field, in order from the lowest bit on; each of the three dictionaries
# is one word. The fields of RANGE are signed.
RANGE = {"in_zero": 8, "out_zero": 8, "least": 8, "most": 8}


class Words(LittleEndianStructure):
    """The three 32-bit configuration words of a layer, as bit fields.

    The layout is penstock's; UltraTrail's is not published."""

    _fields_ = [
        *((name, c_uint32, bits) for name, bits in (LENGTHS | SIZES).items()),
        *((name, c_int32, bits) for name, bits in RANGE.items()),
    ]


def fields(layer: Offloaded) -> dict[str, int]:
    """Return the values of the bit fields of a layer's configuration words, by field name.

    The layer convolves along one axis.  Lengths, stride, dilation and padding refer to this
    axis."""
    p = layer.parameters
    axis, before = ("h", "top") if (p["in_w"], p["kernel_w"]) == (1, 1) else ("w", "left")
    found = {f"{end}_length": p[f"{end}_{axis}"] for end in ("in", "out")}
    found |= {name: p[f"{name}_{axis}"] for name in ("stride", "dilation")}
    found |= {"taps": p[f"kernel_{axis}"], "padding": p[f"pad_{before}"]}
    return found | {name: p[name] for name in ("in_c", "out_c", *RANGE)}


def decode(words: Array) -> Words:
    """Return the three configuration words that the first 12 bytes of `words` contain."""
    return Words.from_buffer_copy(words[:12].tobytes())


class UltraTrail:
    """The state of the simulated engine.

    fmem: the bytes of the three feature memories, of shape (memory, byte).
    wmem: the bytes of the weight memory.
    channels: int32, of shape (3, output channel): the biases, the multipliers and the shifts."""

    def __init__(self) -> None:
        self.fmem, self.wmem = np.zeros((3, 4096), np.uint8), np.zeros(32768, np.uint8)
        self.channels = np.zeros((3, 512), np.int32)


def load_weights(
    engine: UltraTrail, words: Array, weights: Array, bias: Array, multiplier: Array, shift: Array
) -> None:
    """Functional model of `ultra_trail_load_weights`: load the constants of a layer.

    weights: the int8 weights, of shape (output channels, taps, input channels), as bytes.
    bias, multiplier, shift: one value for each output channel, as bytes."""
    n = decode(words)
    count = n.out_c * n.taps * n.in_c
    engine.wmem[:count] = weights[:count]
    registers = (bias, np.int32), (multiplier, np.int32), (shift, np.int8)
    engine.channels[:, : n.out_c] = [elements(*r, n.out_c) for r in registers]


def load_features(engine: UltraTrail, words: Array, fmem: int, x: Array) -> None:
    """Functional model of `ultra_trail_load_features`: load the input of a layer.

    fmem: the index of the feature memory into which `x` is loaded."""
    n = decode(words)
    count = n.in_length * n.in_c
    engine.fmem[fmem, :count] = x[:count]


def convolve(engine: UltraTrail, words: Array, source: int, target: int) -> None:
    """Functional model of `ultra_trail_convolve`: convolve and requantise features.

    source, target: the indices of the feature memories of the input and the output."""
    n = decode(words)
    x = elements(engine.fmem[source], np.int8, n.in_length, 1, n.in_c)
    weights = elements(engine.wmem, np.int8, n.out_c, n.taps, 1, n.in_c)
    size, window = (n.out_length, 1), ((n.stride, 1), (n.dilation, 1), (n.padding, 0))
    sums = convolved(x, weights, size, *window, n.in_zero)
    bias, multiplier, shift = engine.channels[:, : n.out_c]
    found = requantise(sums + bias, multiplier, shift, n.out_zero, (n.least, n.most))
    elements(engine.fmem[target], np.int8, *found.shape)[:] = found


def store_features(engine: UltraTrail, words: Array, fmem: int, y: Array) -> None:
    """Functional model of `ultra_trail_store_features`: store the output of a layer to `y`.

    fmem: the index of the feature memory that holds the output."""
    n = decode(words)
    count = n.out_length * n.out_c
    y[:count] = engine.fmem[fmem, :count]


LOAD_FEATURES, LOAD_WEIGHTS, CONVOLVE, STORE_FEATURES = (
    Driver(f"ultra_trail_{model.__name__}", "ultra_trail", model, device=UltraTrail)
    for model in (load_features, load_weights, convolve, store_features)
)
