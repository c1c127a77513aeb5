"""operations: a record class for each driver function, which changes settings of the engine (they
persist until they are set again), or copies or computes a tile.

The fields are the arguments of the C function in `smv.h`, in order.  Kernels fill a record with
expressions and addresses (`Expr`, `Address`).  The functional models receive the same record with
numbers and bytes instead (`int`, `Array`).

Tiles begin at the scratchpad offsets `x` (input), `w` (weights) and `y` (output).  The inputs of an
element-wise operation begin at `a`, in the scratchpad of inputs, and `b`, in the scratchpad of
weights.  Offsets and pitches are in bytes, sizes in elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Generic, TypeVar

Number = TypeVar("Number")
Memory = TypeVar("Memory")


class ScratchpadNumber(IntEnum):
    """One of the three scratchpads, or the memory of biases, multipliers and shifts; each value is
    its number in the driver interface."""

    INPUT = 0
    WEIGHTS = 1
    OUTPUT = 2
    PARAMETERS = 3


class PoolFunction(IntEnum):
    """The function that a pool computes over a window: its maximum or its mean.  Each value is the
    number of the function in the driver interface."""

    MAX = 0
    AVERAGE = 1


@dataclass(frozen=True, slots=True)
class LoadTile(Generic[Number, Memory]):
    """The arguments of `smv_load`, which copies runs of bytes from memory to a scratchpad.

    The bytes of a run are contiguous.

    memory: the scratchpad.
    to: offset in bytes of the first run in the scratchpad.
    source: the first run in memory.
    runs, run_bytes: number of runs, and bytes per run.
    source_pitch: bytes between the starts of consecutive runs in memory.
    pitch: bytes between the starts of consecutive runs in the scratchpad.
    chained: 1 if the copy continues the DMA transfer of the previous copy, 0 if it begins one."""

    memory: ScratchpadNumber
    to: Number
    source: Memory
    runs: Number
    run_bytes: Number
    source_pitch: Number
    pitch: Number
    chained: Number


@dataclass(frozen=True, slots=True)
class StoreTile(Generic[Number, Memory]):
    """The arguments of `smv_store`, which copies runs of bytes from a scratchpad to memory.

    The scratchpad is always the one for outputs.  The bytes of a run are contiguous.

    target: the first run in memory.
    at: offset in bytes of the first run in the scratchpad.
    runs, run_bytes: number of runs, and bytes per run.
    target_pitch: bytes between the starts of consecutive runs in memory.
    pitch: bytes between the starts of consecutive runs in the scratchpad.
    chained: 1 if the copy continues the DMA transfer of the previous copy, 0 if it begins one."""

    target: Memory
    at: Number
    runs: Number
    run_bytes: Number
    target_pitch: Number
    pitch: Number
    chained: Number


@dataclass(frozen=True, slots=True)
class ConvolveTile(Generic[Number]):
    """The arguments of `smv_conv2d`, which computes a tile of a convolution.

    Offsets are in bytes from the start of a scratchpad.

    x, w, y: offsets of the tiles of inputs, weights and outputs.
    in_h, in_w: rows and columns of the input tile, without padding.
    pad_top, pad_left: rows and columns of padding before the input tile.
    depth: number of input channels over which products are added up.
    kernel_h, kernel_w: rows and columns of the window.
    bias, multiplier, shift: offsets of the biases, multipliers and shifts of the output channels,
        in the memory of parameters.
    y_first: index, within each pixel of the output tile, of the first channel that is computed.
    out_h, out_w: rows and columns of the output tile.
    outputs: number of output channels that are computed.
    accumulate: 1 to add to the partial sums of the output tile, 0 to begin with the biases.
    finish: 1 to requantise the sums, 0 to leave them in the accumulators."""

    x: Number
    in_h: Number
    in_w: Number
    pad_top: Number
    pad_left: Number
    depth: Number
    kernel_h: int
    kernel_w: int
    w: Number
    bias: Number
    multiplier: Number
    shift: Number
    y: Number
    y_first: Number
    out_h: Number
    out_w: Number
    outputs: Number
    accumulate: Number
    finish: Number


@dataclass(frozen=True, slots=True)
class HalfTile(Generic[Number]):
    """The arguments of `smv_half_layer`, which computes a tile of a convolution, or of a fully
    connected layer, of float16 elements.  Sums, biases and their bounds are float32.

    Offsets are in bytes from the start of a scratchpad.

    least, most: bits of the bounds to which complete sums are clamped.
    y: offset of the first channel that is computed.

    The other fields are those of `ConvolveTile`; the sums are complete if `finish` is 1, and the
    biases are added to them."""

    x: Number
    in_h: Number
    in_w: Number
    pad_top: Number
    pad_left: Number
    depth: Number
    kernel_h: int
    kernel_w: int
    w: Number
    bias: Number
    y: Number
    out_h: Number
    out_w: Number
    outputs: Number
    least: int
    most: int
    accumulate: Number
    finish: Number


@dataclass(frozen=True, slots=True)
class DepthwiseTile(Generic[Number]):
    """The arguments of `smv_depthwise_conv2d`, which computes a tile of a depthwise convolution.

    Output channel o of the tile reads channel (skipped + o) // per_channel of the input tile.

    x, w, y: offsets in bytes of the tiles of inputs, weights and outputs in their scratchpads.
    in_h, in_w: rows and columns of the input tile, without padding.
    pad_top, pad_left: rows and columns of padding before the input tile.
    per_channel: number of output channels that read each input channel.
    skipped: the number of output channels that read the first channel of the input tile, but
        precede the output tile.  For example, let `per_channel` be 4, and let the output tile begin
        with channel 6 of the output.  The input tile then begins with channel 1, which output
        channels 4 to 7 read.  Channels 4 and 5 precede the output tile, so `skipped` is 2.
    kernel_h, kernel_w: rows and columns of the window.
    bias, multiplier, shift: offsets of the biases, multipliers and shifts of the output channels,
        in the memory of parameters.
    out_h, out_w, channels: shape of the output tile."""

    x: Number
    in_h: Number
    in_w: Number
    pad_top: Number
    pad_left: Number
    per_channel: int
    skipped: Number
    kernel_h: int
    kernel_w: int
    w: Number
    bias: Number
    multiplier: Number
    shift: Number
    y: Number
    out_h: Number
    out_w: Number
    channels: Number


@dataclass(frozen=True, slots=True)
class FullyConnectedTile(Generic[Number]):
    """The arguments of `smv_fully_connected`, which computes a tile of a fully connected layer.

    Offsets are in bytes from the start of a scratchpad.

    x, w, y: offsets of the tiles of inputs, weights and outputs.
    rows: number of rows of inputs and of outputs.
    depth: number of inputs of each row that are multiplied and added up.
    bias, multiplier, shift: offsets of the biases, multipliers and shifts of the outputs, in the
        memory of parameters.
    y_first: index, within each row of the output tile, of the first output that is computed.
    outputs: number of outputs per row that are computed.
    accumulate: 1 to add to the partial sums of the output tile, 0 to begin with the biases.
    finish: 1 to requantise the sums, 0 to leave them in the accumulators."""

    x: Number
    rows: Number
    depth: Number
    w: Number
    bias: Number
    multiplier: Number
    shift: Number
    y: Number
    y_first: Number
    outputs: Number
    accumulate: Number
    finish: Number


@dataclass(frozen=True, slots=True)
class MatrixTile(Generic[Number]):
    """The arguments of `smv_matmul`, which computes a tile of the product of two matrices.

    a, b, y: offsets in bytes of the tiles in the scratchpads of inputs, weights and outputs.
    rows, depth, columns: rows of `a`, elements that are multiplied and added up, columns of `b`.
    a_row, a_inner: bytes between the elements of `a` of consecutive rows, and within a row.
    b_inner, b_column: bytes between the elements of `b` within a column, and of consecutive
        columns."""

    a: Number
    b: Number
    y: Number
    rows: Number
    depth: Number
    columns: Number
    a_row: int
    a_inner: int
    b_inner: int
    b_column: int


@dataclass(frozen=True, slots=True)
class PoolTile(Generic[Number]):
    """The arguments of `smv_pool`, which computes the maximum or the mean of each window of a tile.

    Elements of padding do not count.

    function: whether the maximum or the mean is computed.
    x, y: offsets in bytes of the tiles of inputs and outputs in their scratchpads.
    in_h, in_w: rows and columns of the input tile, without padding.
    pad_top, pad_left: rows and columns of padding before the input tile.
    kernel_h, kernel_w: rows and columns of the window.
    out_h, out_w: rows and columns of the output tile.
    channels: number of channels of both tiles."""

    function: PoolFunction
    x: Number
    in_h: Number
    in_w: Number
    pad_top: Number
    pad_left: Number
    kernel_h: int
    kernel_w: int
    y: Number
    out_h: Number
    out_w: Number
    channels: Number


@dataclass(frozen=True, slots=True)
class AddTiles(Generic[Number]):
    """The arguments of `smv_add`, which adds two tiles element by element.

    The function subtracts `b` from `a` if the setting `TermScales.sign1` is -1.

    a: offset in bytes of the first operand in the scratchpad of inputs.
    b: offset in bytes of the second operand in the scratchpad of weights.
    y: offset in bytes of the result in the scratchpad of outputs.
    rows, columns, channels: shape of each tile."""

    a: Number
    b: Number
    y: Number
    rows: Number
    columns: Number
    channels: Number


@dataclass(frozen=True, slots=True)
class MultiplyTiles(AddTiles[Number]):
    """The arguments of `smv_mul`, which multiplies two tiles element by element.

    It has the fields of `AddTiles`."""


@dataclass(frozen=True, slots=True)
class ExtremeTiles(AddTiles[Number]):
    """The arguments of `smv_extreme`, which takes the larger or the smaller of two tiles' elements.

    It has the fields of `AddTiles`, and:

    larger: 1 for the larger elements, 0 for the smaller ones."""

    larger: int


@dataclass(frozen=True, slots=True)
class CompareTiles(AddTiles[Number]):
    """The arguments of `smv_compare`, which compares two tiles element by element.

    It has the fields of `AddTiles`, and:

    relation: the sum of 1 if the result is true where a < b, 2 where a = b, 4 where a > b.

    The result is a tile of bytes 0 and 1.  Elements are compared after scaling
    (`TermScales`): M0 * ((a - zero0) << 8) and M1 * ((b - zero1) << 8)."""

    relation: int


@dataclass(frozen=True, slots=True)
class NormaliseTile(Generic[Number]):
    """The arguments of `smv_batch_norm`, which computes the batch normalisation of a tile.

    Each element is multiplied by the factor of its channel, and the product is requantised
    (`ProductScales`).  The offset of the channel is then added to the product and the sum is
    requantised, with the arithmetic of `smv_add` (`TermScales`).

    x, y: bytes at which the tiles of inputs and outputs begin in their scratchpads.
    factors, offsets: bytes at which the factors and the offsets of the channels begin in the
        scratchpad of weights.
    rows, columns, channels: shape of each tile."""

    x: Number
    factors: Number
    offsets: Number
    y: Number
    rows: Number
    columns: Number
    channels: Number


@dataclass(frozen=True, slots=True)
class LookUpTile(Generic[Number]):
    """The arguments of `smv_lookup`, which replaces each element x of a tile by table[x + 128].

    x, y: offsets in bytes of the tiles of inputs and outputs in their scratchpads.
    table: offset in bytes of the 256 entries in the scratchpad of weights.
    rows, columns, channels: shape of each tile."""

    x: Number
    table: Number
    y: Number
    rows: Number
    columns: Number
    channels: Number


@dataclass(frozen=True, slots=True)
class SoftmaxTile(LookUpTile[Number]):
    """The arguments of `smv_softmax`, which computes the softmax of each vector of channels.

    It has the fields of `LookUpTile`.  The 256 entries of the table are int32: entry d is exp(-d),
    scaled by the scale of the input, with 31 bits after the binary point."""


@dataclass(frozen=True, slots=True)
class SelectEngine(Generic[Number]):
    """The arguments of `smv_select`, which selects the engine that executes the following copies
    and computations.  Settings apply to all engines."""

    engine: Number


@dataclass(frozen=True, slots=True)
class WaitForEngines:
    """The arguments of `smv_wait`, which waits until the engines have completed all operations.

    engines: the number of engines."""

    engines: int


@dataclass(frozen=True, slots=True)
class WindowSteps:
    """The arguments of `smv_window`, which sets the strides and dilations of windows in rows (h)
    and columns (w)."""

    stride_h: int = 1
    stride_w: int = 1
    dilation_h: int = 1
    dilation_w: int = 1


@dataclass(frozen=True, slots=True)
class ElementRange:
    """The arguments of `smv_numbers`, which sets zero points and the bounds of output elements.

    in_zero: zero point of the input of a convolution or fully connected layer.
    out_zero: zero point of the output.
    least, most: bounds, both inclusive, to which int8 output elements are clamped."""

    in_zero: int = 0
    out_zero: int = 0
    least: int = -128
    most: int = 127


@dataclass(frozen=True, slots=True)
class TilePitches:
    """The arguments of `smv_pitches`, which sets the pitches of tiles in the scratchpads.

    A pitch is the distance in bytes between consecutive rows, columns, output channels or taps.

    x_row, x_column: the row and column pitch of the input, or of the first of two inputs.
    w_output, w_tap: the output channel and tap pitch of the weights.  An element-wise operation has
        no weights; for it, these are the row and column pitch of the second input, or 0 if the
        second input has one element per channel.
    y_row, y_column: the row and column pitch of the output.

    A pitch that the operation does not use is 0."""

    x_row: int = 0
    x_column: int = 0
    w_output: int = 0
    w_tap: int = 0
    y_row: int = 0
    y_column: int = 0


@dataclass(frozen=True, slots=True)
class TermScales:
    """The arguments of `smv_terms`, which sets the arithmetic of sums and products of two tensors.

    It also sets that of matrix products.  For input elements a and b, the result is the requantised
    value of

        sum       M0 * ((a - zero0) << 20) + sign1 * M1 * ((b - zero1) << 20)
        product   (a - zero0) * (b - zero1)

    zero0, zero1: zero points of a and b.
    multiplier0, shift0: define M0 = multiplier0 * 2**(shift0 - 31).
    multiplier1, shift1: define M1 = multiplier1 * 2**(shift1 - 31).
    sign1: 1 for a sum, -1 for a difference.
    out_multiplier, out_shift: define the factor of the requantisation in the same way."""

    zero0: int = 0
    zero1: int = 0
    multiplier0: int = 0
    shift0: int = 0
    multiplier1: int = 0
    shift1: int = 0
    sign1: int = 1
    out_multiplier: int = 0
    out_shift: int = 0


@dataclass(frozen=True, slots=True)
class ProductScales:
    """The arguments of `smv_scaling`, which sets the arithmetic of the products in
    `smv_batch_norm`.

    The product of an element x and a factor f is the requantised value of

        (x - zero0) * (f - zero1)

    zero0, zero1: zero points of x and f.
    out_multiplier, out_shift: define the factor of the requantisation,
        out_multiplier * 2**(out_shift - 31).
    out_zero: zero point of the product.
    least, most: bounds, both inclusive, to which the product is clamped."""

    zero0: int = 0
    zero1: int = 0
    out_multiplier: int = 0
    out_shift: int = 0
    out_zero: int = 0
    least: int = -128
    most: int = 127


Setting = TypeVar("Setting", WindowSteps, ElementRange, TermScales, ProductScales)


def setting(kind: type[Setting], parameters: Mapping[str, int]) -> Setting:
    """Return a record of class `kind`, such as `WindowSteps`, whose fields have the values of the
    kernel parameters of the same names.

    A field for which there is no parameter is 0.

    parameters: the parameters of a kernel by name, such as "stride_h"."""
    return kind(**{field.name: parameters.get(field.name, 0) for field in fields(kind)})
