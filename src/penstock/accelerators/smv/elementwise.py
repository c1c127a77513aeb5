"""elementwise: the commands of sums and products of two tensors, tile by tile."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.accelerators.smv.commands import by_row_intervals, invoke, length
from penstock.accelerators.smv.copies import load, row_and_column, spans, store
from penstock.accelerators.smv.operations import AddTiles, MultiplyTiles
from penstock.accelerators.smv.settings import ElementRange, TermScales, TilePitches, setting
from penstock.accelerators.smv.tiles import CallTiles
from penstock.uma import Command, Expr, KernelCall


@by_row_intervals
def add(call: KernelCall) -> Sequence[Command]:
    """Return the commands of an element-wise sum or difference."""
    return _elementwise(call, AddTiles)


@by_row_intervals
def mul(call: KernelCall) -> Sequence[Command]:
    """Return the commands of an element-wise product."""
    return _elementwise(call, MultiplyTiles)


def _elementwise(call: KernelCall, record: type[AddTiles[Expr]]) -> Sequence[Command]:
    """Return the commands of an element-wise sum or product of two tensors, tile by tile.

    record: `AddTiles` for a sum or difference, `MultiplyTiles` for a product."""
    tiles, p = CallTiles.of(call), call.parameters
    a, b, y = tiles.operand_tiles
    corner = [lower for lower, _ in tiles.box(y.operand)]
    rows, columns, channels = spans(tiles.box(y.operand))
    compute = record(
        a=a.at(*corner),
        b=b.at(*corner),
        y=y.at(*corner),
        rows=length(rows),
        columns=length(columns),
        channels=length(channels),
    )
    pitches = TilePitches(*row_and_column(a), *row_and_column(b), *row_and_column(y))
    loads = [load(call, 0, a), load(call, 1, b)]
    return [
        invoke(call, setting(ElementRange, p)),
        invoke(call, setting(TermScales, p)),
        invoke(call, pitches),
        *tiles.nest(loads, [invoke(call, compute)], store(call, y)),
    ]
