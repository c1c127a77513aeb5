"""Smaug: a tiler with the rules of SMAUG's SMV backend, which fill the scratchpads.

Tensors are (N, H, W, C) or (N, C), weights (outputs, rows, columns, C) or (outputs, C). Inputs,
weights and outputs have separate scratchpads. One of six rules applies to a layer:

    WindowedRule      convolutions: weights with windows, summed over C
    ConnectedRule     fully connected layers: weights summed over C
    PooledRule        windows without weights
    DepthwiseRule     weights with windows, one for each channel; no sum.  SMAUG has no such rule.
    ScaledRule        four weights per channel, as in batch normalisation; no sum
    ElementwiseRule   neither weights nor windows: one row of elements

Each rule selects the dimensions to split for each tensor (`smaug_dims.py`) and enumerates
candidates. The first candidate that occupies the most memory is chosen. A layer that SMAUG cannot
tile raises CapacityError.

One difference: when SMAUG changes the innermost dimension of a shape, it keeps the alignment of the
original shape. This implementation uses the alignment of the final shape.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.tiling.cuts import Cut, TileShape
from penstock.tiling.layer import INPUT, WEIGHTS, Axis, Dimension, Layer
from penstock.tiling.scratchpads import Scratchpads
from penstock.tiling.smaug_rule import SmaugRule, SmaugShapes, refused
from penstock.tiling.smaug_rules import (
    ConnectedRule,
    DepthwiseRule,
    ElementwiseRule,
    PooledRule,
    ScaledRule,
    WindowedRule,
)
from penstock.tiling.smaug_windows import Piece, is_slid
from penstock.tiling.tiler import Dims, Nest, Preference
from penstock.tiling.tiling import Tiling


@dataclass(frozen=True, slots=True)
class Smaug:
    """SMAUG's tiler. Its methods raise UnsupportedError if no rule applies to the layer."""

    def dims(self, layer: Layer, scratchpads: Scratchpads) -> Dims:
        """Return the axes that the chosen tile shape splits."""
        rule = select_rule(layer, scratchpads)
        extents = rule.shape(rule.choose()).extents
        pairs = zip(layer.axes, extents, strict=True)
        return frozenset(axis.name for axis, extent in pairs if extent < axis.extent)

    def shapes(self, layer: Layer, scratchpads: Scratchpads, dims: Dims) -> tuple[TileShape, ...]:
        """Return the shape that fills the scratchpads best."""
        rule = select_rule(layer, scratchpads)
        return (rule.shape(rule.choose()),)

    def cut(self, layer: Layer, shape: TileShape) -> tuple[Cut, ...]:
        """Return tiles with the rows of the shape; tiles that include padding have more."""
        return shape.cuts([axis.extent for axis in layer.axes])

    def nest(self, layer: Layer, scratchpads: Scratchpads, cuts: Sequence[Cut]) -> Nest:
        """Return SMAUG's loop order: N, H, W, outputs, C. A tensor that is not split is loaded
        once."""
        rule = select_rule(layer, scratchpads)
        return rule.nest(rule.choose())

    def prefer(self, tiling: Tiling) -> Preference:
        """Return a constant, because `shapes` yields a single candidate."""
        return ()

    def tensor_shapes(self, layer: Layer, scratchpads: Scratchpads) -> SmaugShapes:
        """Return the split dimensions and the tile of each tensor. Raises CapacityError,
        UnsupportedError."""
        return select_rule(layer, scratchpads).choose()

    def tensor_pieces(
        self, layer: Layer, scratchpads: Scratchpads
    ) -> dict[str, tuple[tuple[Piece, ...], ...]]:
        """Return the pieces into which SMAUG splits each dimension of each tensor, by role.

        An input tile may contain rows that no output reads. Rows of the output follow from those of
        the input.
        """
        rule = select_rule(layer, scratchpads)
        shapes = rule.choose()
        return {role: rule.pieces(shapes, role) for role in shapes.tiles}


def flattened(layer: Layer) -> Layer | None:
    """Return an element-wise layer as a single row of elements, or None if operands differ in
    shape.

    SMAUG splits element-wise layers in this way; the pieces need not be boxes of the tensors. An
    operand that no axis indexes, such as a table, stays as it is.
    """
    output = layer.output.dimensions
    indexed = {o.name for o in layer.inputs if any(d.axis is not None for d in o.dimensions)}
    plain = all(o.dimensions == output for o in layer.inputs if o.name in indexed)
    if not plain or layer.reduced or any(d.axis is None and d.size > 1 for d in output):
        return None
    elements = math.prod(layer.output.shape)
    row = (Dimension(1), Dimension(elements, "i"))
    return replace(
        layer,
        axes=(Axis("i", elements),),
        inputs=tuple(
            replace(operand, dimensions=row) if operand.name in indexed else operand
            for operand in layer.inputs
        ),
        output=replace(layer.output, dimensions=row),
    )


def select_rule(layer: Layer, scratchpads: Scratchpads) -> SmaugRule:
    """Return the rule for a layer. Raises UnsupportedError if SMAUG has none."""
    if any(len(memory.roles) > 1 for memory in scratchpads.scratchpads):
        raise refused(layer, "tensors share a scratchpad")
    kinds = {operand.role: operand for operand in reversed(layer.operands)}
    if INPUT not in kinds:
        raise refused(layer, "it reads only weights")
    rank = len(kinds[INPUT].dimensions)
    if rank == 2 and flattened(layer) and layer.output.shape[0] == 1:
        return ElementwiseRule(layer, scratchpads)
    weights = [o for o in layer.inputs if o.role == WEIGHTS and len(o.dimensions) > 1]
    if weights:
        wide = len(weights[0].dimensions)
        rules = {(True, 4, 4): WindowedRule, (True, 2, 2): ConnectedRule}
        rules |= {(False, 4, 2): ScaledRule, (False, 2, 2): ScaledRule}
        if all(d.axis is None for d in weights[0].dimensions[:3]):
            rules |= {(False, 4, 4): DepthwiseRule}
        if rule := rules.get((bool(layer.reduced), rank, wide)):
            return rule(layer, scratchpads)
    elif not layer.reduced and rank == 4 and is_slid(kinds[INPUT]):
        return PooledRule(layer, scratchpads)
    raise refused(layer, "its combination of tensors matches none of SMAUG's operators")
