"""models: the functional models of the driver's functions; their results equal those of `smv.c`.

Each receives the state of the engine and the record of the function's arguments.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from penstock.uma import (
    Array,
    doubling_high_multiply,
    multiply,
    requantise,
    rounding_shift,
    sliding_windows,
)
from penstock_smv.engine import SmvEngine
from penstock_smv.operations import (
    AddTiles,
    CompareTiles,
    ConvolveTile,
    DepthwiseTile,
    ElementRange,
    ExtremeTiles,
    FullyConnectedTile,
    HalfTile,
    LoadTile,
    LookUpTile,
    MatrixTile,
    MultiplyTiles,
    NormaliseTile,
    PoolFunction,
    PoolTile,
    ProductScales,
    ScratchpadNumber,
    SelectEngine,
    SoftmaxTile,
    StoreTile,
    TermScales,
    TilePitches,
    WaitForEngines,
    WindowSteps,
)

Sums = NDArray[np.int64]


def load(engine: SmvEngine, op: LoadTile[int, Array]) -> None:
    """Functional model of `smv_load`: copy runs of bytes from memory to a scratchpad."""
    tile = engine.tile(op.memory, op.to, (op.runs, op.run_bytes), (op.pitch, 1))
    tile[:] = _strided(op.source, op.runs, op.run_bytes, op.source_pitch).view(np.int8)


def store(engine: SmvEngine, op: StoreTile[int, Array]) -> None:
    """Functional model of `smv_store`: copy runs of bytes from the output scratchpad to memory."""
    tile = engine.tile(ScratchpadNumber.OUTPUT, op.at, (op.runs, op.run_bytes), (op.pitch, 1))
    _strided(op.target, op.runs, op.run_bytes, op.target_pitch)[:] = tile.view(np.uint8)


def _strided(content: Array, runs: int, run_bytes: int, pitch: int) -> Array:
    """Return a view of shape (runs, run_bytes) on runs of bytes that are `pitch` bytes apart.

    The first run begins at the first byte of `content`.  Raises IndexError if the last run exceeds
    `content`."""
    if (runs - 1) * pitch + run_bytes > content.size:
        raise IndexError(f"{runs} runs of {run_bytes} bytes, {pitch} apart, leave the memory")
    return as_strided(content, (runs, run_bytes), (pitch, 1))


def select(engine: SmvEngine, op: SelectEngine[int]) -> None:
    """Functional model of `smv_select`: select the engine that executes what follows."""
    engine.selected = op.engine


def wait(engine: SmvEngine, op: WaitForEngines) -> None:
    """Functional model of `smv_wait`: operations have completed when their functions return."""


def conv2d(engine: SmvEngine, op: ConvolveTile[int]) -> None:
    """Functional model of `smv_conv2d`: convolve an input tile with a tile of weights, and write
    the accumulators or the requantised elements to the output tile (`_finish_sums`)."""
    pitches = engine.pitches
    image = engine.tile(
        ScratchpadNumber.INPUT,
        op.x,
        (op.in_h, op.in_w, op.depth),
        (pitches.x_row, pitches.x_column, 1),
    )
    taps = engine.tile(
        ScratchpadNumber.WEIGHTS,
        op.w,
        (op.outputs, op.kernel_h, op.kernel_w, op.depth),
        (pitches.w_output, op.kernel_w * pitches.w_tap, pitches.w_tap, 1),
    )
    # float64 holds every sum exactly: products are below 2**15, and there are less than 2**38.
    found, inside = _windows(engine, op, image)
    centred = (found.astype(np.float64) - engine.range.in_zero) * inside
    products = np.tensordot(centred, taps.astype(np.float64), ((2, 3, 4), (1, 2, 3)))
    _finish_sums(engine, products.astype(np.int64), op)


def half_layer(engine: SmvEngine, op: HalfTile[int]) -> None:
    """Functional model of `smv_half_layer`: convolve a tile of float16 elements.  Each product is
    added to the sum in float32, in the order of the weights; a complete sum and its bias are
    clamped, and rounded to float16."""
    pitches, half = engine.pitches, np.float16
    image = engine.tile(
        ScratchpadNumber.INPUT,
        op.x,
        (op.in_h, op.in_w, op.depth),
        (pitches.x_row, pitches.x_column, 2),
        half,
    ).astype(np.float32)
    taps = engine.tile(
        ScratchpadNumber.WEIGHTS,
        op.w,
        (op.outputs, op.kernel_h, op.kernel_w, op.depth),
        (pitches.w_output, op.kernel_w * pitches.w_tap, pitches.w_tap, 2),
        half,
    ).astype(np.float32)
    shape, steps = (op.out_h, op.out_w, op.outputs), (pitches.y_row, pitches.y_column, 2)
    outputs = engine.tile(ScratchpadNumber.OUTPUT, op.y, shape, steps, half)
    partial = engine.half_sums(op.y, shape)
    totals = partial.copy() if op.accumulate else np.zeros(shape, np.float32)
    found, inside = _windows(engine, op, image)
    with np.errstate(all="ignore"):
        for k, l in np.ndindex(op.kernel_h, op.kernel_w):  # noqa: E741
            met = inside[:, :, k, l, 0]
            read = found[met, k, l]
            for c in range(op.depth):
                totals[met] += read[:, c, None] * taps[:, k, l, c]
        if not op.finish:
            partial[:] = totals
            return
        raw = engine.tile(ScratchpadNumber.PARAMETERS, op.bias, (op.outputs,), (4,), np.float32)
        least, most = np.array([op.least, op.most], np.int32).view(np.float32)
        outputs[:] = np.clip(totals + raw, least, most)


def depthwise_conv2d(engine: SmvEngine, op: DepthwiseTile[int]) -> None:
    """Functional model of `smv_depthwise_conv2d`: convolve each channel of a tile with its own
    weights, and write the requantised elements to the output tile."""
    pitches, limits = engine.pitches, engine.range
    sources = (op.skipped + np.arange(op.channels)) // op.per_channel
    depth = int(sources[-1]) + 1 if op.channels else 0
    image = engine.tile(
        ScratchpadNumber.INPUT,
        op.x,
        (op.in_h, op.in_w, depth),
        (pitches.x_row, pitches.x_column, 1),
    )
    taps = engine.tile(
        ScratchpadNumber.WEIGHTS,
        op.w,
        (op.kernel_h, op.kernel_w, op.channels),
        (op.kernel_w * pitches.w_tap, pitches.w_tap, 1),
    )
    shape = (op.out_h, op.out_w, op.channels)
    found, inside = _windows(engine, op, image[..., sources])
    products = (found.astype(np.int64) - engine.range.in_zero) * inside * taps.astype(np.int64)
    totals = engine.scales(op.bias, op.channels, np.int32) + products.sum((2, 3))
    engine.outputs(op.y, shape)[:] = requantise(
        totals,
        engine.scales(op.multiplier, op.channels, np.int32),
        engine.scales(op.shift, op.channels, np.int8),
        limits.out_zero,
        (limits.least, limits.most),
    )


def fully_connected(engine: SmvEngine, op: FullyConnectedTile[int]) -> None:
    """Functional model of `smv_fully_connected`: multiply a tile of inputs, a matrix (rows,
    inputs), by a tile of weights, and write the accumulators or the requantised elements to the
    output tile (`_finish_sums`)."""
    pitches = engine.pitches
    vectors = engine.tile(ScratchpadNumber.INPUT, op.x, (op.rows, op.depth), (pitches.x_row, 1))
    weights = engine.tile(
        ScratchpadNumber.WEIGHTS, op.w, (op.outputs, op.depth), (pitches.w_output, 1)
    )
    centred = vectors.astype(np.int64) - engine.range.in_zero
    products = (centred @ weights.astype(np.int64).T)[:, None]
    _finish_sums(engine, products, op)


def matmul(engine: SmvEngine, op: MatrixTile[int]) -> None:
    """Functional model of `smv_matmul`: multiply two matrices, and write the requantised products
    to the output tile."""
    terms, limits = engine.terms, engine.range
    a = engine.tile(ScratchpadNumber.INPUT, op.a, (op.rows, op.depth), (op.a_row, op.a_inner))
    b = engine.tile(
        ScratchpadNumber.WEIGHTS, op.b, (op.depth, op.columns), (op.b_inner, op.b_column)
    )
    products = (a.astype(np.int64) - terms.zero0) @ (b.astype(np.int64) - terms.zero1)
    engine.outputs(op.y, (1, op.rows, op.columns))[0] = requantise(
        products,
        terms.out_multiplier,
        terms.out_shift,
        limits.out_zero,
        (limits.least, limits.most),
    )


def pool(engine: SmvEngine, op: PoolTile[int]) -> None:
    """Functional model of `smv_pool`: compute the maximum or the mean of each window of a tile."""
    pitches, window, limits = engine.pitches, engine.window, engine.range
    shape = (op.in_h, op.in_w, op.channels)
    image = engine.tile(ScratchpadNumber.INPUT, op.x, shape, (pitches.x_row, pitches.x_column, 1))
    found = engine.outputs(op.y, (op.out_h, op.out_w, op.channels))
    if op.channels == 0:
        return
    for i in range(op.out_h):
        rows = _window_elements(i, window.stride_h, op.pad_top, op.kernel_h, op.in_h)
        for j in range(op.out_w):
            columns = _window_elements(j, window.stride_w, op.pad_left, op.kernel_w, op.in_w)
            elements = image[rows, columns].astype(np.int64).reshape(-1, op.channels)
            is_max = op.function is PoolFunction.MAX
            value = elements.max(0, initial=-128) if is_max else _mean(elements)
            found[i, j] = np.clip(value, limits.least, limits.most)


def add(engine: SmvEngine, op: AddTiles[int]) -> None:
    """Functional model of `smv_add`: add two tiles element by element, or subtract the second tile
    from the first (`TermScales.sign1`)."""
    terms = engine.terms
    left, right = _centred_inputs(engine, op)
    _store_result(engine, op, _scaled_sums(terms, left, right))


def mul(engine: SmvEngine, op: MultiplyTiles[int]) -> None:
    """Functional model of `smv_mul`: multiply two tiles element by element."""
    left, right = _centred_inputs(engine, op)
    _store_result(engine, op, left * right)


def extreme(engine: SmvEngine, op: ExtremeTiles[int]) -> None:
    """Functional model of `smv_extreme`: the larger or the smaller of two tiles' elements."""
    left, right = _inputs(engine, op)
    found = np.maximum(left, right) if op.larger else np.minimum(left, right)
    engine.outputs(op.y, (op.rows, op.columns, op.channels))[:] = found


def compare(engine: SmvEngine, op: CompareTiles[int]) -> None:
    """Functional model of `smv_compare`: compare two tiles element by element."""
    terms = engine.terms
    left, right = _centred_inputs(engine, op)
    sign = np.sign(
        multiply(left << 8, terms.multiplier0, terms.shift0)
        - multiply(right << 8, terms.multiplier1, terms.shift1)
    )
    shape = (op.rows, op.columns, op.channels)
    engine.outputs(op.y, shape)[:] = (op.relation >> (sign + 1)) & 1


def softmax(engine: SmvEngine, op: SoftmaxTile[int]) -> None:
    """Functional model of `smv_softmax`: the softmax of each vector of channels."""
    pitches, shape = engine.pitches, (op.rows, op.columns, op.channels)
    image = engine.tile(ScratchpadNumber.INPUT, op.x, shape, (pitches.x_row, pitches.x_column, 1))
    raw = engine.tile(ScratchpadNumber.WEIGHTS, op.table, (4 * 256,), (1,))
    table = np.ascontiguousarray(raw).view(np.int32).astype(np.int64)
    vectors = image.astype(np.int64)
    powers = table[vectors.max(2, keepdims=True, initial=-128) - vectors]
    sums = rounding_shift(powers, 12).sum(2, keepdims=True)
    # The binary point moves so that the leading bit of a sum is bit 31: it is 1 + fraction.
    lengths = np.array([int(one).bit_length() for one in sums.ravel()], np.int64)
    headroom = 32 - lengths.reshape(sums.shape)
    scales = _reciprocals((sums << headroom) - (1 << 31))
    parts = rounding_shift(doubling_high_multiply(scales, powers), 12 - headroom + 31 - 8)
    engine.outputs(op.y, shape)[:] = np.clip(parts - 128, -128, 127)


def _reciprocals(fractions: Sums) -> Sums:
    """Return 1 / (1 + f) for f in [0, 1), with 31 bits after the binary point, by Newton's method.

    Source: gemmlowp, `one_over_one_plus_x_for_x_in_0_1`, which TFLite uses."""
    halves = (fractions + (1 << 31)) >> 1
    found = 1515870810 + doubling_high_multiply(halves, -1010580540)  # 48/17, -32/17
    for _ in range(3):
        rest = (1 << 29) - doubling_high_multiply(halves, found)
        found = found + (doubling_high_multiply(found, rest) << 2)
    return np.minimum(found << 1, (1 << 31) - 1)


def batch_norm(engine: SmvEngine, op: NormaliseTile[int]) -> None:
    """Functional model of `smv_batch_norm`: multiply each element of a tile by the factor of its
    channel, and add the offset of its channel."""
    pitches, terms, products = engine.pitches, engine.terms, engine.products
    shape = (op.rows, op.columns, op.channels)
    image = engine.tile(ScratchpadNumber.INPUT, op.x, shape, (pitches.x_row, pitches.x_column, 1))
    factors, offsets = (
        engine.tile(ScratchpadNumber.WEIGHTS, at, (op.channels,), (1,)).astype(np.int64)
        for at in (op.factors, op.offsets)
    )
    scaled = requantise(
        (image.astype(np.int64) - products.zero0) * (factors - products.zero1),
        products.out_multiplier,
        products.out_shift,
        products.out_zero,
        (products.least, products.most),
    )
    left, right = scaled.astype(np.int64) - terms.zero0, offsets - terms.zero1
    _store_result(engine, op, _scaled_sums(terms, left, right))


def lookup(engine: SmvEngine, op: LookUpTile[int]) -> None:
    """Functional model of `smv_lookup`: replace each element x of a tile by entry x + 128 of a
    table."""
    pitches, shape = engine.pitches, (op.rows, op.columns, op.channels)
    image = engine.tile(ScratchpadNumber.INPUT, op.x, shape, (pitches.x_row, pitches.x_column, 1))
    table = engine.tile(ScratchpadNumber.WEIGHTS, op.table, (256,), (1,))
    engine.outputs(op.y, shape)[:] = table[image.astype(np.int64) + 128]


def _scaled_sums(terms: TermScales, left: Sums, right: Sums) -> Sums:
    """Return the element-wise sum or difference of two tensors, scaled as `TermScales` describes
    and not yet requantised.

    left, right: the elements of the tensors minus their zero points, in arrays of the same shape
        or of shapes that broadcast."""
    return multiply(left << 20, terms.multiplier0, terms.shift0) + terms.sign1 * multiply(
        right << 20, terms.multiplier1, terms.shift1
    )


def _store_result(engine: SmvEngine, op: AddTiles[int] | NormaliseTile[int], values: Sums) -> None:
    """Requantise element-wise sums or products, and write the int8 elements to the output tile of
    `op`.

    values: array of shape (rows, columns, channels)."""
    terms, limits = engine.terms, engine.range
    engine.outputs(op.y, (op.rows, op.columns, op.channels))[:] = requantise(
        values, terms.out_multiplier, terms.out_shift, limits.out_zero, (limits.least, limits.most)
    )


def set_window(engine: SmvEngine, window: WindowSteps) -> None:
    """Functional model of `smv_window`: set the strides and dilations of windows."""
    engine.window = window


def set_range(engine: SmvEngine, limits: ElementRange) -> None:
    """Functional model of `smv_numbers`: set the zero points, and the bounds to which output
    elements are clamped."""
    engine.range = limits


def set_pitches(engine: SmvEngine, pitches: TilePitches) -> None:
    """Functional model of `smv_pitches`: set the pitches of tiles in the scratchpads."""
    engine.pitches = pitches


def set_terms(engine: SmvEngine, terms: TermScales) -> None:
    """Functional model of `smv_terms`: set the zero points, scales and sign of element-wise sums
    and products."""
    engine.terms = terms


def set_products(engine: SmvEngine, products: ProductScales) -> None:
    """Functional model of `smv_scaling`: set the zero points, scale and bounds of the products in
    batch normalisation."""
    engine.products = products


def _windows(
    engine: SmvEngine, op: ConvolveTile[int] | DepthwiseTile[int] | HalfTile[int], image: Array
) -> tuple[Array, Array]:
    """Return the elements under each window, and which of them are inside the image, see
    `sliding_windows`; none are in an empty one."""
    size, kernel, steps = (op.out_h, op.out_w), (op.kernel_h, op.kernel_w), engine.window
    if 0 in image.shape:
        nothing = np.zeros((*size, *kernel, image.shape[2]), image.dtype)
        return nothing, np.zeros((*size, *kernel, 1), np.bool_)
    return sliding_windows(
        image,
        size,
        kernel,
        (steps.stride_h, steps.stride_w),
        (steps.dilation_h, steps.dilation_w),
        (op.pad_top, op.pad_left),
    )


def _window_elements(index: int, stride: int, pad: int, size: int, extent: int) -> slice:
    """Return the slice of the input that a window covers along one dimension, without padding.

    For example, the window with index 0, of 3 elements after 1 element of padding, covers
    slice(0, 2).

    index: index of the output element that the window computes.
    pad: number of padding elements before the input.
    size: number of elements of the window.
    extent: number of elements of the input."""
    lower = index * stride - pad
    return slice(max(lower, 0), max(0, min(lower + size, extent)))


def _mean(elements: Sums) -> Sums:
    """Return the mean of each channel, of shape (channels,), rounded to the nearest integer with
    ties away from zero.

    elements: the elements that a window covers, of shape (elements, channels)."""
    count, total = len(elements), elements.sum(0)
    half = count // 2
    return np.where(total > 0, (total + half) // count, -((half - total) // count))


def _centred_inputs(engine: SmvEngine, op: AddTiles[int]) -> tuple[Sums, Sums]:
    """Return the elements of both input tiles minus their zero points, as two int64 arrays of shape
    (rows, columns, channels)."""
    left, right = _inputs(engine, op)
    return left - engine.terms.zero0, right - engine.terms.zero1


def _inputs(engine: SmvEngine, op: AddTiles[int]) -> tuple[Sums, Sums]:
    """Return the elements of both input tiles, as int64 arrays (rows, columns, channels)."""
    pitches, shape = engine.pitches, (op.rows, op.columns, op.channels)
    first, second = (pitches.x_row, pitches.x_column, 1), (pitches.w_output, pitches.w_tap, 1)
    left = engine.tile(ScratchpadNumber.INPUT, op.a, shape, first)
    right = engine.tile(ScratchpadNumber.WEIGHTS, op.b, shape, second)
    return left.astype(np.int64), right.astype(np.int64)


def _finish_sums(
    engine: SmvEngine, products: Sums, op: ConvolveTile[int] | FullyConnectedTile[int]
) -> None:
    """Add the sums of products that `op` has computed to the partial sums of an output tile.

    products: the sums of products, of shape (rows, columns, output channels).

    The sums begin with those in the accumulators if `op.accumulate` is 1, otherwise with the
    biases.  The result is written to the output scratchpad as requantised int8 elements if
    `op.finish` is 1, otherwise to the accumulators."""
    rows, columns, outputs = products.shape
    shape, limits = (rows, columns, outputs), engine.range
    at = op.y + op.y_first
    if op.accumulate:
        totals = products + engine.sums(at, shape)
    else:
        totals = products + engine.scales(op.bias, outputs, np.int32)
    if not op.finish:
        engine.sums(at, shape)[:] = totals
        return
    engine.outputs(at, shape)[:] = requantise(
        totals,
        engine.scales(op.multiplier, outputs, np.int32),
        engine.scales(op.shift, outputs, np.int8),
        limits.out_zero,
        (limits.least, limits.most),
    )
