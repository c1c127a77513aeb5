"""Definitions of MaxPool with indices, the places of the first maxima under windows, counted
through the whole input, and of MaxUnpool, which puts elements at such places.

The place of a tap is that of the first element of its window, and a distance that depends on the
tap alone.

Source: ONNX operator specification, MaxPool and MaxUnpool.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from penstock.frontends.onnx.definitions import Define, Definition
from penstock.frontends.onnx.file import FileNode
from penstock.frontends.onnx.folding import whole
from penstock.frontends.onnx.windows import listed, padding, steps, windows

INDICES = 1  # Position of the output.
FORMS = ("MaxPool",)
"""Operators of which only some forms are defined here."""


def is_standard(node: FileNode) -> bool:
    """Whether a node is no such MaxPool."""
    return node.name != "MaxPool" or not any(node.outputs[INDICES:])


def _define(new: Definition) -> bool:
    """False if the shape is not known, or if attributes are wrong."""
    shape = new.shapes.get(new.given(0))
    if shape is None or len(shape) < 3:
        return False
    (batch, channels), extents = shape[:2], shape[2:]
    under = windows(new, extents, listed(new, "kernel_shape", ()))
    if under is None:
        return False
    axes = range(len(extents))
    by_columns = whole(new.node, "storage_order", 0)
    distances = [math.prod(extents[:a] if by_columns else extents[a + 1 :]) for a in axes]
    padded = under.padded(new, new.given(0), new.real(-math.inf))
    pixels = math.prod(under.counts)
    one = new.integers(batch, channels, 1, pixels)
    taps = [new.made("Reshape", tap, one) for tap in under.taps(new, padded)]
    found = new.made("ArgMax", new.made("Concat", *taps, axis=2), axis=2, keepdims=1)
    places = np.array(under.places()) @ distances
    firsts = sum(
        np.expand_dims(np.arange(n) * stride - start, [b for b in axes if b != a]) * distance
        for a, (n, stride, start, distance) in enumerate(
            zip(under.counts, under.strides, under.starts, distances, strict=True)
        )
    )
    of_images = np.arange(batch * channels) * math.prod(extents)
    firsts = of_images.reshape(batch, channels, 1, 1) + np.reshape(firsts, (1, 1, 1, -1))
    index = new.made("Gather", places.astype(np.int64), found, axis=0)
    index = new.made("Add", index, firsts.astype(np.int64))
    new.name_output(new.made("Reshape", index, (batch, channels, *under.counts)), 1)
    new.nodes.append(replace(new.node, outputs=new.node.outputs[:INDICES]))
    return True


def _unpooled(new: Definition) -> bool:
    """Elements at their places, and zeros.  False if a shape is not known, or if attributes are
    wrong."""
    shape, wanted = new.shapes.get(new.given(0)), new.file.constants.get(new.given(2))
    if shape is None or len(shape) < 3 or (new.given(2) and wanted is None):
        return False
    axes = len(shape) - 2
    sizes, stated, pads = listed(new, "kernel_shape", ()), steps(new, axes), padding(new, axes)
    if len(sizes) != axes or stated is None or pads is None:
        return False
    ends = zip(shape[2:], stated[0], sizes, *pads, strict=True)
    pooled = (*shape[:2], *((n - 1) * s + size - a - b for n, s, size, a, b in ends))
    extents = pooled if wanted is None else tuple(wanted.ravel().tolist())
    if len(extents) != len(shape) or min(pooled) < 1:
        return False
    zeros = new.constant(np.zeros(math.prod(pooled), np.float32))
    flat = (new.made("Reshape", new.given(k), (-1,)) for k in (1, 0))
    y = new.made("ScatterElements", zeros, *flat, axis=0)
    y = new.made("Reshape", y, pooled)
    if extents != pooled:
        after = (b - a for a, b in zip(pooled, extents, strict=True))
        y = new.made("Pad", y, (*(0 for _ in shape), *after))
    new.name_output(y)
    return True


DEFINITIONS: Mapping[str, Define] = {"MaxPool": _define, "MaxUnpool": _unpooled}
