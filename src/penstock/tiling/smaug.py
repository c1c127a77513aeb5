"""Smaug: the tiler that chooses as SMAUG does for its SMV backend: fill the scratchpads.

Tensors are (N, H, W, C) or (N, C), weights (outputs, rows, columns, C) or (outputs, C), each with a
scratchpad of its own.  By what the tensors are to each other, a layer has one of five rules:

    Windowed      weights, summed over C, in windows of rows and columns
    Connected     weights, summed over C, no rows
    Pooled        no weights, windows
    Scaled        weights for each channel, four in a column, nothing summed
    Flat          no weights, no windows: one row of elements

Each names dimensions for every tensor (`smaug_dims.py`), lists candidates, and the one that takes
the most room is chosen, the first of equals.  What SMAUG does not tile is a CapacityError.

Where SMAUG keeps the alignment of a shape of which it then changes the innermost dimension, this
takes the alignment of the shape that is really there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.tiling.cuts import Cut, TileShape
from penstock.tiling.layer import INPUT, WEIGHTS, Axis, Dimension, Layer
from penstock.tiling.scratchpads import Scratchpads
from penstock.tiling.smaug_rules import (
    Connected,
    Flat,
    Piece,
    Pooled,
    Rule,
    Scaled,
    Shapes,
    Windowed,
    is_slid,
    refused,
)
from penstock.tiling.tiler import Dims, Nest, Preference
from penstock.tiling.tiling import Tiling


@dataclass(frozen=True, slots=True)
class Smaug:
    """SMAUG's tiler.  Asked for a layer that its rules do not know it raises UsageError."""

    def dims(self, layer: Layer, scratchpads: Scratchpads) -> Dims:
        """The axes that are cut: those of the tensors' dimensions."""
        rule = rule_of(layer, scratchpads)
        extents = rule.shape(rule.choose()).extents
        pairs = zip(layer.axes, extents, strict=True)
        return frozenset(axis.name for axis, extent in pairs if extent < axis.extent)

    def shapes(self, layer: Layer, scratchpads: Scratchpads, dims: Dims) -> tuple[TileShape, ...]:
        """The shape that fills the scratchpads best."""
        rule = rule_of(layer, scratchpads)
        return (rule.shape(rule.choose()),)

    def cut(self, layer: Layer, shape: TileShape) -> tuple[Cut, ...]:
        """Rows: as many as a tile of the input makes, more where it is padded."""
        return shape.cuts([axis.extent for axis in layer.axes])

    def nest(self, layer: Layer, scratchpads: Scratchpads, cuts: Sequence[Cut]) -> Nest:
        """SMAUG's loops: N, H, W, outputs, C; a tensor that is not cut stays."""
        rule = rule_of(layer, scratchpads)
        return rule.nest(rule.choose())

    def prefer(self, tiling: Tiling) -> Preference:
        """The shape is chosen already."""
        return ()

    def tensor_shapes(self, layer: Layer, scratchpads: Scratchpads) -> Shapes:
        """Dimensions and tile of each tensor.  Raises CapacityError, UsageError."""
        return rule_of(layer, scratchpads).choose()

    def tensor_pieces(
        self, layer: Layer, scratchpads: Scratchpads
    ) -> dict[str, tuple[tuple[Piece, ...], ...]]:
        """By role and dimension, into which pieces the tensor is cut.  As SMAUG cuts them: a tile
        of input may hold rows that no output reads; rows of output follow those of the input."""
        rule = rule_of(layer, scratchpads)
        shapes = rule.choose()
        return {role: rule.pieces(shapes, role) for role in shapes.tiles}


def flattened(layer: Layer) -> Layer | None:
    """A layer of operands that all have one shape as one row of elements; else None.

    SMAUG cuts element-wise layers so; their pieces need not be boxes of the tensors."""
    output = layer.output.dimensions
    plain = all(operand.dimensions == output for operand in layer.inputs)
    if not plain or layer.reduced or any(d.axis is None and d.size > 1 for d in output):
        return None
    elements = math.prod(layer.output.shape)
    row = (Dimension(1), Dimension(elements, "i"))
    return replace(
        layer,
        axes=(Axis("i", elements),),
        inputs=tuple(replace(operand, dimensions=row) for operand in layer.inputs),
        output=replace(layer.output, dimensions=row),
    )


def rule_of(layer: Layer, scratchpads: Scratchpads) -> Rule:
    """The rule for a layer.  Raises UsageError where SMAUG has none."""
    if any(len(memory.roles) > 1 for memory in scratchpads.scratchpads):
        raise refused(layer, "tensors share a scratchpad")
    kinds = {operand.role: operand for operand in reversed(layer.operands)}
    if INPUT not in kinds:
        raise refused(layer, "nothing is read but weights")
    rank = len(kinds[INPUT].dimensions)
    if rank == 2 and flattened(layer) and layer.output.shape[0] == 1:
        return Flat(layer, scratchpads)
    weights = [o for o in layer.inputs if o.role == WEIGHTS and len(o.dimensions) > 1]
    if weights:
        wide = len(weights[0].dimensions)
        rules = {(True, 4, 4): Windowed, (True, 2, 2): Connected}
        rules |= {(False, 4, 2): Scaled, (False, 2, 2): Scaled}
        if rule := rules.get((bool(layer.reduced), rank, wide)):
            return rule(layer, scratchpads)
    elif not layer.reduced and rank == 4 and is_slid(kinds[INPUT]):
        return Pooled(layer, scratchpads)
    raise refused(layer, "the tensors are to each other as in none of its operators")
