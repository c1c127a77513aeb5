"""dot4: a processor instruction that adds four int8 products to an int32 accumulator.

    DOT4(sum, a, b) = sum + a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]   modulo 2^32

`sum` is the accumulator; `a` and `b` are words of four int8 elements.  The driver functions are C
kernels (`dot4.c`) that compute rows of convolutions and fully connected layers with the
instruction.  `dot4.h` defines the instruction as a macro: a compiler intrinsic or portable C.  The
kernels multiply elements without subtracting zero points; the initial values of the accumulators
compensate for this.

Source: the instruction exists in RISC-V's P extension (smaqa) and in CV32E40P (cv.sdotsp.b).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from penstock.uma import (
    AcceleratorTarget,
    Address,
    Array,
    Command,
    Driver,
    Expr,
    KernelCall,
    Loop,
    Offloaded,
    OpStrategy,
    TensorType,
    UMABackend,
    Var,
    double_rounding,
    elements,
    is_constant,
    is_op,
    maximum,
    minimum,
    one_group,
    requantise,
    single_image,
    wildcard,
)

LANES, SUM_BYTES = 4, 4
# Estimated cycles of two loads, DOT4 and loop overhead; of one requantisation; and of one function
# call. No simulated core has the instruction.
CYCLES_PER_WORD, CYCLES_PER_ELEMENT, CYCLES_PER_CALL = 5, 40, 60

Number = TypeVar("Number")
Memory = TypeVar("Memory")


@dataclass(frozen=True, slots=True)
class BeginSums(Generic[Number, Memory]):
    """The arguments of `dot4_begin_sums`, which sets all accumulators to their initial values.

    sums: the int32 accumulators, of shape (columns, out_c).
    start: the initial values, one int32 for each output channel.
    columns: the number of output columns.
    out_c: the number of output channels."""

    sums: Memory
    start: Memory
    columns: Number
    out_c: int


@dataclass(frozen=True, slots=True)
class AddRow(Generic[Number, Memory]):
    """The arguments of `dot4_add_row`, which adds the products of one window row to accumulators.

    sums: the int32 accumulators, of shape (end - first, out_c).
    x: the input row that the window row covers, int8.
    weights: the int8 weights of the window row; those for output channel k begin at k * `step`.
    step: the distance in bytes between the weights of consecutive output channels.
    at: the index of the input row; a row outside [0, `in_h`) is padding, and `x` is not read.
    first, end: the computed output columns are [first, end).
    in_h, in_w, in_c: the rows, columns and channels of the input.
    out_c: the number of output channels.
    kernel_w, stride_w, dilation_w: the size, stride and dilation of the window along the columns.
    pad_left: the number of columns of padding on the left.
    in_zero: the value of padding."""

    sums: Memory
    x: Memory
    weights: Memory
    step: int
    at: Number
    first: Number
    end: Number
    in_h: int
    in_w: int
    in_c: int
    out_c: int
    kernel_w: int
    stride_w: int
    dilation_w: int
    pad_left: int
    in_zero: int


@dataclass(frozen=True, slots=True)
class FinishSums(Generic[Number, Memory]):
    """The arguments of `dot4_finish_sums`, which requantises accumulators to int8 outputs.

    sums: the int32 accumulators, of shape (columns, out_c).
    multiplier: one int32 for each output channel.
    shift: one int8 for each output channel; the scale is multiplier * 2^(shift - 31).
    y: the int8 outputs, of shape (columns, out_c).
    columns, out_c: the numbers of output columns and output channels.
    out_zero: the zero point of the result.
    least, most: the inclusive bounds to which the outputs are clamped."""

    sums: Memory
    multiplier: Memory
    shift: Memory
    y: Memory
    columns: Number
    out_c: int
    out_zero: int
    least: int
    most: int


class Dot4(UMABackend):
    """Backend of dot4: fully connected layers, and convolutions with batch size 1 and one group."""

    def __init__(self) -> None:
        super().__init__()
        self._register_target_attr("sum_bytes", default=256, least=0)
        for name in ("nn.conv2d", "nn.dense"):
            operands = wildcard(), is_constant(), is_constant()
            self._register_pattern(name.removeprefix("nn."), is_op(name)(*operands))
        self._register_constraint(single_image)
        self._register_constraint(one_group)
        self._register_constraint(double_rounding)
        self._register_operator_strategy("nn.conv2d", conv2d_strategy)
        self._register_operator_strategy("nn.dense", dense_strategy)
        self._register_codegen(includes='#include "dot4.h"', sources=("dot4.h", "dot4.c"))

    @property
    def target_name(self) -> str:
        return "dot4"


def conv2d_strategy(
    attrs: Any, inputs: Sequence[TensorType], out_type: TensorType, target: AcceleratorTarget
) -> OpStrategy:
    """Return the strategy of convolutions, which has a single kernel.

    The kernel computes row by row and, within a row, `columns_at_once` columns at a time.  The
    working memory holds the int32 accumulators of these columns."""
    strategy = OpStrategy()
    strategy.add_implementation(
        conv2d,
        name="dot4_conv2d",
        cost=cycles,
        tables=tables,
        by_rows=True,
        scratch_bytes=SUM_BYTES * out_type.shape[3] * columns_at_once(out_type, target),
    )
    return strategy


def dense_strategy(
    attrs: Any, inputs: Sequence[TensorType], out_type: TensorType, target: AcceleratorTarget
) -> OpStrategy:
    """Return the strategy of fully connected layers, which has a single kernel.

    The kernel treats the layer as a convolution of an image with a single row.  Each element of the
    batch is a column of this image."""
    strategy = OpStrategy()
    strategy.add_implementation(
        dense,
        name="dot4_dense",
        cost=cycles,
        tables=tables,
        scratch_bytes=SUM_BYTES * out_type.elements,
    )
    return strategy


def columns_at_once(out_type: TensorType, target: AcceleratorTarget) -> int:
    """Return the number of output columns that a convolution computes at a time.

    It is the largest number whose accumulators fit into `sum_bytes` bytes, an attribute of the
    accelerator, but at least 1.  For example, 256 bytes hold 4 columns of 16 int32 channels."""
    held = int(target.attrs["sum_bytes"]) // (SUM_BYTES * out_type.shape[3])
    return max(1, min(held, out_type.shape[2]))


def cycles(offloaded: Offloaded, rows: int) -> float:
    """Return the estimated cycles of a kernel call that computes `rows` output rows.

    The estimate adds a constant per four multiply-accumulates, a constant per output element and a
    constant per call of a driver function."""
    work, calls, y = offloaded.work(rows), 4, offloaded.output
    if y.rank == 4:
        blocks = -(-y.shape[2] // columns_at_once(y, offloaded.target))
        calls = 1 + rows * blocks * (offloaded.parameters["kernel_h"] + 2)
    words = work.macs / LANES
    return words * CYCLES_PER_WORD + work.elements * CYCLES_PER_ELEMENT + calls * CYCLES_PER_CALL


def tables(offloaded: Offloaded) -> Mapping[str, Array]:
    """Return the constant arrays of a layer by name, each with one value per output channel.

    multiplier, shift: the parameters of the requantisation.
    start: the initial value of the accumulators: bias - zero point of the input * sum of the
        channel's weights."""
    weights = offloaded.constant(1).astype(np.int64)
    total = weights.reshape(weights.shape[0], -1).sum(axis=1)
    start = offloaded.constant(2) - offloaded.parameters["in_zero"] * total
    return {"start": start.astype(np.int32), **offloaded.tables}


def conv2d(call: KernelCall) -> Sequence[Command]:
    """Return the commands of a convolution.

    They loop over output rows and, within a row, over blocks of `columns_at_once` columns.  For
    each block, they initialise accumulators, add the products of each window row, and requantise.

    If a window row is outside the image, the commands pass the address of the nearest row of the
    image, which `dot4_add_row` does not read."""
    p, row, tap, first = call.parameters, Var("row"), Var("tap"), Var("column")
    at = row * p["stride_h"] + tap * p["dilation_h"] - p["pad_top"]
    block = columns_at_once(call.output, call.target)
    end = minimum(first + block, p["out_w"])
    add = AddRow(
        call.scratch,
        x=call.operand(0).row(minimum(maximum(at, 0), p["in_h"] - 1)),
        weights=call.operand(1).row(tap),
        step=p["kernel_h"] * p["kernel_w"] * p["in_c"],
        at=at,
        first=first,
        end=end,
        in_h=p["in_h"],
        in_w=p["in_w"],
        in_c=p["in_c"],
        out_c=p["out_c"],
        kernel_w=p["kernel_w"],
        stride_w=p["stride_w"],
        dilation_w=p["dilation_w"],
        pad_left=p["pad_left"],
        in_zero=p["in_zero"],
    )
    taps = Loop("tap", 0, p["kernel_h"], 1, (call.invoke_record(ADD, add),))
    y = call.result.row(row, first * p["out_c"])
    body = begin(call, end - first), taps, finish(call, y, end - first)
    return [Loop("row", call.first, call.end, 1, (Loop("column", 0, p["out_w"], block, body),))]


def dense(call: KernelCall) -> Sequence[Command]:
    """Return the commands of a fully connected layer, which is computed as a convolution.

    The image of this convolution has a single row, in which each element of the batch is a
    column.  The window is one column wide."""
    p, columns = call.parameters, call.parameters["batches"]
    add = AddRow(
        call.scratch,
        x=call.operand(0).address,
        weights=call.operand(1).address,
        step=p["in_c"],
        at=0,
        first=0,
        end=columns,
        in_h=1,
        in_w=columns,
        in_c=p["in_c"],
        out_c=p["out_c"],
        kernel_w=1,
        stride_w=1,
        dilation_w=1,
        pad_left=0,
        in_zero=p["in_zero"],
    )
    y = call.result.address
    return [begin(call, columns), call.invoke_record(ADD, add), finish(call, y, columns)]


def begin(call: KernelCall, columns: Expr) -> Command:
    """Return the command that initialises the accumulators of `columns` columns, in scratch."""
    record = BeginSums(call.scratch, call.table("start"), columns, call.parameters["out_c"])
    return call.invoke_record(BEGIN, record)


def finish(call: KernelCall, y: Address, columns: Expr) -> Command:
    """Return the command that requantises accumulators and writes the outputs to address `y`.

    columns: the number of output columns whose accumulators are in working memory."""
    p = call.parameters
    record = FinishSums(
        call.scratch,
        call.table("multiplier"),
        call.table("shift"),
        y,
        columns,
        out_c=p["out_c"],
        out_zero=p["out_zero"],
        least=p["least"],
        most=p["most"],
    )
    return call.invoke_record(FINISH, record)


def dot4(total: Array, a: Array, b: Array) -> Array:
    """Return the result of the DOT4 instruction for each element of the arrays.

    The instruction multiplies each of the four elements in `a` by the corresponding one in `b`, and
    adds the products to `total`, modulo 2^32.

    total: int32 accumulators.
    a, b: uint32 words, each of four int8 elements.

    >>> word = np.array([[1, -2, 3, -128]], np.int8).view(np.uint32)[:, 0]
    >>> dot4(np.array([10], np.int32), word, word)
    array([16408], dtype=int32)
    """
    x, y = (np.ascontiguousarray(word, "<u4")[..., None].view(np.int8) for word in (a, b))
    products = np.multiply(x, y, dtype=np.int32).sum(axis=-1, dtype=np.int32)
    return (total.astype(np.uint32) + products.astype(np.uint32)).view(np.int32)


def words(values: Array) -> Array:
    """Return an int8 array as uint32 words, each of four elements along the last axis.

    The last axis is padded with zeros to a multiple of four: shape (2, 6) becomes (2, 2)."""
    size = values.shape[-1]
    filled = np.zeros((*values.shape[:-1], size + -size % LANES), np.int8)
    filled[..., :size] = values
    return filled.view(np.uint32)


def begin_sums(core: object, op: BeginSums[int, Array]) -> None:
    """Functional model of `dot4_begin_sums`: set all accumulators to their initial values."""
    elements(op.sums, np.int32, op.columns, op.out_c)[:] = elements(op.start, np.int32, op.out_c)


def add_row(core: object, op: AddRow[int, Array]) -> None:
    """Functional model of `dot4_add_row`: add the products of one window row to accumulators."""
    image = elements(op.x, np.int8, op.in_w, op.in_c)
    taps = np.arange(op.kernel_w * op.in_c) + np.arange(op.out_c)[:, None] * op.step
    kernel = op.weights.view(np.int8)[taps].reshape(op.out_c, op.kernel_w, op.in_c)
    found = elements(op.sums, np.int32, op.end - op.first, op.out_c)
    for tap in range(op.kernel_w):
        read = np.arange(op.first, op.end) * op.stride_w + tap * op.dilation_w - op.pad_left
        inside = (read >= 0) & (read < op.in_w) & (0 <= op.at < op.in_h)
        seen = np.where(inside[:, None], image[read.clip(0, op.in_w - 1)], np.int8(op.in_zero))
        for a, b in zip(words(seen).T, words(kernel[:, tap]).T, strict=True):
            found[:] = dot4(found, a[:, None], b)


def finish_sums(core: object, op: FinishSums[int, Array]) -> None:
    """Functional model of `dot4_finish_sums`: requantise accumulators to int8 outputs."""
    multiplier = elements(op.multiplier, np.int32, op.out_c)
    shift = elements(op.shift, np.int8, op.out_c)
    found = elements(op.sums, np.int32, op.columns, op.out_c)
    row = elements(op.y, np.int8, op.columns, op.out_c)
    row[:] = requantise(found, multiplier, shift, op.out_zero, (op.least, op.most))


BEGIN, ADD, FINISH = (
    Driver(f"dot4_{model.__name__}", "dot4", model, device=object)
    for model in (begin_sums, add_row, finish_sums)
)
