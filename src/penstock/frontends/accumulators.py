"""Accumulators of layers before bias and scaling, for calibration; bit-identical on every machine.

    x  (N, ...)  int8, minus its zero point
    w            int8
    returns      integers, as float32 or float64

All arithmetic is on integers that the floating-point type represents exactly, so results do not
depend on the order in which a BLAS library adds them, nor on whether it fuses multiply and add.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from penstock.ir.region import Region
from penstock.ir.tensor import Array
from penstock.opkit import sliding
from penstock.opkit.sliding import Window

LARGEST_PRODUCT = 255 * 127
"""Largest magnitude of (x - zero point) * w."""

CHUNK_ELEMENTS = 1 << 22
"""Number of weights of a fully connected layer that are converted at a time, to bound memory."""


def exact_dtype(terms: int) -> type[np.floating]:
    """The narrower floating-point type that represents every sum of `terms` products exactly."""
    return np.float32 if terms * LARGEST_PRODUCT <= 2**24 else np.float64


def convolved(x: Array, zero: int, w: Array, rows: Window, columns: Window) -> Array:
    """Accumulators of a convolution: x (N, H, W, C), w (O, K, L, C / G) -> (N, Ho, Wo, O)."""
    outputs, k, l, depth = w.shape  # noqa: E741
    groups = x.shape[3] // depth
    width = outputs // groups
    total = np.zeros((*_spatial(x, rows, columns), outputs), exact_dtype(k * l * depth))
    kind = exact_dtype(depth)
    weights = w.astype(kind)
    for a, b, tap in _taps(x, zero, rows, columns, outputs, kind):
        for group in range(groups):
            inside = slice(group * width, (group + 1) * width)
            source = tap[..., group * depth : (group + 1) * depth].reshape(-1, depth)
            product = source @ weights[inside, a, b].T
            total[..., inside] += product.reshape((*total.shape[:3], width))
    return total


def convolved_depthwise(x: Array, zero: int, w: Array, rows: Window, columns: Window) -> Array:
    """Accumulators of a depthwise convolution with depth multiplier D:
    x (N, H, W, C), w (1, K, L, C * D) -> (N, Ho, Wo, C * D)."""
    _, k, l, outputs = w.shape  # noqa: E741
    kind = exact_dtype(k * l)
    weights = w.astype(kind)
    if outputs != x.shape[3]:
        x = np.repeat(x, outputs // x.shape[3], axis=3)
    total = np.zeros((*_spatial(x, rows, columns), outputs), kind)
    product = np.empty_like(total)
    for a, b, tap in _taps(x, zero, rows, columns, outputs, kind):
        np.multiply(tap, weights[0, a, b], out=product)
        total += product
    return total


def multiplied(x: Array, zero: int, w: Array) -> Array:
    """Accumulators of a fully connected layer: x (B, I), w (O, I) -> (B, O)."""
    outputs, depth = w.shape
    kind = exact_dtype(depth)
    centred = x.astype(kind) - kind(zero)
    step = max(1, CHUNK_ELEMENTS // depth)
    parts = [centred @ w[o : o + step].astype(kind).T for o in range(0, outputs, step)]
    return np.concatenate(parts, axis=1)


def _spatial(x: Array, rows: Window, columns: Window) -> tuple[int, int, int]:
    return x.shape[0], rows.outputs(x.shape[1]), columns.outputs(x.shape[2])


def _taps(
    x: Array, zero: int, rows: Window, columns: Window, outputs: int, kind: type[np.floating]
) -> Iterator[tuple[int, int, Array]]:
    """Yields, per tap (k, l), the input elements less the zero point at all output positions."""
    out = Region.whole((*_spatial(x, rows, columns), outputs))
    centred = sliding.block(x, rows, columns, out).astype(kind) - kind(zero)
    return sliding.taps(centred, x.shape, rows, columns, out)
