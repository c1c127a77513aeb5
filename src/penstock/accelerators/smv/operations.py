"""operations: the arguments of each driver function, as records.

The fields of a record are the arguments of the C function in `smv.h`, in order.  Kernels fill them
with expressions and addresses (`Expr`, `Address`); the functional models receive numbers and bytes
(`int`, `Array`).

Tiles begin at the scratchpad offsets `x` (input), `w` (weights), `y` (output), or `a` and `b` (both
inputs of an element-wise operation).  Offsets and pitches are in bytes, sizes in elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Generic, TypeVar

Number = TypeVar("Number")
Memory = TypeVar("Memory")


class ScratchpadNumber(IntEnum):
    """A scratchpad, by its number in the driver interface."""

    INPUT = 0
    WEIGHTS = 1
    OUTPUT = 2


class PoolFunction(IntEnum):
    """The function that a pool computes over a window, by its number in the driver interface."""

    MAX = 0
    AVERAGE = 1


@dataclass(frozen=True, slots=True)
class WindowSteps:
    """The arguments of `smv_window`, which sets the strides and dilations of windows."""

    stride_h: int = 1
    stride_w: int = 1
    dilation_h: int = 1
    dilation_w: int = 1


@dataclass(frozen=True, slots=True)
class ElementRange:
    """The arguments of `smv_numbers`, which sets the zero points of input and output, and the range
    [`least`, `most`] of output elements."""

    in_zero: int = 0
    out_zero: int = 0
    least: int = -128
    most: int = 127


@dataclass(frozen=True, slots=True)
class TilePitches:
    """The arguments of `smv_pitches`, which sets the pitches of tiles: the distances in bytes
    between consecutive rows and columns of the input (`x`), between output channels and taps of the
    weights (`w`), and between rows and columns of the output (`y`).

    For a sum or product of two tensors, `w_output` and `w_tap` are the row and column pitch of the
    second input."""

    x_row: int = 0
    x_column: int = 0
    w_output: int = 0
    w_tap: int = 0
    y_row: int = 0
    y_column: int = 0


@dataclass(frozen=True, slots=True)
class TermScales:
    """The arguments of `smv_terms`, which sets the parameters of sums and products of two tensors:
    the zero points of both operands, and the multipliers and shifts of both operands and of the
    result.  Names end in 0 for the first operand, in 1 for the second.  The second operand of a sum
    is multiplied by `sign1`, 1 or -1."""

    zero0: int = 0
    zero1: int = 0
    multiplier0: int = 0
    shift0: int = 0
    multiplier1: int = 0
    shift1: int = 0
    sign1: int = 1
    out_multiplier: int = 0
    out_shift: int = 0


Setting = TypeVar("Setting", WindowSteps, ElementRange, TermScales)


def setting(kind: type[Setting], parameters: Mapping[str, int]) -> Setting:
    """Return a record of class `kind`, the arguments of a driver function that changes settings.
    Its fields have the values of the kernel's parameters of the same names; a field without such a
    parameter is 0."""
    return kind(**{field.name: parameters.get(field.name, 0) for field in fields(kind)})


@dataclass(frozen=True, slots=True)
class LoadTile(Generic[Number, Memory]):
    """The arguments of `smv_load`, which copies `runs` runs of `run_bytes` bytes from memory to
    offset `to` of a scratchpad.  Consecutive runs are `source_pitch` bytes apart in memory and
    `pitch` bytes in the scratchpad.  `chained` is 1 if the copy belongs to the same DMA transfer as
    the previous one."""

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
    """The arguments of `smv_store`, which copies `runs` runs of `run_bytes` bytes from offset `at`
    of the output scratchpad to memory.  Consecutive runs are `target_pitch` bytes apart in memory
    and `pitch` bytes in the scratchpad.  `chained` is 1 if the copy belongs to the same DMA
    transfer as the previous one."""

    target: Memory
    at: Number
    runs: Number
    run_bytes: Number
    target_pitch: Number
    pitch: Number
    chained: Number


@dataclass(frozen=True, slots=True)
class ConvolveTile(Generic[Number]):
    """The arguments of `smv_conv2d`, which sums the products of a tile of inputs and a tile of
    weights.

    The tiles of inputs, weights and outputs begin at the scratchpad offsets `x`, `w` and `y`.  They
    have `depth` input channels and `outputs` output channels.  `in_h` and `in_w` do not include
    padding; `pad_top` and `pad_left` are the padding before the input tile.  `bias`, `multiplier`
    and `shift` are offsets in the scratchpad of weights.  The sums start from the partial sums at
    `y` if `accumulate` is 1, otherwise from the biases.  The sums are requantised if `finish` is 1,
    otherwise stored as partial sums.  `y_first` is the index, within each pixel of the output tile,
    of the first output channel that is computed."""

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
class ConnectTile(Generic[Number]):
    """The arguments of `smv_fully_connected`, which sums the products of `rows` rows of inputs and
    the weights of a fully connected layer.

    The tiles of inputs, weights and outputs begin at the scratchpad offsets `x`, `w` and `y`.  They
    have `depth` inputs and `outputs` outputs per row.  `bias`, `multiplier` and `shift` are offsets
    in the scratchpad of weights.  The sums start from the partial sums at `y` if `accumulate` is 1,
    otherwise from the biases.  The sums are requantised if `finish` is 1, otherwise stored as
    partial sums.  `y_first` is the index, within each row of the output tile, of the first output
    that is computed."""

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
class PoolTile(Generic[Number]):
    """The arguments of `smv_pool`, which computes the maximum or the mean of the elements of each
    window that are not padding.

    The tiles of inputs and outputs begin at the scratchpad offsets `x` and `y`.  `in_h` and `in_w`
    do not include padding; `pad_top` and `pad_left` are the padding before the input tile."""

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
    """The arguments of `smv_add`, which adds two tiles element by element, or subtracts `b` from
    `a` if the setting `TermScales.sign1` is -1.  `a`, `b` and `y` are the offsets of the operands
    and of the result in their scratchpads."""

    a: Number
    b: Number
    y: Number
    rows: Number
    columns: Number
    channels: Number


@dataclass(frozen=True, slots=True)
class MultiplyTiles(AddTiles[Number]):
    """The arguments of `smv_mul`, which multiplies two tiles element by element."""
