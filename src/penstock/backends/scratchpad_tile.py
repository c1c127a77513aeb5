"""ScratchpadTile: a tile of a tensor in a scratchpad."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.program.expr import Expr
from penstock.tiling.layer import Dimension, LayerOperand

Span = tuple[Expr, Expr]
"""A half-open interval whose bounds are expressions."""


def is_flat(operand: LayerOperand) -> bool:
    """Whether an operand is a single row of elements, as in a flattened layer."""
    return len(operand.dimensions) == 2 and operand.dimensions[0] == Dimension(1)


@dataclass(frozen=True)
class ScratchpadTile:
    """The current tile of a tensor, inside the loops over tiles, and its location in a scratchpad.

    operand: the tensor.
    base: offset in bytes of the tile in the scratchpad.  With double buffering, it alternates
        between two values, so that one tile can be copied while the other is used.
    room: maximum number of elements of a tile along each dimension.
    pitches: distance in bytes between consecutive elements along each dimension.
    region: part of the tensor that the tile covers, an interval of indices per dimension.
    box: part of the tensor that the computation of the current tile reads or writes, without
        padding.  `region` contains it, and is larger if several computations use the same tile.
    padding: number of padding elements before `box` that the computation reads, per dimension.
    level: number of loops around the commands that load or store the tile; 0 if the whole call uses
        one tile.

    In a flattened layer, a tensor is a single row of elements: it has shape (1, elements)."""

    operand: LayerOperand
    base: Expr
    room: tuple[int, ...]
    pitches: tuple[int, ...]
    region: tuple[Span, ...]
    box: tuple[Span, ...]
    padding: tuple[Expr, ...]
    level: int

    @property
    def flat(self) -> bool:
        """Whether the tile belongs to a flattened layer."""
        return is_flat(self.operand)

    def at(self, *corner: Expr) -> Expr:
        """Return the offset in bytes, in the scratchpad, of one element of the tile.

        corner: indices of the element in the whole tensor, one per dimension."""
        found: Expr = self.base
        for index, (lower, _), pitch in zip(corner, self.region, self.pitches, strict=True):
            found = found + (index - lower) * pitch
        return found
