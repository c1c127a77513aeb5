"""Kernels: the commands of a call, tile by tile: load, compute, store.

Rows are copied one by one, since a schedule may put each of them anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps

from penstock.accelerators.smv.engine import AVERAGE, INPUT, MAX, WEIGHTS, drivers
from penstock.accelerators.smv.tiles import Held, Span, Tiles, added, rows_at_once, scratchpads
from penstock.uma import (
    Address,
    Command,
    Compute,
    Expr,
    Invoke,
    KernelCall,
    Loop,
    Operand,
    Var,
    minimum,
)

WINDOW = ("stride_h", "stride_w", "dilation_h", "dilation_w")
NUMBERS = ("in_zero", "out_zero", "least", "most")
TERMS = (
    "zero0", "zero1", "multiplier0", "shift0", "multiplier1", "shift1", "sign1",
    "out_multiplier", "out_shift",
)  # fmt: skip


def in_turns(kernel: Callable[[KernelCall], Sequence[Command]]) -> Compute:
    """The kernel for calls of as many rows as one likes: so many at once as there are tiles for."""

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
    """Convolution: tiles of rows, columns, outputs and input channels."""
    tiles, p = Tiles.of(call), call.parameters
    x, w, scale, y = tiles.held
    (_, rows, columns, depth), (outputs, *_) = tiles.box(x.operand), tiles.box(w.operand)
    _, out_h, out_w, _ = tiles.box(y.operand)
    _, d_rows, d_columns, _ = x.operand.dimensions
    compute = _invoke(
        call, "conv2d", x.at(0, rows[0], columns[0], depth[0]), *_sizes(rows, columns),
        tiles.padding(d_rows), tiles.padding(d_columns), *_sizes(depth),
        p["kernel_h"], p["kernel_w"], w.at(outputs[0], 0, 0, depth[0]),
        *_scale_places(scale, outputs), y.at(0, out_h[0], out_w[0], y.region[3][0]),
        _less(outputs[0], y.region[3][0]), *_sizes(out_h, out_w, outputs),
        *_progress(tiles, depth, p["in_c"]),
    )  # fmt: skip
    set_up = [
        _set(call, "window", WINDOW),
        _set(call, "numbers", NUMBERS),
        _invoke(call, "pitches", *x.pitches[1:3], w.pitches[0], w.pitches[2], *y.pitches[1:3]),
    ]
    return [*set_up, *_summed(call, tiles, compute)]


@in_turns
def fully_connected(call: KernelCall) -> Sequence[Command]:
    """Fully connected layer: tiles of rows, outputs and inputs."""
    tiles, p = Tiles.of(call), call.parameters
    x, w, scale, y = tiles.held
    rows, depth = tiles.box(x.operand)
    outputs, _ = tiles.box(w.operand)
    compute = _invoke(
        call, "fully_connected", x.at(rows[0], depth[0]), *_sizes(rows, depth),
        w.at(outputs[0], depth[0]), *_scale_places(scale, outputs),
        y.at(rows[0], y.region[1][0]), _less(outputs[0], y.region[1][0]), *_sizes(outputs),
        *_progress(tiles, depth, p["in_c"]),
    )  # fmt: skip
    set_up = [
        _set(call, "numbers", NUMBERS),
        _invoke(call, "pitches", x.pitches[0], 0, w.pitches[0], 0, y.pitches[0], 0),
    ]
    return [*set_up, *_summed(call, tiles, compute)]


@in_turns
def max_pool2d(call: KernelCall) -> Sequence[Command]:
    """The largest element under a window."""
    return _pooled(call, MAX)


@in_turns
def average_pool2d(call: KernelCall) -> Sequence[Command]:
    """The mean of the elements under a window."""
    return _pooled(call, AVERAGE)


@in_turns
def add(call: KernelCall) -> Sequence[Command]:
    """Sum, or difference, element by element."""
    return _elementwise(call, "add")


@in_turns
def mul(call: KernelCall) -> Sequence[Command]:
    """Product, element by element."""
    return _elementwise(call, "mul")


def _pooled(call: KernelCall, kind: int) -> Sequence[Command]:
    tiles, p = Tiles.of(call), call.parameters
    x, y = tiles.held
    _, rows, columns, channels = tiles.box(x.operand)
    out = tiles.box(y.operand)
    _, d_rows, d_columns, _ = x.operand.dimensions
    compute = _invoke(
        call, "pool", kind, x.at(0, rows[0], columns[0], channels[0]), *_sizes(rows, columns),
        tiles.padding(d_rows), tiles.padding(d_columns), p["kernel_h"], p["kernel_w"],
        y.at(*(lower for lower, _ in out)), *_sizes(*out[1:]),
    )  # fmt: skip
    return [
        _set(call, "window", WINDOW),
        _set(call, "numbers", NUMBERS),
        _invoke(call, "pitches", *x.pitches[1:3], 0, 0, *y.pitches[1:3]),
        *tiles.nest([_load(call, 0, x)], [compute], _store(call, y)),
    ]


def _elementwise(call: KernelCall, name: str) -> Sequence[Command]:
    tiles = Tiles.of(call)
    a, b, y = tiles.held
    corner = [lower for lower, _ in tiles.box(y.operand)]
    compute = _invoke(
        call, name, a.at(*corner), b.at(*corner), y.at(*corner),
        *_sizes(*_three(tiles.box(y.operand))),
    )  # fmt: skip
    pitches = (pitch for held in (a, b, y) for pitch in _row_and_column(held))
    return [
        _set(call, "numbers", NUMBERS),
        _set(call, "terms", TERMS),
        _invoke(call, "pitches", *pitches),
        *tiles.nest([_load(call, 0, a), _load(call, 1, b)], [compute], _store(call, y)),
    ]


def _summed(call: KernelCall, tiles: Tiles, compute: Command) -> Sequence[Command]:
    """The loops of a layer of inputs, weights and scales."""
    x, w, scale, y = tiles.held
    loads = [_load(call, 0, x), _load_weights(call, w), _load_scales(call, scale)]
    return tiles.nest(loads, [compute], _store(call, y))


def _load(call: KernelCall, k: int, held: Held) -> Sequence[Command]:
    """Loads a tile of input k of the main node, row by row."""
    rows, columns, channels = _three(held.region)
    row = Var("r")
    source, all_channels = call.operand(k), held.operand.shape[-1]
    body = _invoke(
        call, "load", INPUT, _row_place(held, row),
        _place(source, held, row, columns, channels), *_sizes(columns, channels),
        all_channels, _row_and_column(held)[1], minimum(1, _less(row, rows[0])),
    )  # fmt: skip
    return [Loop("r", *rows, 1, (body,))]


def _store(call: KernelCall, held: Held) -> Sequence[Command]:
    """Stores a tile of the output, row by row."""
    rows, columns, channels = _three(held.region)
    row = Var("r")
    all_channels = held.operand.shape[-1]
    body = _invoke(
        call, "store", _place(call.result, held, row, columns, channels),
        _row_place(held, row), *_sizes(columns, channels),
        all_channels, _row_and_column(held)[1], minimum(1, _less(row, rows[0])),
    )  # fmt: skip
    return [Loop("r", *rows, 1, (body,))]


def _load_weights(call: KernelCall, held: Held) -> Sequence[Command]:
    """Loads a tile of weights: of each output and tap, a run of channels."""
    outputs, channels = held.region[0], held.region[-1]
    _, *taps, depth = held.operand.shape
    count = math.prod(taps)
    source = _behind(call.operand(1).address, outputs[0] * (count * depth) + channels[0])
    return [
        _invoke(
            call, "load", WEIGHTS, held.base, source, _less(*reversed(outputs)) * count,
            *_sizes(channels), depth, held.pitches[-2], 0,
        )
    ]  # fmt: skip


def _load_scales(call: KernelCall, held: Held) -> Sequence[Command]:
    """Loads biases, multipliers and shifts of a tile of outputs."""
    (outputs,) = held.region
    tables = (call.operand(2).address, 4), (call.table("multiplier"), 4), (call.table("shift"), 1)
    places = _scale_places(held, outputs)
    return [
        _invoke(
            call, "load", WEIGHTS, place, _behind(table, outputs[0] * size), 1,
            _less(*reversed(outputs)) * size, 0, 0, int(k > 0),
        )
        for k, (place, (table, size)) in enumerate(zip(places, tables, strict=True))
    ]  # fmt: skip


def _scale_places(held: Held, outputs: Span) -> tuple[Expr, Expr, Expr]:
    """Where biases, multipliers and shifts of some outputs lie: one array behind the other."""
    room, at = held.room[0], _less(outputs[0], held.region[0][0])
    pairs = ((0, at * 4), (4 * room, at * 4), (8 * room, at))
    first, second, third = (added(held.base + start, offset) for start, offset in pairs)
    return first, second, third


def _progress(tiles: Tiles, depth: Span, channels: int) -> tuple[Expr, Expr]:
    """Whether a tile adds to sums that there are; whether it completes them: 0 or 1."""
    if not tiles.sums_are_cut:
        return 0, 1
    return minimum(1, depth[0]), depth[1] // channels


def _three(region: Sequence[Span]) -> tuple[Span, Span, Span]:
    """Rows, columns and channels."""
    if len(region) == 2:
        return region[0], (0, 1), region[1]
    return region[-3], region[-2], region[-1]


def _row_and_column(held: Held) -> tuple[int, int]:
    """Bytes from a row of a tile to the next, and from a column."""
    if len(held.pitches) == 2:
        return held.pitches[0], 0
    *_, row, column, _ = held.pitches
    return row, column


def _row_place(held: Held, row: Expr) -> Expr:
    """The byte at which a row of a tile begins."""
    first = _three(held.region)[0][0]
    return added(held.base, _less(row, first) * _row_and_column(held)[0])


def _place(tensor: Operand, held: Held, row: Expr, columns: Span, channels: Span) -> Address:
    """Where the part of a row begins that a tile holds.  A fully connected layer may see the
    elements of a tensor in other rows than the tensor has; then it lies there whole."""
    depth = held.operand.shape[-1]
    if tensor.type.shape != held.operand.shape:
        return _behind(tensor.address, row * depth + channels[0])
    return tensor.row(row, columns[0] * depth + channels[0])


def _behind(address: Address, offset_bytes: Expr) -> Address:
    return Address(address.buffer, added(address.offset, offset_bytes))


def _sizes(*spans: Span) -> tuple[Expr, ...]:
    return tuple(_less(upper, lower) for lower, upper in spans)


def _less(a: Expr, b: Expr) -> Expr:
    """The difference; 0 of equals."""
    return 0 if a == b else a - b


def _set(call: KernelCall, name: str, parameters: Sequence[str]) -> Invoke:
    """Sets numbers of the call's arithmetic; those that it has not are 0."""
    return _invoke(call, name, *(call.parameters.get(p, 0) for p in parameters))


def _invoke(call: KernelCall, name: str, *arguments: Expr | Address) -> Invoke:
    sizes = [memory.size_bytes for memory in scratchpads(call.target).scratchpads]
    function = drivers(call.target.name, (sizes[0], sizes[1], sizes[2]))[name]
    return call.invoke(function, *arguments)
