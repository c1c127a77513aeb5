"""A reference for the functional model of NVDLA: elements in plain Python.

It shares neither layouts nor arithmetic with the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

Image = Any
"""Elements [row][column][channel]."""


def half_away(x: Fraction) -> int:
    """The nearest integer; ties round away from zero."""
    whole = int(abs(x) + Fraction(1, 2))
    return whole if x >= 0 else -whole


def limited(x: int, least: int, most: int) -> int:
    return least if x < least else most if x > most else x


def under(
    image: Image,
    at: Sequence[int],
    window: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    before: Sequence[int],
) -> list[tuple[int, int, Any]]:
    """(window row, window column, elements or None) of every tap of an output position."""
    found = []
    for k, l in product(*map(range, window)):  # noqa: E741
        i = at[0] * stride[0] + k * dilation[0] - before[0]
        j = at[1] * stride[1] + l * dilation[1] - before[1]
        inside = 0 <= i < len(image) and 0 <= j < len(image[0])
        found.append((k, l, image[i][j] if inside else None))
    return found


def made(out: Sequence[int], element: Callable[[int, int, int], int]) -> list[list[list[int]]]:
    return [
        [[element(i, j, c) for c in range(out[2])] for j in range(out[1])] for i in range(out[0])
    ]


def convolution(
    image: Image, weights: Any, out: Sequence[int], pad_value: int, **window: Sequence[int]
) -> list[list[list[int]]]:
    """Accumulators of a convolution; weights [kernel][row][column][channel]."""

    def element(i: int, j: int, c: int) -> int:
        total = 0
        for k, l, point in under(image, (i, j), **window):  # noqa: E741
            taps = weights[c][k][l]
            values = [pad_value] * len(taps) if point is None else point
            total += sum(a * b for a, b in zip(values, taps, strict=True))
        return total

    return made(out, element)
