"""Definitions of convolutions whose weights are computed, or are inputs of the model.

    Conv            the elements under each window as a column of a matrix; times the weights
    ConvTranspose   a Conv of the input with zeros between its elements, by flipped weights

Source: ONNX operator specification.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from penstock.frontends.onnx.definitions import Define, Definition
from penstock.frontends.onnx.file import FileNode
from penstock.frontends.onnx.folding import whole
from penstock.opkit.sliding import AUTO_PADS

Ints = tuple[int, ...]
MOST_TAPS = 256
"""Largest number of weights for a pair of channels: each is a node that selects elements."""


def is_standard(node: FileNode, computed: frozenset[str]) -> bool:
    """Whether a node is no such convolution; `computed`: tensors that depend on inputs."""
    return node.name not in DEFINITIONS or computed.isdisjoint(node.inputs[1:2])


@dataclass(frozen=True, slots=True)
class _Layer:
    """A convolution of x (batch, channels, *extents) by weights (*channels of both sides, *sizes).

    starts, ends: the padding of each axis, if it is stated (`auto_pad` is NOTSET)."""

    batch: int
    channels: int
    extents: Ints
    sides: tuple[int, int]
    sizes: Ints
    strides: Ints
    dilations: Ints
    starts: Ints
    ends: Ints
    groups: int
    auto_pad: str

    @property
    def windows(self) -> Ints:
        """The extents that the windows cover."""
        return tuple((n - 1) * d + 1 for n, d in zip(self.sizes, self.dilations, strict=True))

    def split(self, total: int) -> tuple[int, int]:
        """The padding before and after an axis of which SAME states the sum."""
        small, large = total // 2, total - total // 2
        return (small, large) if self.auto_pad == "SAME_UPPER" else (large, small)


def _layer(new: Definition) -> _Layer | None:
    """None if a shape is not known, or if shapes or attributes do not fit."""
    shape, weights = (new.shapes.get(new.given(k)) for k in (0, 1))
    if shape is None or weights is None or len(shape) != len(weights) or len(shape) < 3:
        return None
    axes = len(shape) - 2
    auto_pad = str(new.node.attributes.get("auto_pad", "NOTSET"))
    pads = _listed(new, "pads", (0,) * 2 * axes) if auto_pad == "NOTSET" else (0,) * 2 * axes
    found = _Layer(
        batch=shape[0],
        channels=shape[1],
        extents=shape[2:],
        sides=(weights[0], weights[1]),
        sizes=weights[2:],
        strides=_listed(new, "strides", (1,) * axes),
        dilations=_listed(new, "dilations", (1,) * axes),
        starts=pads[:axes],
        ends=pads[axes:],
        groups=whole(new.node, "group", 1),
        auto_pad=auto_pad,
    )
    listed = (found.strides, found.dilations, found.starts, found.ends)
    fits = all(len(x) == axes for x in listed) and auto_pad in AUTO_PADS
    fits = fits and math.prod(found.sizes) <= MOST_TAPS
    positive = min(found.groups, *found.strides, *found.dilations) > 0
    return found if fits and positive and found.sides[0] % found.groups == 0 else None


def _listed(new: Definition, name: str, default: Ints) -> Ints:
    """An attribute that lists integers."""
    found = new.node.attributes.get(name, default)
    return tuple(x for x in found if isinstance(x, int)) if isinstance(found, tuple) else ()


def _convolution(new: Definition) -> bool:
    """False if a shape is not known, or if shapes do not fit."""
    layer = _layer(new)
    if layer is None or layer.channels != layer.sides[1] * layer.groups:
        return False
    axes = range(len(layer.extents))
    pads, counts = list[tuple[int, int]](), list[int]()
    for a, extent, window, stride in zip(
        axes, layer.extents, layer.windows, layer.strides, strict=True
    ):
        ends = layer.starts[a], layer.ends[a]
        if layer.auto_pad.startswith("SAME"):
            ends = layer.split(max(0, (-(-extent // stride) - 1) * stride + window - extent))
        pads.append(ends)
        counts.append((extent + sum(ends) - window) // stride + 1)
    if min(counts) < 1:
        return False
    x = new.given(0)
    if any(map(any, pads)):
        before, after = zip(*pads, strict=True)
        x = new.made("Pad", x, new.integers(0, 0, *before, 0, 0, *after))
    _name_product(new, layer, x, new.given(1), counts)
    return True


def _name_product(new: Definition, layer: _Layer, x: str, w: str, counts: Sequence[int]) -> None:
    """Let the convolution of `x`, which is padded, by weights of (outputs, depth, *sizes) be the
    output; it has `counts` windows along each axis."""
    axes, (outputs, depth), pixels = range(len(counts)), layer.sides, math.prod(counts)
    taps: list[str] = []
    for at in product(*map(range, layer.sizes)):
        first = [at[a] * layer.dilations[a] for a in axes]
        last = [first[a] + (counts[a] - 1) * layer.strides[a] + 1 for a in axes]
        bounds = (first, last, [a + 2 for a in axes], layer.strides)
        tap = new.made("Slice", x, *(new.integers(*numbers) for numbers in bounds))
        shape = new.integers(layer.batch, layer.channels, 1, pixels)
        taps.append(new.made("Reshape", tap, shape))
    columns = taps[0] if len(taps) == 1 else new.made("Concat", *taps, axis=2)
    terms, grouped = depth * len(taps), (layer.groups,) if layer.groups > 1 else ()
    columns = new.made("Reshape", columns, new.integers(layer.batch, *grouped, terms, pixels))
    rows = new.integers(*grouped, outputs // layer.groups, terms)
    y = new.made("MatMul", new.made("Reshape", w, rows), columns)
    y = new.made("Reshape", y, new.integers(layer.batch, outputs, *counts))
    if bias := new.given(2):
        of_channels = new.integers(outputs, *(1 for _ in axes))
        y = new.made("Add", y, new.made("Reshape", bias, of_channels))
    new.name_output(y)


def _transposed(new: Definition) -> bool:
    """False if a shape is not known, or if shapes do not fit."""
    layer = _layer(new)
    if layer is None or layer.channels != layer.sides[0]:
        return False
    axes = len(layer.extents)
    extra, wanted = _listed(new, "output_padding", (0,) * axes), _listed(new, "output_shape", ())
    if len(extra) != axes or len(wanted[-axes:]) not in (0, axes):
        return False
    x, w, counts = new.given(0), new.given(1), list[int]()
    pads, spread = list[tuple[int, int]](), list[int]()
    for a, (extent, window, stride) in enumerate(
        zip(layer.extents, layer.windows, layer.strides, strict=True)
    ):
        full = (extent - 1) * stride + window + extra[a]
        start, outputs = layer.starts[a], full - layer.starts[a] - layer.ends[a]
        if wanted or layer.auto_pad.startswith("SAME"):
            outputs = wanted[-axes:][a] if wanted else extent * stride
            start, _ = layer.split(max(0, full - outputs))
        counts.append(outputs)
        before = window - 1 - start
        pads.append((before, outputs + window - 1 - before - extent * stride))
        rows = layer.batch * layer.channels * math.prod(spread) * extent
        spread.append(extent * stride)
        rest = layer.extents[a + 1 :]
        x = new.made("Reshape", x, new.integers(rows, 1, math.prod(rest)))
        x = new.made("Pad", x, new.integers(0, 0, 0, 0, stride - 1, 0))
        x = new.made("Reshape", x, new.integers(layer.batch, layer.channels, *spread, *rest))
        w = new.made("Gather", w, new.integers(*reversed(range(layer.sizes[a]))), axis=a + 2)
    if min(counts) < 1:
        return False
    before, after = zip(*pads, strict=True)
    x = new.made("Pad", x, new.integers(0, 0, *before, 0, 0, *after))
    (inputs, depth), groups = layer.sides, layer.groups
    w = new.made("Reshape", w, new.integers(groups, inputs // groups, depth, *layer.sizes))
    w = new.made("Transpose", w, perm=(0, 2, 1, *range(3, axes + 3)))
    sides = groups * depth, inputs // groups
    w = new.made("Reshape", w, new.integers(*sides, *layer.sizes))
    _name_product(new, replace(layer, sides=sides, strides=(1,) * axes), x, w, counts)
    return True


DEFINITIONS: Mapping[str, Define] = {"Conv": _convolution, "ConvTranspose": _transposed}
