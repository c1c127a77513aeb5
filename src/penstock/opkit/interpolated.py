"""Logistic function and tanh of int16 elements, interpolated between the entries of a table.

Inputs are Q3.12 numbers, or those of another power of two; outputs are Q0.15.  Arrays are int64.
As tanh(x) = 2 * logistic(2 * x) - 1, one table serves both functions.

Source: TensorFlow Lite, `reference/integer_ops/logistic.h` and `tanh.h` (int16).
"""

from __future__ import annotations

import math

import numpy as np

from penstock.fixedpoint import Int64s
from penstock.ir.tensor import Array

ENTRIES = 256
STEPS = 24
"""Entries of the table per unit of x."""
LARGEST = 2**15 - 1


def logistic_table() -> Array:
    """Entry i is logistic(i / 24) - 1/2 in Q0.16, int16.

    Since the logistic function is concave there, a chord lies below it.  Entries are larger by half
    of the largest distance between chord and function; the last one is 1/2.
    Source: `sigmoid_table_uint16` (`kernels/internal/common.h`), to whose entries 1/2 is added."""

    def entry(x: float) -> int:
        y = 1 / (1 + math.exp(-x))
        curvature = y * (1 - y) * (2 * y - 1)
        return math.floor((y - 0.5 + curvature / (16 * STEPS * STEPS)) * 2**16 + 0.5)

    found = [entry(i / STEPS) for i in range(ENTRIES - 1)]
    return np.array([*found, LARGEST], np.int16)


_TABLE = logistic_table().astype(np.int64)


def logistic(x: Int64s) -> Int64s:
    """1 / (1 + exp(-x)) of Q3.12 numbers."""
    magnitude = np.abs(3 * x)
    half = 1 << 24
    y = np.where(magnitude >> 9 >= ENTRIES - 1, LARGEST << 10, _between(magnitude, 9) + half)
    return (np.where(x >= 0, y + (1 << 9), 2 * half - y + (1 << 9) - 1)) >> 10


def tanh(x: Int64s, integer_bits: int) -> Int64s:
    """tanh(x) of numbers with `integer_bits` bits before the binary point.

    `integer_bits` may be negative.  Source: `Tanh` (`micro/kernels/lstm_eval.cc`)."""
    left = integer_bits - 3
    scaled = (3 * x) << left if left >= 0 else (3 * x + (1 << (-left - 1))) >> -left
    magnitude = np.abs(scaled)
    y = np.where(magnitude >> 8 >= ENTRIES - 1, LARGEST << 8, _between(magnitude, 8))
    return (np.where(scaled >= 0, y + (1 << 7), -y + (1 << 7) - 1)) >> 8


def _between(magnitude: Int64s, bits: int) -> Int64s:
    """The table at an index with `bits` bits after the binary point, times 2**bits."""
    index = np.minimum(magnitude >> bits, ENTRIES - 2)
    step = _TABLE[index + 1] - _TABLE[index]
    return (_TABLE[index] << bits) + (magnitude & ((1 << bits) - 1)) * step
