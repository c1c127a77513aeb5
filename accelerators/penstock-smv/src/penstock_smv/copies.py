"""copies: the commands that copy tiles between memory and scratchpads.

Each row of a tile is copied by a command of its own, because the rows of a tensor need not be
equally spaced in memory.  The commands of a tile form one DMA transfer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.uma import (
    INPUT,
    OUTPUT,
    PARAMETERS,
    WEIGHTS,
    Address,
    Command,
    Expr,
    KernelCall,
    Loop,
    Operand,
    ScratchpadTile,
    Span,
    Var,
    maximum,
    minimum,
)
from penstock_smv.commands import invoke, length, offset
from penstock_smv.operations import LoadTile, ScratchpadNumber, StoreTile

SCRATCHPADS = {
    INPUT: ScratchpadNumber.INPUT,
    WEIGHTS: ScratchpadNumber.WEIGHTS,
    OUTPUT: ScratchpadNumber.OUTPUT,
    PARAMETERS: ScratchpadNumber.PARAMETERS,
}
"""The scratchpad of the tensors of a role."""


def load(call: KernelCall, tensor: Operand, tile: ScratchpadTile) -> Sequence[Command]:
    """Return the commands that load a tile of `tensor`, row by row.

    tensor: the tensor in memory.
    tile: the tile.  Its `operand.role` selects the scratchpad: that of inputs or of weights."""

    def copy(piece: _Piece) -> Command:
        record = LoadTile(
            SCRATCHPADS[tile.operand.role],
            to=piece.at,
            source=piece.address,
            runs=piece.runs,
            run_bytes=piece.run_bytes,
            source_pitch=tile.operand.shape[-1] * tile.operand.element_bytes,
            pitch=row_and_column(tile)[1],
            chained=piece.chained,
        )
        return invoke(call, record)

    return _copied(tensor, tile, copy)


def store(call: KernelCall, tile: ScratchpadTile) -> Sequence[Command]:
    """Return the commands that store a tile of the output from the scratchpad of outputs to memory,
    row by row."""

    def copy(piece: _Piece) -> Command:
        record = StoreTile(
            target=piece.address,
            at=piece.at,
            runs=piece.runs,
            run_bytes=piece.run_bytes,
            target_pitch=tile.operand.shape[-1] * tile.operand.element_bytes,
            pitch=row_and_column(tile)[1],
            chained=piece.chained,
        )
        return invoke(call, record)

    return _copied(call.result, tile, copy)


@dataclass(frozen=True, slots=True)
class _Piece:
    """The elements of a tile that one command copies: those in one row of the tensor.  For a
    flattened layer (`ScratchpadTile.flat`) and a contiguous tensor, one command copies the whole
    tile.

    at: offset in bytes of the first element in the scratchpad.
    address: the address of the first element in memory.
    runs, run_bytes: number of runs of contiguous bytes, and bytes per run.  Each column of the tile
        is a run; for a flattened layer, all elements are a single run.
    chained: 0 for the first copy of a tile, which begins a DMA transfer; 1 for all others, which
        continue this transfer."""

    at: Expr
    address: Address
    runs: Expr
    run_bytes: Expr
    chained: Expr


def _copied(
    tensor: Operand, tile: ScratchpadTile, copy: Callable[[_Piece], Command]
) -> Sequence[Command]:
    """Return the commands that copy a tile, row by row: a loop over its rows or, for a batch of
    images, two nested loops over its images and rows.

    tensor: the tensor in memory.
    copy: returns the command that copies a `_Piece`, the elements of the tile in one row."""
    if tile.flat:
        return _copied_elements(tensor, tile, copy)
    rows, columns, channels = spans(tile.region)
    row, images = Var("r"), _images(tile)
    image: Expr = 0 if images is None else Var("image")
    piece = _Piece(
        _row_offset(tile, image, row),
        _memory_address(tensor, tile, _row_number(tile, image, row), columns, channels),
        length(columns),
        length(channels) * tile.operand.element_bytes,
        minimum(1, row - rows[0] + (0 if images is None else image - images[0])),
    )
    by_row = Loop("r", *rows, 1, (copy(piece),))
    return [by_row] if images is None else [Loop("image", *images, 1, (by_row,))]


def _images(tile: ScratchpadTile) -> Span | None:
    """Return which images of a batch a tile covers, as an interval of their indices; None if the
    tensor is a single image."""
    is_batch = len(tile.operand.shape) == 4 and tile.operand.shape[0] > 1
    return tile.region[0] if is_batch else None


def _row_number(tile: ScratchpadTile, image: Expr, row: Expr) -> Expr:
    """Return the index of a row among the rows of all images of a batch: image * H + row for
    images of H rows.

    row: index of the row within the image."""
    return row if image == 0 else image * tile.operand.shape[1] + row


def _copied_elements(
    tensor: Operand, tile: ScratchpadTile, copy: Callable[[_Piece], Command]
) -> Sequence[Command]:
    """Return the commands that copy a tile of a flattened layer: an interval of the elements of the
    tensor in row-major order.

    If the tensor is contiguous in memory, one command copies the whole tile.  Otherwise, a loop
    over the rows that the interval overlaps copies those elements of each row that are in the
    interval.

    copy: returns the command that copies a `_Piece`: the whole tile, or its elements in one
        row."""
    lower, upper = tile.region[1]
    if tensor.contiguous:
        return [copy(_Piece(tile.base, offset(tensor.address, lower), 1, upper - lower, 0))]
    row, size = Var("r"), tensor.row_bytes
    rows = lower // size, (upper + size - 1) // size
    first, end = maximum(lower, row * size), minimum(upper, (row + 1) * size)
    piece = _Piece(
        tile.base + (first - lower),
        tensor.row(row, first - row * size),
        1,
        end - first,
        minimum(1, row - rows[0]),
    )
    return [Loop("r", *rows, 1, (copy(piece),))]


def load_weights(call: KernelCall, tile: ScratchpadTile, source: Address) -> Sequence[Command]:
    """Return the command that loads a tile of weights, which begin at `source`.  For each output
    channel and tap, it copies one run of contiguous input channels."""
    size = tile.operand.element_bytes
    outputs, channels = tile.region[0], tile.region[-1]
    _, *taps, depth = tile.operand.shape
    count = math.prod(taps)
    load = LoadTile(
        ScratchpadNumber.WEIGHTS,
        to=tile.base,
        source=offset(source, outputs[0] * (count * depth * size) + channels[0] * size),
        runs=length(outputs) * count,
        run_bytes=length(channels) * size,
        source_pitch=depth * size,
        pitch=tile.pitches[-2],
        chained=0,
    )
    return [invoke(call, load)]


def load_scales(
    call: KernelCall,
    tile: ScratchpadTile,
    tables: Sequence[tuple[str, int]] = (("multiplier", 4), ("shift", 1)),
) -> Sequence[Command]:
    """Return the commands that load the parameters of a tile of output channels into the memory of
    parameters: one command for the biases and for each table.  The engine executes the commands as
    a single DMA transfer.

    tables: names, and bytes per element, of tables with an element per output channel."""
    (outputs,) = tile.region
    sources = (call.operand(2).address, 4), *((call.table(name), size) for name, size in tables)
    loads = (
        LoadTile(
            ScratchpadNumber.PARAMETERS,
            to=place,
            source=offset(table, outputs[0] * size),
            runs=1,
            run_bytes=length(outputs) * size,
            source_pitch=0,
            pitch=0,
            chained=int(k > 0),
        )
        for k, (place, (table, size)) in enumerate(
            zip(scale_offsets(tile, outputs), sources, strict=False)
        )
    )
    return [invoke(call, load) for load in loads]


def load_constants(
    call: KernelCall, tile: ScratchpadTile, sources: Sequence[Address]
) -> Sequence[Command]:
    """Return the commands that load constants per channel into the scratchpad of weights: one
    command for each array in `sources`.

    tile: the tile of constants, with one row per array and one element per channel in each row.
    sources: addresses of the arrays; for a batch normalisation, the factors and the offsets."""
    channels = tile.region[-1]
    loads = (
        LoadTile(
            ScratchpadNumber.WEIGHTS,
            to=tile.base + k * tile.pitches[0],
            source=offset(source, channels[0]),
            runs=1,
            run_bytes=length(channels),
            source_pitch=0,
            pitch=0,
            chained=int(k > 0),
        )
        for k, source in enumerate(sources)
    )
    return [invoke(call, load) for load in loads]


def load_table(call: KernelCall, tile: ScratchpadTile, name: str) -> Sequence[Command]:
    """Return the command that loads the 256 entries of the operator's table `name` into the
    scratchpad of weights."""
    size = tile.operand.shape[0] * tile.operand.element_bytes
    return [
        invoke(
            call,
            LoadTile(
                ScratchpadNumber.WEIGHTS,
                to=tile.base,
                source=call.table(name),
                runs=1,
                run_bytes=size,
                source_pitch=size,
                pitch=size,
                chained=0,
            ),
        )
    ]


def scale_offsets(tile: ScratchpadTile, outputs: Span) -> tuple[Expr, Expr, Expr]:
    """Return the offsets in bytes, in the memory of parameters, at which the biases, multipliers
    and shifts of the output channels `outputs` begin.

    tile: the tile that holds the three arrays, one after the other: 4 bytes per bias and
        multiplier, 1 byte per shift.
    outputs: interval of output channels, all of which the tile contains."""
    room, at = tile.room[0], outputs[0] - tile.region[0][0]
    pairs = ((0, at * 4), (4 * room, at * 4), (8 * room, at))
    first, second, third = (tile.base + start + offset for start, offset in pairs)
    return first, second, third


def spans(region: Sequence[Span]) -> tuple[Span, Span, Span]:
    """Return the intervals of rows, columns and channels of a region.  They are its last three
    dimensions; a region of two dimensions, rows and channels, has the single column [0, 1)."""
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


def _row_offset(tile: ScratchpadTile, image: Expr, row: Expr) -> Expr:
    """Return the offset in bytes, in the scratchpad, at which a row of `tile` begins.

    image: index of the image in the batch; 0 for a single image.
    row: index of the row in the image, not in the tile."""
    first = spans(tile.region)[0][0]
    found = tile.base + (row - first) * row_and_column(tile)[0]
    if image == 0:
        return found
    return found + (image - tile.region[0][0]) * tile.pitches[0]


def _memory_address(
    tensor: Operand, tile: ScratchpadTile, row: Expr, columns: Span, channels: Span
) -> Address:
    """Return the address in memory of the first element of one row of a tile.

    tensor: the tensor in memory.
    row: index of the row among all rows of the tensor, images included.  The tiling of a fully
        connected layer may have reshaped its input to (N, C); then, an index in [0, N).  In this
        case, the tensor must be contiguous.
    columns, channels: intervals of columns and channels that the tile covers."""
    depth, size = tile.operand.shape[-1], tile.operand.element_bytes
    if len(tile.operand.shape) == 2 and tensor.type.shape != tile.operand.shape:
        return offset(tensor.address, row * (depth * size) + channels[0] * size)
    return tensor.row(row, columns[0] * (depth * size) + channels[0] * size)
