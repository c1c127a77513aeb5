"""operations: the arguments of each function of the driver, as records.

The fields of a record are the arguments of the C function in `smv.h`, in order.  Kernels fill them
with expressions and addresses (`Expr`, `Address`); the functional models receive numbers and bytes
(`int`, `Array`).  Scratchpad offsets and pitches are in bytes, sizes in elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Generic, TypeVar

Number = TypeVar("Number")
Memory = TypeVar("Memory")


class ScratchpadNumber(IntEnum):
    """The number of a scratchpad."""

    INPUT = 0
    WEIGHTS = 1
    OUTPUT = 2


class PoolFunction(IntEnum):
    """The function that a pool computes over a window."""

    MAX = 0
    AVERAGE = 1


@dataclass(frozen=True, slots=True)
class WindowSteps:
    """Sets the strides and dilations of windows."""

    stride_h: int = 1
    stride_w: int = 1
    dilation_h: int = 1
    dilation_w: int = 1


@dataclass(frozen=True, slots=True)
class ElementRange:
    """Sets the zero points, and the range [least, most] of outputs."""

    in_zero: int = 0
    out_zero: int = 0
    least: int = -128
    most: int = 127


@dataclass(frozen=True, slots=True)
class TilePitches:
    """Sets the pitches of tiles: of the input by row and column, of weights by output channel and
    tap, of the output by row and column.

    In a sum or product of two tensors, the pitches of weights are those of the second input by row
    and column."""

    x_row: int = 0
    x_column: int = 0
    w_output: int = 0
    w_tap: int = 0
    y_row: int = 0
    y_column: int = 0


@dataclass(frozen=True, slots=True)
class TermScales:
    """Sets the zero points and multipliers of both terms of a sum or product, and the multiplier of
    the result; `sign1` is -1 for a difference."""

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
    """A setting with the parameters of a kernel; parameters that the kernel lacks are 0."""
    return kind(**{field.name: parameters.get(field.name, 0) for field in fields(kind)})


@dataclass(frozen=True, slots=True)
class LoadTile(Generic[Number, Memory]):
    """Copies `runs` runs of bytes from memory to a scratchpad; `chained` is 1 if the copy continues
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
    """Copies `runs` runs of bytes from the scratchpad of outputs to memory; `chained` as in
    `LoadTile`."""

    target: Memory
    at: Number
    runs: Number
    run_bytes: Number
    target_pitch: Number
    pitch: Number
    chained: Number


@dataclass(frozen=True, slots=True)
class ConvolveTile(Generic[Number]):
    """Sums the products of a tile of inputs and weights.

    The sums start from earlier sums if `accumulate` is 1, otherwise from biases; they are
    requantised if `finish` is 1.  `y_first` is the first output channel within a pixel of the
    output tile."""

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
    """Sums the products of rows of inputs and the weights of a fully connected layer; sums,
    `y_first`, `accumulate` and `finish` are as in `ConvolveTile`."""

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
    """Computes the maximum or the mean of each window, without padding."""

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
    """Adds two tiles, or subtracts the second, element by element."""

    a: Number
    b: Number
    y: Number
    rows: Number
    columns: Number
    channels: Number


@dataclass(frozen=True, slots=True)
class MultiplyTiles(AddTiles[Number]):
    """Multiplies two tiles element by element."""
