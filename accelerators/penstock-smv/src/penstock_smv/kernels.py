"""kernels: the commands of convolutions, fully connected layers and pools, tile by tile."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.uma import CallTiles, Command, KernelCall
from penstock_smv.commands import invoke, length, tiled
from penstock_smv.copies import (
    load,
    load_scales,
    load_weights,
    scale_offsets,
    store,
)
from penstock_smv.operations import (
    ConvolveTile,
    DepthwiseTile,
    ElementRange,
    FullyConnectedTile,
    PoolFunction,
    PoolTile,
    TilePitches,
    WindowSteps,
    setting,
)


@tiled
def conv2d(call: KernelCall, tiles: CallTiles) -> Sequence[Command]:
    """Return the commands of a convolution, in tiles of rows, columns, output channels and input
    channels."""
    p = call.parameters
    x, w, scale, y = tiles.operand_tiles
    (_, rows, columns, depth), (outputs, *_) = x.box, w.box
    _, out_h, out_w, _ = y.box
    bias, multiplier, shift = scale_offsets(scale, outputs)
    accumulate, finish = tiles.accumulation(depth, p["in_c"])
    compute = ConvolveTile(
        x=x.at(*tiles.corner(x)),
        in_h=length(rows),
        in_w=length(columns),
        pad_top=x.padding[1],
        pad_left=x.padding[2],
        depth=length(depth),
        kernel_h=p["kernel_h"],
        kernel_w=p["kernel_w"],
        w=w.at(outputs[0], 0, 0, depth[0]),
        bias=bias,
        multiplier=multiplier,
        shift=shift,
        y=y.at(tiles.image, out_h[0], out_w[0], y.region[3][0]),
        y_first=outputs[0] - y.region[3][0],
        out_h=length(out_h),
        out_w=length(out_w),
        outputs=length(outputs),
        accumulate=accumulate,
        finish=finish,
    )
    pitches = TilePitches(
        x.pitches[1], x.pitches[2], w.pitches[0], w.pitches[2], y.pitches[1], y.pitches[2]
    )
    return [
        invoke(call, setting(WindowSteps, p)),
        invoke(call, setting(ElementRange, p)),
        invoke(call, pitches),
        *_weighted_loops(call, tiles, invoke(call, compute)),
    ]


@tiled
def depthwise_conv2d(call: KernelCall, tiles: CallTiles) -> Sequence[Command]:
    """Return the commands of a depthwise convolution, in tiles of rows, columns and channels."""
    p = call.parameters
    x, w, scale, y = tiles.operand_tiles
    _, rows, columns, _ = x.box
    _, out_h, out_w, out_c = y.box
    bias, multiplier, shift = scale_offsets(scale, out_c)
    per_channel = p["multiplier_d"]
    compute = DepthwiseTile(
        x=x.at(*tiles.corner(x)),
        in_h=length(rows),
        in_w=length(columns),
        pad_top=x.padding[1],
        pad_left=x.padding[2],
        per_channel=per_channel,
        skipped=0 if per_channel == 1 or out_c[0] == 0 else out_c[0] % per_channel,
        kernel_h=p["kernel_h"],
        kernel_w=p["kernel_w"],
        w=w.at(0, 0, 0, out_c[0]),
        bias=bias,
        multiplier=multiplier,
        shift=shift,
        y=y.at(*tiles.corner(y)),
        out_h=length(out_h),
        out_w=length(out_w),
        channels=length(out_c),
    )
    pitches = TilePitches(x.pitches[1], x.pitches[2], 0, w.pitches[2], y.pitches[1], y.pitches[2])
    return [
        invoke(call, setting(WindowSteps, p)),
        invoke(call, setting(ElementRange, p)),
        invoke(call, pitches),
        *_weighted_loops(call, tiles, invoke(call, compute)),
    ]


@tiled
def fully_connected(call: KernelCall, tiles: CallTiles) -> Sequence[Command]:
    """Return the commands of a fully connected layer, in tiles of rows, outputs and inputs."""
    p = call.parameters
    x, w, scale, y = tiles.operand_tiles
    rows, depth = x.box
    outputs, _ = w.box
    bias, multiplier, shift = scale_offsets(scale, outputs)
    accumulate, finish = tiles.accumulation(depth, p["in_c"])
    compute = FullyConnectedTile(
        x=x.at(rows[0], depth[0]),
        rows=length(rows),
        depth=length(depth),
        w=w.at(outputs[0], depth[0]),
        bias=bias,
        multiplier=multiplier,
        shift=shift,
        y=y.at(rows[0], y.region[1][0]),
        y_first=outputs[0] - y.region[1][0],
        outputs=length(outputs),
        accumulate=accumulate,
        finish=finish,
    )
    pitches = TilePitches(x_row=x.pitches[0], w_output=w.pitches[0], y_row=y.pitches[0])
    return [
        invoke(call, setting(ElementRange, p)),
        invoke(call, pitches),
        *_weighted_loops(call, tiles, invoke(call, compute)),
    ]


@tiled
def max_pool2d(call: KernelCall, tiles: CallTiles) -> Sequence[Command]:
    """Return the commands of a pool that computes the maximum of each window."""
    return _pool(call, tiles, PoolFunction.MAX)


@tiled
def average_pool2d(call: KernelCall, tiles: CallTiles) -> Sequence[Command]:
    """Return the commands of a pool that computes the mean of each window."""
    return _pool(call, tiles, PoolFunction.AVERAGE)


def _pool(call: KernelCall, tiles: CallTiles, function: PoolFunction) -> Sequence[Command]:
    """Return the commands of a pool, in tiles of rows, columns and channels."""
    p = call.parameters
    x, y = tiles.operand_tiles
    _, rows, columns, _ = x.box
    _, out_h, out_w, out_c = y.box
    compute = PoolTile(
        function,
        x=x.at(*tiles.corner(x)),
        in_h=length(rows),
        in_w=length(columns),
        pad_top=x.padding[1],
        pad_left=x.padding[2],
        kernel_h=p["kernel_h"],
        kernel_w=p["kernel_w"],
        y=y.at(*tiles.corner(y)),
        out_h=length(out_h),
        out_w=length(out_w),
        channels=length(out_c),
    )
    pitches = TilePitches(x.pitches[1], x.pitches[2], 0, 0, y.pitches[1], y.pitches[2])
    return [
        invoke(call, setting(WindowSteps, p)),
        invoke(call, setting(ElementRange, p)),
        invoke(call, pitches),
        *tiles.nest(
            [load(call, call.operand(0), x)], tiles.by_image(invoke(call, compute)), store(call, y)
        ),
    ]


def _weighted_loops(call: KernelCall, tiles: CallTiles, compute: Command) -> Sequence[Command]:
    """Return the loops over all tiles of a layer with weights.  Their commands load the tiles of
    inputs, weights and scales, compute each output tile and store it.

    compute: the command that computes an output tile (of one image, if there are several)."""
    x, w, scale, y = tiles.operand_tiles
    loads = [load(call, call.operand(0), x), load_weights(call, w), load_scales(call, scale)]
    return tiles.nest(loads, tiles.by_image(compute), store(call, y))
