"""kernels: the operations of a call, tile by tile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from penstock.uma import (
    Address,
    Array,
    CallTiles,
    Command,
    DriverRecord,
    Expr,
    KernelCall,
    Offloaded,
    ScratchpadTile,
    TilePiece,
)
from penstock_pe_array.hardware import hardware_of
from penstock_pe_array.stream import (
    DRIVERS,
    AddTiles,
    Configure,
    Convolve,
    ConvolveChannels,
    Load,
    Pool,
    Store,
    Tile,
)
from penstock_pe_array.tiles import (
    PARAMETER_BYTES,
    WEIGHTED,
    bank_size,
    layer_on_array,
    tiling_of,
)
from penstock_pe_array.timeline import BufferNumber

CopyCommand = Callable[[TilePiece[Expr, Address]], Command]
SCALES = (
    *("zero0", "zero1", "multiplier0", "shift0", "multiplier1", "shift1"),
    *("out_multiplier", "out_shift", "out_zero"),
)
WINDOW = ("kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w")


def compute(call: KernelCall) -> Sequence[Command]:
    """Return the commands of a call: load, compute and store each tile of its rows."""
    tiles = CallTiles(call, layer_on_array(call), tiling_of(call, call.rows))
    operands = operand_tiles(tiles)
    *inputs, y = operands
    loads = [
        tile.copies(call.operand(k), _copy(Load, number))
        for (k, tile), number in zip(enumerate(inputs), BufferNumber, strict=False)
    ]
    run = _issue(TILES[call.main.kind](call, tiles, operands))
    configure = _issue(Configure.of(hardware_of(call.target)))
    stores = y.copies(call.result, _copy(Store, BufferNumber.OUTPUT))
    return [configure, *tiles.nest(loads, [run], stores)]


def parameters(offloaded: Offloaded) -> Mapping[str, Array]:
    """Return the table of a layer with weights: bias, multiplier and shift of each output channel,
    an int32 array of shape (channels, 3)."""
    if offloaded.main.kind not in WEIGHTED:
        return {}
    columns = offloaded.constant(2), offloaded.tables["multiplier"], offloaded.tables["shift"]
    return {"parameters": np.stack(columns, axis=1).astype(np.int32)}


def operand_tiles(tiles: CallTiles) -> tuple[ScratchpadTile, ...]:
    """Return the current tiles of inputs and output, with alternate tiles in alternate banks."""
    hardware, found = hardware_of(tiles.call.target), list[ScratchpadTile]()
    last = len(tiles.operand_tiles) - 1
    for k, (tile, moved) in enumerate(zip(tiles.operand_tiles, tiles.tiling.moved, strict=True)):
        base = tile.base
        if not isinstance(base, int):  # 0 or half of what is held, for tiles in turn
            buffer = BufferNumber.OUTPUT if k == last else BufferNumber(k)
            base = base // (moved.held_bytes // 2) * bank_size(hardware, buffer)
        found.append(replace(tile, base=base))
    return tuple(found)


def _issue(operation: DriverRecord) -> Command:
    return KernelCall.invoke_record(DRIVERS[type(operation)], operation)


def _copy(kind: type[Load[Expr, Address]], buffer: int) -> CopyCommand:
    def command(piece: TilePiece[Expr, Address]) -> Command:
        first = int(buffer), piece.local, piece.address
        return _issue(kind(*first, piece.runs, piece.run_bytes, piece.pitch, piece.local_pitch))

    return command


def _tile(call: KernelCall, x: ScratchpadTile, y: ScratchpadTile) -> dict[str, Expr]:
    """Return the registers of `Tile` for images."""
    _, out_h, out_w, out_c = y.shape
    return {
        "x": x.start,
        "x_row": x.pitches[1],
        "x_column": x.pitches[2],
        "y": y.start,
        "out_h": out_h,
        "out_w": out_w,
        "out_c": out_c,
        "y_row": y.pitches[1],
        "y_column": y.pitches[2],
        "least": call.parameters["least"],
        "most": call.parameters["most"],
    }


def _windows(call: KernelCall, x: ScratchpadTile, y: ScratchpadTile) -> dict[str, Expr]:
    """Return the registers of `WindowTile`."""
    _, in_h, in_w, _ = x.shape
    return {
        **_tile(call, x, y),
        "in_h": in_h,
        "in_w": in_w,
        "pad_top": x.padding[1],
        "pad_left": x.padding[2],
        **{name: call.parameters.get(name, 1) for name in WINDOW},
    }


def _with_unit_axes(tile: ScratchpadTile, before: int) -> ScratchpadTile:
    """Return the tile of a matrix with two axes of one element before axis `before`."""
    pitches, region, box, padding = (
        (*of[:before], one, one, *of[before:])
        for of, one in (
            (tile.pitches, 0),
            (tile.region, (0, 1)),
            (tile.box, (0, 1)),
            (tile.padding, 0),
        )
    )
    return replace(tile, pitches=pitches, region=region, box=box, padding=padding)


def _parameters_from(call: KernelCall, channel: Expr) -> Address:
    table = call.table("parameters")
    return Address(table.buffer, table.offset + channel * PARAMETER_BYTES)


def _convolution(
    call: KernelCall, tiles: CallTiles, operands: Sequence[ScratchpadTile]
) -> Convolve[Expr, Address]:
    """A fully connected layer is the convolution of an image with one row, whose columns are the
    rows of the matrix."""
    x, w, y = operands
    if len(x.box) == 2:
        x, w, y = _with_unit_axes(x, 0), _with_unit_axes(w, 1), _with_unit_axes(y, 0)
    p = call.parameters
    accumulate, finish = tiles.accumulation(x.box[3], p["in_c"])
    return Convolve(
        **_windows(call, x, y),
        depth=x.shape[3],
        w=w.start,
        w_output=w.pitches[0],
        w_tap=w.pitches[2],
        in_zero=p["in_zero"],
        out_zero=p["out_zero"],
        accumulate=accumulate,
        finish=finish,
        parameters=_parameters_from(call, y.box[3][0]),
    )


def _channel_convolution(
    call: KernelCall, tiles: CallTiles, operands: Sequence[ScratchpadTile]
) -> ConvolveChannels[Expr, Address]:
    del tiles
    x, w, y = operands
    p, first = call.parameters, y.box[3][0]
    per_channel = p["multiplier_d"]
    return ConvolveChannels(
        **_windows(call, x, y),
        w=w.start,
        w_tap=w.pitches[2],
        in_zero=p["in_zero"],
        out_zero=p["out_zero"],
        per_channel=per_channel,
        skipped=0 if per_channel == 1 or first == 0 else first % per_channel,
        parameters=_parameters_from(call, first),
    )


def _pool(
    call: KernelCall, tiles: CallTiles, operands: Sequence[ScratchpadTile]
) -> Pool[Expr, Address]:
    del tiles
    return Pool(**_windows(call, *operands), is_mean=int(call.main.kind == "AveragePool2D"))


def _sum(
    call: KernelCall, tiles: CallTiles, operands: Sequence[ScratchpadTile]
) -> AddTiles[Expr, Address]:
    del tiles
    x, w, y = operands
    return AddTiles(
        **_tile(call, x, y),
        w=w.start,
        w_row=w.pitches[1],
        w_tap=w.pitches[2],
        **{name: call.parameters[name] for name in SCALES},
    )


TILES: Mapping[
    str, Callable[[KernelCall, CallTiles, Sequence[ScratchpadTile]], Tile[Expr, Address]]
] = {
    "Conv2D": _convolution,
    "DepthwiseConv2D": _channel_convolution,
    "FullyConnected": _convolution,
    "MaxPool2D": _pool,
    "AveragePool2D": _pool,
    "Add": _sum,
}
"""By kind of operator, the function that returns the operation of a tile."""
