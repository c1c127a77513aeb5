"""copies: the commands that copy tiles between memory and scratchpads.

Each row of a tile is copied by a command of its own, because the rows of a tensor need not be
equally spaced in memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from penstock.accelerators.smv.commands import difference, invoke, length, offset
from penstock.accelerators.smv.operations import LoadTile, ScratchpadNumber, StoreTile
from penstock.accelerators.smv.tiles import ScratchpadTile, Span, added
from penstock.uma import Address, Command, Expr, KernelCall, Loop, Operand, Var, minimum


def load(call: KernelCall, k: int, tile: ScratchpadTile) -> Sequence[Command]:
    """Return the commands that load a tile of the layer's input `k`, row by row."""
    rows, columns, channels = spans(tile.region)
    row = Var("r")
    load = LoadTile(
        ScratchpadNumber.INPUT,
        to=_row_offset(tile, row),
        source=_memory_address(call.operand(k), tile, row, columns, channels),
        runs=length(columns),
        run_bytes=length(channels),
        source_pitch=tile.operand.shape[-1],
        pitch=row_and_column(tile)[1],
        chained=minimum(1, difference(row, rows[0])),
    )
    return [Loop("r", *rows, 1, (invoke(call, load),))]


def store(call: KernelCall, tile: ScratchpadTile) -> Sequence[Command]:
    """Return the commands that store a tile of the output, row by row."""
    rows, columns, channels = spans(tile.region)
    row = Var("r")
    store = StoreTile(
        target=_memory_address(call.result, tile, row, columns, channels),
        at=_row_offset(tile, row),
        runs=length(columns),
        run_bytes=length(channels),
        target_pitch=tile.operand.shape[-1],
        pitch=row_and_column(tile)[1],
        chained=minimum(1, difference(row, rows[0])),
    )
    return [Loop("r", *rows, 1, (invoke(call, store),))]


def load_weights(call: KernelCall, tile: ScratchpadTile) -> Sequence[Command]:
    """Return the commands that load a tile of weights: for each output channel and tap, one run of
    contiguous input channels."""
    outputs, channels = tile.region[0], tile.region[-1]
    _, *taps, depth = tile.operand.shape
    count = math.prod(taps)
    load = LoadTile(
        ScratchpadNumber.WEIGHTS,
        to=tile.base,
        source=offset(call.operand(1).address, outputs[0] * (count * depth) + channels[0]),
        runs=length(outputs) * count,
        run_bytes=length(channels),
        source_pitch=depth,
        pitch=tile.pitches[-2],
        chained=0,
    )
    return [invoke(call, load)]


def load_scales(call: KernelCall, tile: ScratchpadTile) -> Sequence[Command]:
    """Return the commands that load biases, multipliers and shifts of a tile of output channels."""
    (outputs,) = tile.region
    tables = (call.operand(2).address, 4), (call.table("multiplier"), 4), (call.table("shift"), 1)
    loads = (
        LoadTile(
            ScratchpadNumber.WEIGHTS,
            to=place,
            source=offset(table, outputs[0] * size),
            runs=1,
            run_bytes=length(outputs) * size,
            source_pitch=0,
            pitch=0,
            chained=int(k > 0),
        )
        for k, (place, (table, size)) in enumerate(
            zip(scale_offsets(tile, outputs), tables, strict=True)
        )
    )
    return [invoke(call, load) for load in loads]


def scale_offsets(tile: ScratchpadTile, outputs: Span) -> tuple[Expr, Expr, Expr]:
    """Return where the biases, multipliers and shifts of the output channels `outputs` begin.

    The result has three offsets in bytes in the scratchpad of weights.  `tile` holds the values as
    three consecutive arrays, and may hold more channels than the interval `outputs`."""
    room, at = tile.room[0], difference(outputs[0], tile.region[0][0])
    pairs = ((0, at * 4), (4 * room, at * 4), (8 * room, at))
    first, second, third = (added(tile.base + start, offset) for start, offset in pairs)
    return first, second, third


def spans(region: Sequence[Span]) -> tuple[Span, Span, Span]:
    """Return the row, column and channel intervals; a region of two dimensions has one column."""
    if len(region) == 2:
        return region[0], (0, 1), region[1]
    return region[-3], region[-2], region[-1]


def row_and_column(tile: ScratchpadTile) -> tuple[int, int]:
    """Return (row pitch, column pitch): bytes between consecutive rows, or columns, of a tile.

    Rows, columns and channels are the last three dimensions.  A tile with two dimensions, rows and
    channels, has a single column; its column pitch is 0."""
    if len(tile.pitches) == 2:
        return tile.pitches[0], 0
    *_, row, column, _ = tile.pitches
    return row, column


def _row_offset(tile: ScratchpadTile, row: Expr) -> Expr:
    """Return the byte offset in the scratchpad at which a row of `tile` begins.

    row: index of the row in the whole tensor."""
    first = spans(tile.region)[0][0]
    return added(tile.base, difference(row, first) * row_and_column(tile)[0])


def _memory_address(
    tensor: Operand, tile: ScratchpadTile, row: Expr, columns: Span, channels: Span
) -> Address:
    """Return the address in memory of the first element of one row of a tile.

    tensor: the tensor in memory.
    row: index of the row in the whole tensor.
    columns, channels: intervals of the tensor that the tile covers.

    The input of a fully connected layer may have another shape in memory than in the tiling, which
    reshapes it to two dimensions.  `row` then counts rows of the reshaped tensor, and the tensor
    must be contiguous."""
    depth = tile.operand.shape[-1]
    if len(tile.operand.shape) == 2 and tensor.type.shape != tile.operand.shape:
        return offset(tensor.address, row * depth + channels[0])
    return tensor.row(row, columns[0] * depth + channels[0])
