"""Definitions of convolutions whose weights are computed, or are inputs of the model.

    Conv            the elements under each window as a column of a matrix; times the weights
    ConvTranspose   a Conv of the input with zeros between its elements, by flipped weights

Source: ONNX operator specification.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from penstock.frontends.onnx.definitions import Define, Definition
from penstock.frontends.onnx.file import FileNode
from penstock.frontends.onnx.folding import whole
from penstock.frontends.onnx.windows import (
    MOST_TAPS,
    Windows,
    halves,
    is_same,
    listed,
    padding,
    spans,
    steps,
    windows,
)


def is_standard(node: FileNode, computed: frozenset[str]) -> bool:
    """Whether a node is no such convolution; `computed`: tensors that depend on inputs."""
    return node.name not in DEFINITIONS or computed.isdisjoint(node.inputs[1:2])


def _operands(new: Definition) -> tuple[tuple[int, ...], tuple[int, ...], int] | None:
    """The shapes of input and weights, and the number of groups; None if they do not fit."""
    shape, weights = (new.shapes.get(new.given(k)) for k in (0, 1))
    groups = whole(new.node, "group", 1)
    if shape is None or weights is None or len(shape) != len(weights) or len(shape) < 3:
        return None
    is_transposed = new.node.name == "ConvTranspose"
    fits = shape[1] == (weights[0] if is_transposed else weights[1] * groups)
    return (shape, weights, groups) if groups > 0 and weights[0] % groups == 0 and fits else None


def _convolution(new: Definition) -> bool:
    """False if a shape is not known, or if shapes do not fit."""
    operands = _operands(new)
    if operands is None:
        return False
    shape, weights, groups = operands
    under = windows(new, shape[2:], weights[2:])
    if under is None:
        return False
    _name_product(new, under, (new.given(0), new.given(1)), (shape[0], *weights[:2]), groups)
    return True


def _name_product(
    new: Definition,
    under: Windows,
    operands: tuple[str, str],
    extents: tuple[int, ...],
    groups: int,
) -> None:
    """Let a convolution be the output.

    operands: the input and weights (outputs, depth, *sizes).
    extents: batch, outputs and depth."""
    (batch, outputs, depth), pixels = extents, math.prod(under.counts)
    shape = new.integers(batch, depth * groups, 1, pixels)
    padded = under.padded(new, operands[0])
    taps = [new.made("Reshape", tap, shape) for tap in under.taps(new, padded)]
    columns = taps[0] if len(taps) == 1 else new.made("Concat", *taps, axis=2)
    terms, grouped = depth * len(taps), (groups,) if groups > 1 else ()
    columns = new.made("Reshape", columns, (batch, *grouped, terms, pixels))
    rows = new.made("Reshape", operands[1], (*grouped, outputs // groups, terms))
    y = new.made("MatMul", rows, columns)
    y = new.made("Reshape", y, (batch, outputs, *under.counts))
    if bias := new.given(2):
        of_channels = new.integers(outputs, *(1 for _ in under.counts))
        y = new.made("Add", y, new.made("Reshape", bias, of_channels))
    new.name_output(y)


def _transposed(new: Definition) -> bool:
    """False if a shape is not known, or if shapes do not fit."""
    operands = _operands(new)
    if operands is None:
        return False
    (batch, channels, *extents), (inputs, depth, *sizes), groups = operands
    axes = len(extents)
    stated, pads = steps(new, axes), padding(new, axes)
    extra, wanted = listed(new, "output_padding", (0,) * axes), listed(new, "output_shape", ())
    if stated is None or pads is None or len(extra) != axes or math.prod(sizes) > MOST_TAPS:
        return False
    if len(wanted[-axes:]) not in (0, axes):
        return False
    x, w, counts = new.given(0), new.given(1), list[int]()
    starts, ends, spread = list[int](), list[int](), list[int]()
    for a, (stride, span) in enumerate(zip(stated[0], spans(tuple(sizes), stated[1]), strict=True)):
        full = (extents[a] - 1) * stride + span + extra[a]
        start, outputs = pads[0][a], full - pads[0][a] - pads[1][a]
        if wanted or is_same(new):
            outputs = wanted[-axes:][a] if wanted else extents[a] * stride
            start, _ = halves(new, max(0, full - outputs))
        counts.append(outputs)
        starts.append(span - 1 - start)
        ends.append(outputs + start - extents[a] * stride)
        rows = batch * channels * math.prod(spread) * extents[a]
        spread.append(extents[a] * stride)
        rest = extents[a + 1 :]
        x = new.made("Reshape", x, (rows, 1, math.prod(rest)))
        x = new.made("Pad", x, (0, 0, 0, 0, stride - 1, 0))
        x = new.made("Reshape", x, (batch, channels, *spread, *rest))
        w = new.made("Gather", w, (*reversed(range(sizes[a])),), axis=a + 2)
    if min(counts) < 1:
        return False
    w = new.made("Reshape", w, (groups, inputs // groups, depth, *sizes))
    w = new.made("Transpose", w, perm=(0, 2, 1, *range(3, axes + 3)))
    sides = groups * depth, inputs // groups
    w = new.made("Reshape", w, (*sides, *sizes))
    under = Windows(tuple(sizes), (1,) * axes, stated[1], tuple(starts), tuple(ends), tuple(counts))
    _name_product(new, under, (x, w), (batch, *sides), groups)
    return True


DEFINITIONS: Mapping[str, Define] = {"Conv": _convolution, "ConvTranspose": _transposed}
