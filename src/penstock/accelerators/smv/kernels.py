"""kernels: the commands of a call, tile by tile: load, compute, store.

Each row is copied separately because a schedule may place rows independently of each other.
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
from penstock.accelerators.smv.tiles import CallTiles, Held, Span, added, rows_at_once, scratchpads
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


def in_turns(kernel: Callable[[KernelCall], Sequence[Command]]) -> Compute:
    """Wraps a kernel that needs a tiling of all rows of its call, so that it accepts any number of
    rows: the result loops over intervals of the largest number of rows for which a tiling
    exists."""

    @wraps(kernel)
    def compute(call: KernelCall) -> Sequence[Command]:
        rows, first = rows_at_once(call, call.rows), Var("first_row")
        if rows == call.rows:
            return kernel(call)
        part = replace(call, first=first, end=minimum(first + rows, call.end), rows=rows)
        return [Loop(first.name, call.first, call.end, rows, tuple(kernel(part)))]

    return compute


@in_turns
def conv2d(call: KernelCall) -> Sequence[Command]:
    """Convolution, in tiles of rows, columns, output channels and input channels."""
    tiles, p = CallTiles.of(call), call.parameters
    x, w, scale, y = tiles.held
    (_, rows, columns, depth), (outputs, *_) = tiles.box(x.operand), tiles.box(w.operand)
    _, out_h, out_w, _ = tiles.box(y.operand)
    _, d_rows, d_columns, _ = x.operand.dimensions
    bias, multiplier, shift = _scale_places(scale, outputs)
    accumulate, finish = _progress(tiles, depth, p["in_c"])
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
        *_summed(call, tiles, _invoke(call, compute)),
    ]


@in_turns
def fully_connected(call: KernelCall) -> Sequence[Command]:
    """Fully connected layer, in tiles of rows, outputs and inputs."""
    tiles, p = CallTiles.of(call), call.parameters
    x, w, scale, y = tiles.held
    rows, depth = tiles.box(x.operand)
    outputs, _ = tiles.box(w.operand)
    bias, multiplier, shift = _scale_places(scale, outputs)
    accumulate, finish = _progress(tiles, depth, p["in_c"])
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
        *_summed(call, tiles, _invoke(call, compute)),
    ]


@in_turns
def max_pool2d(call: KernelCall) -> Sequence[Command]:
    """Maximum over windows."""
    return _pooled(call, PoolFunction.MAX)


@in_turns
def average_pool2d(call: KernelCall) -> Sequence[Command]:
    """Mean over windows."""
    return _pooled(call, PoolFunction.AVERAGE)


@in_turns
def add(call: KernelCall) -> Sequence[Command]:
    """Element-wise sum or difference."""
    return _elementwise(call, AddTiles)


@in_turns
def mul(call: KernelCall) -> Sequence[Command]:
    """Element-wise product."""
    return _elementwise(call, MultiplyTiles)


def _pooled(call: KernelCall, function: PoolFunction) -> Sequence[Command]:
    """A pool, in tiles of rows, columns and channels."""
    tiles, p = CallTiles.of(call), call.parameters
    x, y = tiles.held
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
    """A sum or product of two tensors, in tiles of rows, columns and channels."""
    tiles, p = CallTiles.of(call), call.parameters
    a, b, y = tiles.held
    corner = [lower for lower, _ in tiles.box(y.operand)]
    rows, columns, channels = _three(tiles.box(y.operand))
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


def _summed(call: KernelCall, tiles: CallTiles, compute: Command) -> Sequence[Command]:
    """The loops of a layer with inputs, weights and scales."""
    x, w, scale, y = tiles.held
    loads = [_load(call, 0, x), _load_weights(call, w), _load_scales(call, scale)]
    return tiles.nest(loads, [compute], _store(call, y))


def _load(call: KernelCall, k: int, held: Held) -> Sequence[Command]:
    """Loads a tile of input k of the main node, row by row."""
    rows, columns, channels = _three(held.region)
    row = Var("r")
    load = LoadTile(
        ScratchpadNumber.INPUT,
        to=_row_place(held, row),
        source=_place(call.operand(k), held, row, columns, channels),
        runs=_length(columns),
        run_bytes=_length(channels),
        source_pitch=held.operand.shape[-1],
        pitch=_row_and_column(held)[1],
        chained=minimum(1, _difference(row, rows[0])),
    )
    return [Loop("r", *rows, 1, (_invoke(call, load),))]


def _store(call: KernelCall, held: Held) -> Sequence[Command]:
    """Stores a tile of the output, row by row."""
    rows, columns, channels = _three(held.region)
    row = Var("r")
    store = StoreTile(
        target=_place(call.result, held, row, columns, channels),
        at=_row_place(held, row),
        runs=_length(columns),
        run_bytes=_length(channels),
        target_pitch=held.operand.shape[-1],
        pitch=_row_and_column(held)[1],
        chained=minimum(1, _difference(row, rows[0])),
    )
    return [Loop("r", *rows, 1, (_invoke(call, store),))]


def _load_weights(call: KernelCall, held: Held) -> Sequence[Command]:
    """Loads a tile of weights: a run of channels for each output and tap."""
    outputs, channels = held.region[0], held.region[-1]
    _, *taps, depth = held.operand.shape
    count = math.prod(taps)
    load = LoadTile(
        ScratchpadNumber.WEIGHTS,
        to=held.base,
        source=_offset(call.operand(1).address, outputs[0] * (count * depth) + channels[0]),
        runs=_length(outputs) * count,
        run_bytes=_length(channels),
        source_pitch=depth,
        pitch=held.pitches[-2],
        chained=0,
    )
    return [_invoke(call, load)]


def _load_scales(call: KernelCall, held: Held) -> Sequence[Command]:
    """Loads the biases, multipliers and shifts of a tile of outputs."""
    (outputs,) = held.region
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
            zip(_scale_places(held, outputs), tables, strict=True)
        )
    )
    return [_invoke(call, load) for load in loads]


def _scale_places(held: Held, outputs: Span) -> tuple[Expr, Expr, Expr]:
    """The places of the biases, multipliers and shifts of some outputs, in consecutive arrays."""
    room, at = held.room[0], _difference(outputs[0], held.region[0][0])
    pairs = ((0, at * 4), (4 * room, at * 4), (8 * room, at))
    first, second, third = (added(held.base + start, offset) for start, offset in pairs)
    return first, second, third


def _progress(tiles: CallTiles, depth: Span, channels: int) -> tuple[Expr, Expr]:
    """Two expressions with value 0 or 1: whether a tile adds to earlier sums, and whether it
    completes the sums."""
    if not tiles.sums_are_cut:
        return 0, 1
    return minimum(1, depth[0]), depth[1] // channels


def _three(region: Sequence[Span]) -> tuple[Span, Span, Span]:
    """The spans of rows, columns and channels."""
    if len(region) == 2:
        return region[0], (0, 1), region[1]
    return region[-3], region[-2], region[-1]


def _row_and_column(held: Held) -> tuple[int, int]:
    """The pitches of rows and columns of a tile, in bytes."""
    if len(held.pitches) == 2:
        return held.pitches[0], 0
    *_, row, column, _ = held.pitches
    return row, column


def _row_place(held: Held, row: Expr) -> Expr:
    """The place of a row of a tile in its scratchpad."""
    first = _three(held.region)[0][0]
    return added(held.base, _difference(row, first) * _row_and_column(held)[0])


def _place(tensor: Operand, held: Held, row: Expr, columns: Span, channels: Span) -> Address:
    """The address in memory of the part of a row that a tile holds.

    A fully connected layer may group the elements of its input into other rows than the tensor has;
    such a tensor is contiguous."""
    depth = held.operand.shape[-1]
    if tensor.type.shape != held.operand.shape:
        return _offset(tensor.address, row * depth + channels[0])
    return tensor.row(row, columns[0] * depth + channels[0])


def _offset(address: Address, offset_bytes: Expr) -> Address:
    """An address some bytes after another one."""
    return Address(address.buffer, added(address.offset, offset_bytes))


def _length(span: Span) -> Expr:
    """The length of an interval."""
    return _difference(span[1], span[0])


def _difference(a: Expr, b: Expr) -> Expr:
    """a - b, simplified if both are equal."""
    return 0 if a == b else a - b


def _invoke(call: KernelCall, record: DriverRecord) -> Command:
    """The call of the driver function that takes the record."""
    sizes = [memory.size_bytes for memory in scratchpads(call.target).scratchpads]
    functions = drivers(call.target.name, (sizes[0], sizes[1], sizes[2]))
    return call.invoke_record(functions[type(record)], record)
