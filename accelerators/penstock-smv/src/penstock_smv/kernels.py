"""kernels: the commands of convolutions, fully connected layers and pools, tile by tile."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.uma import CallTiles, Command, KernelCall, Loop, Var, maximum, minimum
from penstock_smv.commands import invoke, length, tiled
from penstock_smv.copies import (
    load,
    load_scales,
    load_weights,
    row_and_column,
    scale_offsets,
    spans,
    store,
)
from penstock_smv.operations import (
    ConvolveTile,
    DepthwiseTile,
    ElementRange,
    FullyConnectedTile,
    HalfTile,
    MatrixTile,
    PoolFunction,
    PoolTile,
    TermScales,
    TilePitches,
    WindowSteps,
    setting,
)


@tiled
def conv2d(call: KernelCall, tiles: CallTiles) -> Sequence[Command]:
    """Return the commands of a convolution, in tiles of rows, columns, output channels and input
    channels.

    With several groups of channels, a tile has all input channels, and the engine computes the
    output channels of each group by themselves."""
    p = call.parameters
    x, w, scale, y = tiles.operand_tiles
    (_, rows, columns, depth), (outputs, *_) = x.box, w.box
    _, out_h, out_w, _ = y.box
    groups, group, corner = p["groups"], Var("group"), tiles.corner(x)
    per_group = p["out_c"] // groups
    of_tile = outputs
    if groups > 1:
        channels = p["in_c"] // groups
        depth = (0, channels)
        outputs = (
            maximum(outputs[0], group * per_group),
            minimum(outputs[1], (group + 1) * per_group),
        )
        corner = (*corner[:-1], group * channels)
    bias, multiplier, shift = scale_offsets(scale, outputs)
    accumulate, finish = tiles.accumulation(depth, p["in_c"])
    compute = ConvolveTile(
        x=x.at(*corner),
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
    command: Command = invoke(call, compute)
    if groups > 1:
        first, last = of_tile[0] // per_group, (of_tile[1] + per_group - 1) // per_group
        command = Loop(group.name, first, last, 1, (command,))
    return [
        invoke(call, setting(WindowSteps, p)),
        invoke(call, setting(ElementRange, p)),
        invoke(call, pitches),
        *_weighted_loops(call, tiles, command),
    ]


@tiled
def half_layer(call: KernelCall, tiles: CallTiles) -> Sequence[Command]:
    """Return the commands of a convolution or a fully connected layer of float16 elements, in tiles
    as those of int8.  The rows of a fully connected layer are those of an image with one column."""
    x, w, bias, y = tiles.operand_tiles
    is_image = len(y.box) == 4
    windows = call.parameters if is_image else {"kernel_h": 1, "kernel_w": 1}
    rows, columns, depth = spans(x.box)
    outputs, summed = w.box[0], w.box[-1]
    out_h, out_w, _ = spans(y.box)
    corner = tiles.corner(x)[:-1], tiles.corner(y)[:-1]
    accumulate, finish = tiles.accumulation(summed, call.parameters["in_c"])
    least, most = call.tables["bounds"].view("int32").tolist()
    compute = HalfTile(
        x=x.at(*corner[0], depth[0]),
        in_h=length(rows),
        in_w=length(columns),
        pad_top=x.padding[1] if is_image else 0,
        pad_left=x.padding[2] if is_image else 0,
        depth=length(depth),
        kernel_h=windows["kernel_h"],
        kernel_w=windows["kernel_w"],
        w=w.at(outputs[0], *(0,) * (len(w.box) - 2), summed[0]),
        bias=scale_offsets(bias, outputs)[0],
        y=y.at(*corner[1], outputs[0]),
        out_h=length(out_h),
        out_w=length(out_w),
        outputs=length(outputs),
        least=least,
        most=most,
        accumulate=accumulate,
        finish=finish,
    )
    pitches = TilePitches(
        *row_and_column(x), w.pitches[0], w.pitches[-2] if is_image else 0, *row_and_column(y)
    )
    loads = [
        load(call, call.operands[call.input_index(0)], x),
        load_weights(call, w, call.table("weights")),
        load_scales(call, bias, ()),
    ]
    return [
        invoke(
            call, setting(WindowSteps, call.parameters) if is_image else WindowSteps(1, 1, 1, 1)
        ),
        invoke(call, pitches),
        *tiles.nest(loads, tiles.by_image(invoke(call, compute)), store(call, y)),
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
def matmul(call: KernelCall, tiles: CallTiles) -> Sequence[Command]:
    """Return the commands of products of matrices, in tiles of matrices, rows and columns."""
    p = call.parameters
    a, b, y = tiles.operand_tiles
    *_, rows, columns = y.box
    matrix = Var("matrix")
    stack = (tiles.image, matrix) if len(y.box) == 4 else (matrix,)
    # A matrix is transposed if its elements within a row, or a column, are not adjacent.
    a_transposed, b_transposed = p["inner0"] != 1, p["column1"] != 1
    m, n, depth = rows[0], columns[0], p["depth"]
    compute = MatrixTile(
        a=a.at(*stack, *((0, m) if a_transposed else (m, 0))),
        b=b.at(*stack, *((n, 0) if b_transposed else (0, n))),
        y=y.at(*stack, m, n),
        rows=length(rows),
        depth=depth,
        columns=length(columns),
        a_row=1 if a_transposed else a.pitches[-2],
        a_inner=a.pitches[-2] if a_transposed else 1,
        b_inner=1 if b_transposed else b.pitches[-2],
        b_column=b.pitches[-2] if b_transposed else 1,
    )
    terms = TermScales(
        zero0=p["zero0"], zero1=p["zero1"], out_multiplier=p["multiplier"], out_shift=p["shift"]
    )
    pitches = TilePitches(y_row=y.pitches[-3], y_column=y.pitches[-2])
    command = Loop(matrix.name, *y.box[-3], 1, (invoke(call, compute),))
    loads = [load(call, call.operand(0), a), load(call, call.operand(1), b)]
    return [
        invoke(call, setting(ElementRange, p)),
        invoke(call, terms),
        invoke(call, pitches),
        *tiles.nest(loads, tiles.by_image(command), store(call, y)),
    ]


@tiled
def concatenate(call: KernelCall, tiles: CallTiles) -> Sequence[Command]:
    """Return the commands of a concatenation, in tiles of rows, columns and channels.

    Of each input, the part that the tile of the output contains is loaded, and moved to the output
    as the maximum of windows of one element."""
    *inputs, y = tiles.operand_tiles
    loads: list[Sequence[Command]] = []
    moves: list[Command] = []
    for k, x in enumerate(inputs):
        corner, (rows, columns, channels) = tiles.corner(x), spans(x.box)
        firsts = (-int(d.offset) for d in x.operand.dimensions)
        move = PoolTile(
            PoolFunction.MAX,
            x=x.at(*corner),
            in_h=length(rows),
            in_w=length(columns),
            pad_top=0,
            pad_left=0,
            kernel_h=1,
            kernel_w=1,
            y=y.at(*(at + first for at, first in zip(corner, firsts, strict=True))),
            out_h=length(rows),
            out_w=length(columns),
            channels=length(channels),
        )
        pitches = TilePitches(*row_and_column(x), 0, 0, *row_and_column(y))
        loads.append(load(call, call.operand(k), x))
        moves += [invoke(call, pitches), *tiles.by_image(invoke(call, move))]
    return [
        invoke(call, WindowSteps()),
        invoke(call, ElementRange()),
        *tiles.nest(loads, moves, store(call, y)),
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
    loads = [
        load(call, call.operand(0), x),
        load_weights(call, w, call.operand(1).address),
        load_scales(call, scale),
    ]
    return tiles.nest(loads, tiles.by_image(compute), store(call, y))
