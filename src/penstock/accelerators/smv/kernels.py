"""kernels: the commands of a kernel call, tile by tile: load, compute, store.

Each row of a tile is copied by a command of its own, because the rows of a tensor need not be
equally spaced in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps

from penstock.accelerators.smv.engine import drivers
from penstock.accelerators.smv.operations import (
    AddTiles,
    ConnectTile,
    ConvolveTile,
    ElementRange,
    LoadTile,
    MultiplyTiles,
    PoolFunction,
    PoolTile,
    ScratchpadNumber,
    StoreTile,
    TermScales,
    TilePitches,
    WindowSteps,
    setting,
)
from penstock.accelerators.smv.tiles import CallTiles, ScratchpadTile, Span, added
from penstock.accelerators.smv.tiling import rows_at_once, scratchpads
from penstock.uma import (
    Address,
    Command,
    Compute,
    DriverRecord,
    Expr,
    KernelCall,
    Loop,
    Operand,
    Var,
    minimum,
)


def by_row_intervals(kernel: Callable[[KernelCall], Sequence[Command]]) -> Compute:
    """Decorate a kernel so that its calls may compute any number of rows.

    `kernel` requires a tiling of all rows of a call.  If the tiler finds none, the decorated kernel
    loops over intervals of rows for which there is a tiling."""

    @wraps(kernel)
    def compute(call: KernelCall) -> Sequence[Command]:
        rows, first = rows_at_once(call, call.rows), Var("first_row")
        if rows == call.rows:
            return kernel(call)
        part = replace(call, first=first, end=minimum(first + rows, call.end), rows=rows)
        return [Loop(first.name, call.first, call.end, rows, tuple(kernel(part)))]

    return compute


@by_row_intervals
def conv2d(call: KernelCall) -> Sequence[Command]:
    """Return the commands of a convolution, in tiles of rows, columns, output channels and input
    channels."""
    tiles, p = CallTiles.of(call), call.parameters
    x, w, scale, y = tiles.operand_tiles
    (_, rows, columns, depth), (outputs, *_) = tiles.box(x.operand), tiles.box(w.operand)
    _, out_h, out_w, _ = tiles.box(y.operand)
    _, d_rows, d_columns, _ = x.operand.dimensions
    bias, multiplier, shift = _scale_offsets(scale, outputs)
    accumulate, finish = _accumulation_flags(tiles, depth, p["in_c"])
    compute = ConvolveTile(
        x=x.at(0, rows[0], columns[0], depth[0]),
        in_h=_length(rows),
        in_w=_length(columns),
        pad_top=tiles.padding(d_rows),
        pad_left=tiles.padding(d_columns),
        depth=_length(depth),
        kernel_h=p["kernel_h"],
        kernel_w=p["kernel_w"],
        w=w.at(outputs[0], 0, 0, depth[0]),
        bias=bias,
        multiplier=multiplier,
        shift=shift,
        y=y.at(0, out_h[0], out_w[0], y.region[3][0]),
        y_first=_difference(outputs[0], y.region[3][0]),
        out_h=_length(out_h),
        out_w=_length(out_w),
        outputs=_length(outputs),
        accumulate=accumulate,
        finish=finish,
    )
    pitches = TilePitches(
        x.pitches[1], x.pitches[2], w.pitches[0], w.pitches[2], y.pitches[1], y.pitches[2]
    )
    return [
        _invoke(call, setting(WindowSteps, p)),
        _invoke(call, setting(ElementRange, p)),
        _invoke(call, pitches),
        *_reduction_loops(call, tiles, _invoke(call, compute)),
    ]


@by_row_intervals
def fully_connected(call: KernelCall) -> Sequence[Command]:
    """Return the commands of a fully connected layer, in tiles of rows, outputs and inputs."""
    tiles, p = CallTiles.of(call), call.parameters
    x, w, scale, y = tiles.operand_tiles
    rows, depth = tiles.box(x.operand)
    outputs, _ = tiles.box(w.operand)
    bias, multiplier, shift = _scale_offsets(scale, outputs)
    accumulate, finish = _accumulation_flags(tiles, depth, p["in_c"])
    compute = ConnectTile(
        x=x.at(rows[0], depth[0]),
        rows=_length(rows),
        depth=_length(depth),
        w=w.at(outputs[0], depth[0]),
        bias=bias,
        multiplier=multiplier,
        shift=shift,
        y=y.at(rows[0], y.region[1][0]),
        y_first=_difference(outputs[0], y.region[1][0]),
        outputs=_length(outputs),
        accumulate=accumulate,
        finish=finish,
    )
    pitches = TilePitches(x_row=x.pitches[0], w_output=w.pitches[0], y_row=y.pitches[0])
    return [
        _invoke(call, setting(ElementRange, p)),
        _invoke(call, pitches),
        *_reduction_loops(call, tiles, _invoke(call, compute)),
    ]


@by_row_intervals
def max_pool2d(call: KernelCall) -> Sequence[Command]:
    """Return the commands of a pool that computes the maximum of each window."""
    return _pool(call, PoolFunction.MAX)


@by_row_intervals
def average_pool2d(call: KernelCall) -> Sequence[Command]:
    """Return the commands of a pool that computes the mean of each window."""
    return _pool(call, PoolFunction.AVERAGE)


@by_row_intervals
def add(call: KernelCall) -> Sequence[Command]:
    """Return the commands of an element-wise sum or difference."""
    return _elementwise(call, AddTiles)


@by_row_intervals
def mul(call: KernelCall) -> Sequence[Command]:
    """Return the commands of an element-wise product."""
    return _elementwise(call, MultiplyTiles)


def _pool(call: KernelCall, function: PoolFunction) -> Sequence[Command]:
    """Return the commands of a pool, in tiles of rows, columns and channels."""
    tiles, p = CallTiles.of(call), call.parameters
    x, y = tiles.operand_tiles
    _, rows, columns, channels = tiles.box(x.operand)
    out = tiles.box(y.operand)
    _, out_h, out_w, out_c = out
    _, d_rows, d_columns, _ = x.operand.dimensions
    compute = PoolTile(
        function,
        x=x.at(0, rows[0], columns[0], channels[0]),
        in_h=_length(rows),
        in_w=_length(columns),
        pad_top=tiles.padding(d_rows),
        pad_left=tiles.padding(d_columns),
        kernel_h=p["kernel_h"],
        kernel_w=p["kernel_w"],
        y=y.at(*(lower for lower, _ in out)),
        out_h=_length(out_h),
        out_w=_length(out_w),
        channels=_length(out_c),
    )
    pitches = TilePitches(x.pitches[1], x.pitches[2], 0, 0, y.pitches[1], y.pitches[2])
    return [
        _invoke(call, setting(WindowSteps, p)),
        _invoke(call, setting(ElementRange, p)),
        _invoke(call, pitches),
        *tiles.nest([_load(call, 0, x)], [_invoke(call, compute)], _store(call, y)),
    ]


def _elementwise(call: KernelCall, record: type[AddTiles[Expr]]) -> Sequence[Command]:
    """Return the commands of an element-wise sum or product of two tensors, tile by tile.

    record: `AddTiles` for a sum or difference, `MultiplyTiles` for a product."""
    tiles, p = CallTiles.of(call), call.parameters
    a, b, y = tiles.operand_tiles
    corner = [lower for lower, _ in tiles.box(y.operand)]
    rows, columns, channels = _spans(tiles.box(y.operand))
    compute = record(
        a=a.at(*corner),
        b=b.at(*corner),
        y=y.at(*corner),
        rows=_length(rows),
        columns=_length(columns),
        channels=_length(channels),
    )
    pitches = TilePitches(*_row_and_column(a), *_row_and_column(b), *_row_and_column(y))
    loads = [_load(call, 0, a), _load(call, 1, b)]
    return [
        _invoke(call, setting(ElementRange, p)),
        _invoke(call, setting(TermScales, p)),
        _invoke(call, pitches),
        *tiles.nest(loads, [_invoke(call, compute)], _store(call, y)),
    ]


def _reduction_loops(call: KernelCall, tiles: CallTiles, compute: Command) -> Sequence[Command]:
    """Return the loops over all tiles of a layer with weights: load, compute, store.

    compute: the command that computes a tile."""
    x, w, scale, y = tiles.operand_tiles
    loads = [_load(call, 0, x), _load_weights(call, w), _load_scales(call, scale)]
    return tiles.nest(loads, [compute], _store(call, y))


def _load(call: KernelCall, k: int, tile: ScratchpadTile) -> Sequence[Command]:
    """Return the commands that load a tile of the layer's input `k`, row by row."""
    rows, columns, channels = _spans(tile.region)
    row = Var("r")
    load = LoadTile(
        ScratchpadNumber.INPUT,
        to=_row_offset(tile, row),
        source=_memory_address(call.operand(k), tile, row, columns, channels),
        runs=_length(columns),
        run_bytes=_length(channels),
        source_pitch=tile.operand.shape[-1],
        pitch=_row_and_column(tile)[1],
        chained=minimum(1, _difference(row, rows[0])),
    )
    return [Loop("r", *rows, 1, (_invoke(call, load),))]


def _store(call: KernelCall, tile: ScratchpadTile) -> Sequence[Command]:
    """Return the commands that store a tile of the output, row by row."""
    rows, columns, channels = _spans(tile.region)
    row = Var("r")
    store = StoreTile(
        target=_memory_address(call.result, tile, row, columns, channels),
        at=_row_offset(tile, row),
        runs=_length(columns),
        run_bytes=_length(channels),
        target_pitch=tile.operand.shape[-1],
        pitch=_row_and_column(tile)[1],
        chained=minimum(1, _difference(row, rows[0])),
    )
    return [Loop("r", *rows, 1, (_invoke(call, store),))]


def _load_weights(call: KernelCall, tile: ScratchpadTile) -> Sequence[Command]:
    """Return the commands that load a tile of weights: for each output channel and tap, one run of
    contiguous input channels."""
    outputs, channels = tile.region[0], tile.region[-1]
    _, *taps, depth = tile.operand.shape
    count = math.prod(taps)
    load = LoadTile(
        ScratchpadNumber.WEIGHTS,
        to=tile.base,
        source=_offset(call.operand(1).address, outputs[0] * (count * depth) + channels[0]),
        runs=_length(outputs) * count,
        run_bytes=_length(channels),
        source_pitch=depth,
        pitch=tile.pitches[-2],
        chained=0,
    )
    return [_invoke(call, load)]


def _load_scales(call: KernelCall, tile: ScratchpadTile) -> Sequence[Command]:
    """Return the commands that load biases, multipliers and shifts of a tile of output channels."""
    (outputs,) = tile.region
    tables = (call.operand(2).address, 4), (call.table("multiplier"), 4), (call.table("shift"), 1)
    loads = (
        LoadTile(
            ScratchpadNumber.WEIGHTS,
            to=place,
            source=_offset(table, outputs[0] * size),
            runs=1,
            run_bytes=_length(outputs) * size,
            source_pitch=0,
            pitch=0,
            chained=int(k > 0),
        )
        for k, (place, (table, size)) in enumerate(
            zip(_scale_offsets(tile, outputs), tables, strict=True)
        )
    )
    return [_invoke(call, load) for load in loads]


def _scale_offsets(tile: ScratchpadTile, outputs: Span) -> tuple[Expr, Expr, Expr]:
    """Return where the biases, multipliers and shifts of the output channels `outputs` begin.

    The result has three offsets in bytes in the scratchpad of weights.  `tile` holds the values as
    three consecutive arrays, and may hold more channels than the interval `outputs`."""
    room, at = tile.room[0], _difference(outputs[0], tile.region[0][0])
    pairs = ((0, at * 4), (4 * room, at * 4), (8 * room, at))
    first, second, third = (added(tile.base + start, offset) for start, offset in pairs)
    return first, second, third


def _accumulation_flags(tiles: CallTiles, depth: Span, channels: int) -> tuple[Expr, Expr]:
    """Return (accumulate, finish), which tell how a tile contributes to sums over input channels.

    accumulate: 1 if the tile adds to partial sums of earlier tiles, 0 if it begins new sums.
    finish: 1 if the tile completes the sums, otherwise 0.

    Both are expressions, because they may depend on loop variables.

    depth: interval of input channels that the tile sums.
    channels: number of input channels of the layer."""
    if not tiles.has_partial_sums:
        return 0, 1
    return minimum(1, depth[0]), depth[1] // channels


def _spans(region: Sequence[Span]) -> tuple[Span, Span, Span]:
    """Return the row, column and channel intervals; a region of two dimensions has one column."""
    if len(region) == 2:
        return region[0], (0, 1), region[1]
    return region[-3], region[-2], region[-1]


def _row_and_column(tile: ScratchpadTile) -> tuple[int, int]:
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
    first = _spans(tile.region)[0][0]
    return added(tile.base, _difference(row, first) * _row_and_column(tile)[0])


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
        return _offset(tensor.address, row * depth + channels[0])
    return tensor.row(row, columns[0] * depth + channels[0])


def _offset(address: Address, offset_bytes: Expr) -> Address:
    """Return the address `offset_bytes` bytes after `address`."""
    return Address(address.buffer, added(address.offset, offset_bytes))


def _length(span: Span) -> Expr:
    """Return the length of an interval."""
    return _difference(span[1], span[0])


def _difference(a: Expr, b: Expr) -> Expr:
    """Return a - b, simplified to 0 if both are equal."""
    return 0 if a == b else a - b


def _invoke(call: KernelCall, record: DriverRecord) -> Command:
    """Return the command that calls a driver function with the fields of `record` as arguments.

    The class of `record` determines the function."""
    sizes = [memory.size_bytes for memory in scratchpads(call.target).scratchpads]
    functions = drivers(call.target.name, (sizes[0], sizes[1], sizes[2]))
    return call.invoke_record(functions[type(record)], record)
