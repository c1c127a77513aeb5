"""A reference for the functional model of Ethos-U: elements in plain Python.

It shares neither addressing nor arithmetic with the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import floor
from typing import Any

Image = Any
"""Elements [row][column][channel]."""


def address(map: Any, y: int, x: int, c: int) -> int:
    """Address of an element of a feature map."""
    tiles, size = map.tiles, map.data_type.size_in_bytes()
    tile = 0
    if x >= tiles.width_0:
        x, tile = x - tiles.width_0, 1
    height = tiles.height_1 if tile else tiles.height_0
    if y >= height:
        y, tile = y - height, tile + 2
    strides = map.strides
    at = tiles.addresses[tile] + y * strides.height
    if map.layout.name == "NHWC":
        return at + x * strides.width + c * size
    return at + c // 16 * strides.depth + x * 16 * size + c % 16 * size


def put(memory: Any, map: Any, image: Image) -> None:
    """Writes elements byte by byte."""
    size = map.data_type.size_in_bytes()
    for y, row in enumerate(image):
        for x, pixel in enumerate(row):
            for c, element in enumerate(pixel):
                at = address(map, y, x, c)
                raw = int(element).to_bytes(size, "little", signed=map.data_type.is_signed())
                memory[at : at + size] = list(raw)


def got(memory: Any, map: Any) -> Image:
    """Reads elements byte by byte."""
    size, signed = map.data_type.size_in_bytes(), map.data_type.is_signed()

    def element(y: int, x: int, c: int) -> int:
        at = address(map, y, x, c)
        return int.from_bytes(bytes(memory[at : at + size]), "little", signed=signed)

    return made(map.shape, element)


def made(shape: Sequence[int], element: Callable[[int, int, int], int]) -> Image:
    height, width, depth = shape
    return [[[element(y, x, c) for c in range(depth)] for x in range(width)] for y in range(height)]


def half_away(x: Fraction) -> int:
    """The nearest integer; ties round away from zero."""
    whole = floor(abs(x) + Fraction(1, 2))
    return whole if x >= 0 else -whole


def scaled(x: int, scale: int, shift: int, rounding: str) -> int:
    """`x` * `scale` / 2 ** `shift`.

    The rounding mode TFL is the high multiplication of gemmlowp followed by its rounding division.
    """
    if rounding == "TRUNCATE":
        return int(Fraction(x * scale, 2**shift))
    if rounding == "NATURAL":
        return floor(Fraction(x * scale, 2**shift) + Fraction(1, 2))
    x = x * 2 ** (31 - shift) if shift < 31 else x
    high = floor(Fraction(x * scale, 2**31) + Fraction(1, 2))
    return half_away(Fraction(high, 2 ** (shift - 31))) if shift > 31 else high


def limited(x: int, lower: int, upper: int) -> int:
    return lower if x < lower else upper if x > upper else x


def taps(
    at: Sequence[int],
    window: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    before: Sequence[int],
    extent: Sequence[int],
) -> Iterator[tuple[int, int, int, int]]:
    """Window position and input position of every tap inside of the input."""
    for k, m in product(range(window[0]), range(window[1])):
        y = at[0] * stride[0] + k * dilation[0] - before[0]
        x = at[1] * stride[1] + m * dilation[1] - before[1]
        if 0 <= y < extent[0] and 0 <= x < extent[1]:
            yield k, m, y, x


def upscaled(image: Image, how: str, zero: int) -> Image:
    """The image with doubled height and width: elements repeated, or followed by zeros."""
    if how == "NONE":
        return image

    def element(y: int, x: int, c: int) -> int:
        kept = how == "NEAREST" or (y % 2 == 0 and x % 2 == 0)
        return image[y // 2][x // 2][c] if kept else zero

    return made((2 * len(image), 2 * len(image[0]), len(image[0][0])), element)
