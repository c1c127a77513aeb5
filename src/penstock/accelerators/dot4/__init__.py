"""dot4: a processor with an instruction for four int8 products; a closely coupled extension.

    DOT4(sum, a, b) = sum + a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]   modulo 2^32

`a` and `b` are words of four int8.  Functions of the driver are C kernels for rows of convolutions
and dense layers around it (`dot4.c`); `dot4.h` has the instruction as a macro, which a compiler for
such a core maps to its own, and portable C for others.  Products are of the elements as they are:
what zero points add is in the sums from the start.

Source: the instruction is that of RISC-V's P extension (smaqa) and of CV32E40P (cv.sdotsp.b).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
    elements,
    is_constant,
    is_op,
    maximum,
    minimum,
    requantise,
    wildcard,
)

LANES, SUM_BYTES = 4, 4
ROW = (
    *("in_h", "in_w", "in_c", "out_c"),
    *("kernel_w", "stride_w", "dilation_w", "pad_left", "in_zero"),
)
"""What `dot4_add_row` is told last."""
CYCLES_PER_WORD, CYCLES_PER_ELEMENT, CYCLES_PER_CALL = 5, 40, 60
"""Of two loads, DOT4 and a loop; of a requantisation; of a function with its arguments.  These are
estimates: no core is simulated that has the instruction."""


class Dot4(UMABackend):
    """Convolutions of one image without groups, and dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self._register_target_attr("sum_bytes", default=256, least=0)
        for name in ("nn.conv2d", "nn.dense"):
            operands = wildcard(), is_constant(), is_constant()
            self._register_pattern(name.removeprefix("nn."), is_op(name)(*operands))
        self._register_constraint(one_image)
        self._register_constraint(no_groups)
        self._register_constraint(rounds_twice)
        self._register_operator_strategy("nn.conv2d", conv2d_strategy)
        self._register_operator_strategy("nn.dense", dense_strategy)
        self._register_codegen(includes='#include "dot4.h"', sources=("dot4.h", "dot4.c"))

    @property
    def target_name(self) -> str:
        return "dot4"


def one_image(offloaded: Offloaded) -> bool | str:
    """A convolution is of one image."""
    images = offloaded.output.shape[0]
    return offloaded.main.kind != "Conv2D" or images == 1 or f"there are {images}"


def no_groups(offloaded: Offloaded) -> bool | str:
    """Every output channel reads every input channel."""
    groups = offloaded.parameters.get("groups", 1)
    return groups == 1 or f"there are {groups} groups of channels"


def rounds_twice(offloaded: Offloaded) -> bool | str:
    """Results are rounded twice, as TFLite Micro rounds them."""
    return not offloaded.parameters.get("single_rounding", 0) or "they are to be rounded once"


def conv2d_strategy(
    attrs: Any, inputs: Sequence[TensorType], out_type: TensorType, target: AcceleratorTarget
) -> OpStrategy:
    """Row by row, wherever the rows are; so many columns at a time as `sum_bytes` holds sums of."""
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
    """As a row of columns, under a window of one column."""
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
    """Columns of which sums are kept: at least one, at most all."""
    held = int(target.attrs["sum_bytes"]) // (SUM_BYTES * out_type.shape[3])
    return max(1, min(held, out_type.shape[2]))


def cycles(offloaded: Offloaded, rows: int) -> float:
    """By words of weights, elements and calls."""
    work, calls, y = offloaded.work(rows), 4, offloaded.output
    if y.rank == 4:
        blocks = -(-y.shape[2] // columns_at_once(y, offloaded.target))
        calls = 1 + rows * blocks * (offloaded.parameters["kernel_h"] + 2)
    words = work.macs / LANES
    return words * CYCLES_PER_WORD + work.elements * CYCLES_PER_ELEMENT + calls * CYCLES_PER_CALL


def tables(offloaded: Offloaded) -> Mapping[str, Array]:
    """Multipliers and shifts; and what a sum begins with: the bias, and what the zero point takes
    from it under a whole window."""
    weights = offloaded.constant(1).astype(np.int64)
    total = weights.reshape(weights.shape[0], -1).sum(axis=1)
    start = offloaded.constant(2) - offloaded.parameters["in_zero"] * total
    return {"start": start.astype(np.int32), **offloaded.tables}


def conv2d(call: KernelCall) -> Sequence[Command]:
    """By row of the output and block of its columns: sums begin, take each row of the window, and
    become elements.

    Of rows above and below the image, which are all zero point, the nearest row is named."""
    p, row, tap, first = call.parameters, Var("row"), Var("tap"), Var("column")
    at = row * p["stride_h"] + tap * p["dilation_h"] - p["pad_top"]
    x = call.operand(0).row(minimum(maximum(at, 0), p["in_h"] - 1))
    y = call.result.row(row, first * p["out_c"])
    block = columns_at_once(call.output, call.target)
    end = minimum(first + block, p["out_w"])
    step = p["kernel_h"] * p["kernel_w"] * p["in_c"]
    numbers = step, at, first, end, *(p[name] for name in ROW)
    add = call.invoke(ADD, call.scratch, x, call.operand(1).row(tap), *numbers)
    taps = Loop("tap", 0, p["kernel_h"], 1, (add,))
    body = begin(call, end - first), taps, finish(call, y, end - first)
    return [Loop("row", call.first, call.end, 1, (Loop("column", 0, p["out_w"], block, body),))]


def dense(call: KernelCall) -> Sequence[Command]:
    """Batches are the columns of a row, under a window of one column."""
    p, columns = call.parameters, call.parameters["batches"]
    x, weights, y = call.operand(0).address, call.operand(1).address, call.result.address
    row = 1, columns, p["in_c"], p["out_c"], 1, 1, 1, 0, p["in_zero"]  # as ROW says
    add = call.invoke(ADD, call.scratch, x, weights, p["in_c"], 0, 0, columns, *row)
    return [begin(call, columns), add, finish(call, y, columns)]


def begin(call: KernelCall, columns: Expr) -> Command:
    """Sums of columns of the output, before anything is added."""
    return call.invoke(BEGIN, call.scratch, call.table("start"), columns, call.parameters["out_c"])


def finish(call: KernelCall, y: Address, columns: Expr) -> Command:
    """The columns, from their sums."""
    numbers = (call.parameters[name] for name in ("out_c", "out_zero", "least", "most"))
    multipliers = call.table("multiplier"), call.table("shift")
    return call.invoke(FINISH, call.scratch, *multipliers, y, columns, *numbers)


def dot4(total: Array, a: Array, b: Array) -> Array:
    """The instruction, on arrays of int32 sums and of words.

    >>> word = np.array([[1, -2, 3, -128]], np.int8).view(np.uint32)[:, 0]
    >>> dot4(np.array([10], np.int32), word, word)
    array([16408], dtype=int32)
    """
    found = total.astype(np.uint32)
    for lane in range(LANES):
        x, y = ((word >> 8 * lane).astype(np.uint8).view(np.int8) for word in (a, b))
        found = found + (x.astype(np.int32) * y).astype(np.uint32)
    return found.view(np.int32)


def words(runs: Array) -> Array:
    """Runs of int8 along the last axis as words; zeros fill the last one of each."""
    short = -runs.shape[-1] % LANES
    filled = np.pad(runs, (*((0, 0) for _ in runs.shape[1:]), (0, short)))
    return np.ascontiguousarray(filled).view(np.uint32)


def begin_sums(core: object, sums: Array, start: Array, columns: int, out_c: int) -> None:
    """Every column begins with `start`."""
    elements(sums, np.int32, columns, out_c)[:] = elements(start, np.int32, out_c)


def add_row(
    core: object,
    sums: Array,
    x: Array,
    weights: Array,
    step: int,
    at: int,
    first: int,
    end: int,
    *numbers: int,
) -> None:
    """Adds, for columns [first, end), what a row of the window sees of row `at` of the image, or of
    the padding around it; weights of the next output are `step` bytes on."""
    p = dict(zip(ROW, numbers, strict=True))
    image = elements(x, np.int8, p["in_w"], p["in_c"])
    taps = np.arange(p["kernel_w"] * p["in_c"]) + np.arange(p["out_c"])[:, None] * step
    kernel = weights.view(np.int8)[taps].reshape(p["out_c"], p["kernel_w"], p["in_c"])
    found = elements(sums, np.int32, end - first, p["out_c"])
    for tap in range(p["kernel_w"]):
        read = np.arange(first, end) * p["stride_w"] + tap * p["dilation_w"] - p["pad_left"]
        inside = (read >= 0) & (read < p["in_w"]) & (0 <= at < p["in_h"])
        seen = np.where(inside[:, None], image[read.clip(0, p["in_w"] - 1)], np.int8(p["in_zero"]))
        for a, b in zip(words(seen).T, words(kernel[:, tap]).T, strict=True):
            found[:] = dot4(found, a[:, None], b)


def finish_sums(
    core: object, sums: Array, multiplier: Array, shift: Array, y: Array, *numbers: int
) -> None:
    """Requantises the sums."""
    columns, out_c, out_zero, least, most = numbers
    factors = elements(multiplier, np.int32, out_c), elements(shift, np.int8, out_c)
    found = elements(sums, np.int32, columns, out_c)
    row = elements(y, np.int8, columns, out_c)
    row[:] = requantise(found, *factors, out_zero, (least, most))


BEGIN, ADD, FINISH = (
    Driver(f"dot4_{model.__name__}", "dot4", model, device=object)
    for model in (begin_sums, add_row, finish_sums)
)
