"""A toy accelerator for tests: convolutions, one output row at a time, with three functions.

    toy_begin   initialises the unit's accumulators with the bias
    toy_tap     adds the product of an input row and a window row
    toy_store   writes the accumulators as an output row

Rows have separate addresses, so that rings, row tables and whole tensors are supported. The
accelerator consists of the records that the compiler sees and does not use the public interface.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from penstock import api
from penstock.backends.accelerator import (
    Accelerator,
    AcceleratorTarget,
    Codegen,
    Implementation,
    PassPhase,
    Strategy,
)
from penstock.backends.kernel_call import KernelCall, offloading_kernel
from penstock.backends.offloaded import Offloaded
from penstock.choices import Rounding
from penstock.fixedpoint import multiply
from penstock.hardware.load import load_target
from penstock.hardware.target import Target
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node
from penstock.ir.op import Kernel, Table
from penstock.pipeline.request import Request
from penstock.program.expr import Var, binary
from penstock.program.program import Command, Driver, Loop

Bytes = npt.NDArray[np.uint8]
MOST_SUMS = 4096
"""Number of accumulators of the unit."""
MACS_PER_CYCLE, CYCLES_PER_CALL = 8, 20


class Unit:
    """State of the device: a row of accumulators, shape (columns, channels)."""

    def __init__(self) -> None:
        self.sums = np.zeros((0, 0), np.int64)


def begin(unit: Unit, bias: Bytes, columns: int, channels: int) -> None:
    row = bias[: 4 * channels].view(np.int32)
    unit.sums = np.repeat(row[np.newaxis].astype(np.int64), columns, axis=0)


def tap(
    unit: Unit,
    x: Bytes,
    w: Bytes,
    width: int,
    depth: int,
    taps: int,
    pitch: int,
    stride: int,
    left: int,
    zero: int,
) -> None:
    """Adds an input row times a window row.

    `w`: the window row of the first channel; those of the following channels are `pitch` bytes
    apart.
    """
    columns, channels = unit.sums.shape
    row = x[: width * depth].view(np.int8).reshape(width, depth).astype(np.int64) - zero
    starts = range(0, channels * pitch, pitch)
    window = np.stack([w[k : k + taps * depth].view(np.int8) for k in starts]).astype(np.int64)
    for column in range(columns):
        for k in range(taps):
            at = column * stride - left + k
            if 0 <= at < width:
                unit.sums[column] += window[:, k * depth : (k + 1) * depth] @ row[at]


def store(
    unit: Unit, multiplier: Bytes, shift: Bytes, y: Bytes, zero: int, least: int, most: int
) -> None:
    columns, channels = unit.sums.shape
    factors = multiplier[: 4 * channels].view(np.int32).astype(np.int64)
    shifts = shift[:channels].view(np.int8).astype(np.int64)
    found = multiply(unit.sums, factors, shifts, Rounding.DOUBLE) + zero
    y[: columns * channels].view(np.int8)[:] = np.clip(found, least, most).ravel()


HEADER = """#ifndef TOY_H
#define TOY_H
#include <stdint.h>
void toy_begin(const void *bias, int32_t columns, int32_t channels);
void toy_tap(const void *x, const void *w, int32_t width, int32_t depth, int32_t taps,
             int32_t pitch, int32_t stride, int32_t left, int32_t zero);
void toy_store(const void *multiplier, const void *shift, void *y, int32_t zero, int32_t least,
               int32_t most);
#endif
"""

STUB = """#include "toy.h"
#include <string.h>
static struct { int32_t columns, channels, sums[4096]; } unit;

void toy_begin(const void *bias, int32_t columns, int32_t channels) {
    unit.columns = columns;
    unit.channels = channels;
    for (int32_t column = 0; column < columns; column++) {
        memcpy(unit.sums + column * channels, bias, 4 * (size_t)channels);
    }
}

void toy_tap(const void *x, const void *w, int32_t width, int32_t depth, int32_t taps,
             int32_t pitch, int32_t stride, int32_t left, int32_t zero) {
    const int8_t *row = x;
    for (int32_t i = 0; i < unit.columns * unit.channels; i++) {
        const int8_t *window = (const int8_t *)w + i % unit.channels * pitch;
        for (int32_t k = 0; k < taps; k++) {
            const int32_t at = i / unit.channels * stride - left + k;
            for (int32_t c = 0; c < depth && at >= 0 && at < width; c++) {
                unit.sums[i] += (row[at * depth + c] - zero) * window[k * depth + c];
            }
        }
    }
}

static int64_t shifted(int64_t x, int right) { /* x / 2^right, ties away from zero */
    const int64_t half = right > 0 ? INT64_C(1) << (right - 1) : 0;
    return x < 0 ? -((-x + half) >> right) : (x + half) >> right;
}

void toy_store(const void *multiplier, const void *shift, void *y, int32_t zero, int32_t least,
               int32_t most) {
    for (int32_t i = 0; i < unit.columns * unit.channels; i++) {
        const int32_t channel = i % unit.channels;
        const int s = ((const int8_t *)shift)[channel];
        int32_t m;
        memcpy(&m, (const char *)multiplier + 4 * channel, 4);
        const int64_t product = unit.sums[i] * (INT64_C(1) << (s > 0 ? s : 0)) * m;
        const int64_t high = (product + (INT64_C(1) << 30)) >> 31;
        int64_t found = shifted(high, s < 0 ? -s : 0) + zero;
        found = found < least ? least : found > most ? most : found;
        ((int8_t *)y)[i] = (int8_t)found;
    }
}
"""

CODE = Codegen(includes='#include "toy.h"\n', sources=(("toy.h", HEADER), ("toy_stub.c", STUB)))


def estimate(offloaded: Offloaded, rows: int) -> int:
    """Cycles of a call."""
    return CYCLES_PER_CALL + offloaded.macs(rows) // MACS_PER_CYCLE


def convolution(node: Node) -> bool:
    """Whether the unit supports it: one image, one group, no dilation, enough accumulators for a
    row."""
    if node.kind != "Conv2D":
        return False
    p = dict(node.op.kernel(node.site).params)
    (images, *_), (_, _, columns, channels) = node.inputs[0].type.shape, node.output.type.shape
    plain = (images, p["groups"], p["dilation_h"], p["dilation_w"]) == (1, 1, 1, 1)
    return plain and columns * channels <= MOST_SUMS


@dataclass(frozen=True)
class Toy:
    """Properties of the accelerator, correct or faulty.

    They are its name, the operators that it supports, whether it supports intervals of rows or
    whole tensors only, the effect of its last function, the cycles that it reports, and the number
    of rows that it reads beyond its input.
    """

    name: str = "toy"
    takes: Callable[[Node], bool] = convolution
    by_rows: bool = True
    stores: Callable[..., None] = store
    costs: Callable[[Offloaded, int], object] = estimate
    beyond: int = 0

    def accelerator(self, chip: Target) -> Accelerator:
        """The record that the compiler sees.  A pass claims the nodes."""
        return Accelerator(
            AcceleratorTarget(self.name, {}, chip),
            patterns=(),
            strategies=(Strategy("Conv2D", self._choose, 11),),
            graph_passes=((PassPhase.POST_PARTITIONING_0, self._claim),),
            program_passes=(),
            constraints=(),
            codegen=CODE,
        )

    def _claim(self, graph: Graph, target: AcceleratorTarget) -> Graph:
        nodes = (self._claimed(n, target) if self.takes(n) else n for n in graph.nodes)
        return graph.with_nodes(tuple(nodes))

    def _claimed(self, node: Node, target: AcceleratorTarget) -> Node:
        op = Composite("toy_conv2d", self.name, (node,), tuple(v.name for v in node.inputs))
        claimed = replace(node, op=op)
        (found,) = self._choose(claimed, op, target)
        return replace(node, op=replace(op, chosen=found.kernel))

    def _choose(
        self, node: Node, composite: Composite, target: AcceleratorTarget
    ) -> Sequence[Implementation]:
        del composite
        offloaded = Offloaded(node, target)
        facts = Kernel(
            "toy_conv2d",
            tables=tuple((k, Table.of(offloaded.tables[k])) for k in ("multiplier", "shift")),
            by_rows=self.by_rows,
            cycles=lambda rows, memories: self.costs(offloaded, rows),
        )
        kernel = offloading_kernel(offloaded, self._rows, facts)
        return (Implementation("toy_conv2d", kernel),)

    def _rows(self, call: KernelCall) -> Sequence[Command]:
        p, row, k = call.parameters, Var("row"), Var("k")
        width, depth = call.operand(0).type.shape[2:]
        columns, channels = call.output.shape[2:]
        top = binary("-", binary("*", row, p["stride_h"]), p["pad_top"])
        first = binary("max", 0, binary("-", 0, top))
        end = binary("min", p["kernel_h"], binary("-", p["in_h"] + self.beyond, top))
        line = p["kernel_w"] * depth
        weights = replace(call.operand(1).address, offset=binary("*", k, line))
        source = call.operand(0).row(binary("+", top, k))
        numbers = (width, depth, p["kernel_w"], p["kernel_h"] * line, p["stride_w"])
        add = self._invoke(call, tap, source, weights, *numbers, p["pad_left"], p["in_zero"])
        bounds = (p["out_zero"], p["least"], p["most"])
        tables = (call.table("multiplier"), call.table("shift"))
        turn = (
            self._invoke(call, begin, call.operand(2).address, columns, channels),
            Loop("k", first, end, 1, (add,)),
            self._invoke(call, self.stores, *tables, call.result.row(row), *bounds, name="store"),
        )
        return (Loop("row", call.first, call.end, 1, turn),)

    def _invoke(
        self, call: KernelCall, model: Callable[..., None], *arguments: object, name: str = ""
    ) -> Command:
        driver = Driver(f"toy_{name or model.__name__}", self.name, model, Unit)
        return call.invoke(driver, *arguments)


def toy_request(
    model: str = "zoo:lenet5",
    target: str = "cortex-m4",
    *toys: Toy,
    change: Callable[[Accelerator], Accelerator] = lambda accelerator: accelerator,
    strict: bool = False,
    **settings: object,
) -> Request:
    """A request with accelerators: by default one plain toy, each with the given changes."""
    chip = load_target(target)
    accelerators = tuple(change(toy.accelerator(chip)) for toy in toys or (Toy(),))
    wanted = api.request(model, target, **settings)
    return replace(wanted, accelerators=accelerators, strict=strict)
