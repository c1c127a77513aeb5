"""Schedules of implementations: one engine with local memories, in two loop orders.

A pointwise convolution is divided into tiles of rows and output channels.  The engine holds one
tile of the input and one of the weights; a tile is loaded only if it differs from the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import penstock
from penstock.ir.graph import Graph
from penstock.uma import (
    Address,
    Array,
    Driver,
    Invoke,
    KernelCall,
    LeastTraffic,
    LoopOrder,
    Offloaded,
    OpStrategy,
    Scratchpads,
    Tiling,
    UMABackend,
    choose,
    elements,
    is_constant,
    is_op,
    requantise,
    wildcard,
)

TILES = LeastTraffic(only=frozenset("hc"))
ROWS_OUTSIDE = LoopOrder(("h", "c"), TILES)
"""Each tile of the input is loaded once, the weights again for each tile of rows."""
CHANNELS_OUTSIDE = LoopOrder(("c", "h"), TILES)
"""Each tile of the weights is loaded once, the input again for each tile of channels."""
LOCAL = Scratchpads.separate(256, 128, 256)
"""The sizes of the local memories for input, weights and output in bytes."""

HEADER = """\
#ifndef TILED_H
#define TILED_H
#include <stdint.h>
/* Copies bytes to local memory 0 (input) or 1 (weights). */
void tiled_load(int32_t memory, const void *source, int32_t size);
/* Pixels of some output channels from the local memories, to y with a distance between pixels. */
void tiled_run(const void *bias, const void *multiplier, const void *shift, void *y, int32_t pixels,
    int32_t in_c, int32_t channels, int32_t distance, int32_t in_zero, int32_t out_zero,
    int32_t least, int32_t most);
#endif
"""
STUB = """\
#include "tiled.h"
static int8_t local[2][256];
void tiled_load(int32_t memory, const void *source, int32_t size) {
    for (int32_t i = 0; i < size; i++) {
        local[memory][i] = ((const int8_t *)source)[i];
    }
}
static int32_t scaled(int32_t sum, int32_t multiplier, int32_t shift) {
    const int32_t left = shift > 0 ? shift : 0;
    const int32_t right = shift > 0 ? 0 : -shift;
    const int64_t product = (int64_t)(int32_t)((uint32_t)sum << left) * multiplier;
    const int64_t high = (product + (INT64_C(1) << 30)) >> 31;
    const int64_t mask = (INT64_C(1) << right) - 1;
    return (int32_t)((high >> right) + ((high & mask) > (mask >> 1) + (high < 0)));
}
void tiled_run(const void *bias, const void *multiplier, const void *shift, void *y, int32_t pixels,
    int32_t in_c, int32_t channels, int32_t distance, int32_t in_zero, int32_t out_zero,
    int32_t least, int32_t most) {
    for (int32_t i = 0; i < pixels * channels; i++) {
        const int32_t p = i / channels, o = i % channels;
        int32_t sum = ((const int32_t *)bias)[o];
        for (int32_t c = 0; c < in_c; c++) {
            sum += (local[0][p * in_c + c] - in_zero) * local[1][o * in_c + c];
        }
        const int32_t factor = ((const int32_t *)multiplier)[o];
        const int32_t found = scaled(sum, factor, ((const int32_t *)shift)[o]) + out_zero;
        const int32_t kept = found < least ? least : found > most ? most : found;
        ((int8_t *)y)[p * distance + o] = (int8_t)kept;
    }
}
"""


def load_model(device: dict[int, Array], memory: int, source: Array, size: int) -> None:
    """Functional model of `tiled_load`."""
    device[memory] = elements(source, np.int8, size).copy()


def run_model(
    device: dict[int, Array], bias: Array, factor: Array, shift: Array, y: Array, *numbers: int
) -> None:
    """Functional model of `tiled_run`."""
    pixels, in_c, channels, distance, in_zero, out_zero, least, most = numbers
    x = device[0][: pixels * in_c].reshape(pixels, in_c).astype(np.int32) - in_zero
    weights = device[1][: channels * in_c].reshape(channels, in_c).astype(np.int32)
    sums = x @ weights.T + elements(bias, np.int32, channels)
    scales = elements(factor, np.int32, channels), elements(shift, np.int32, channels)
    found = requantise(sums, *scales, out_zero, (least, most))
    for pixel in range(pixels):
        elements(y[pixel * distance :], np.int8, channels)[:] = found[pixel]


LOAD = Driver("tiled_load", "tiled", load_model, device=dict)
RUN = Driver("tiled_run", "tiled", run_model, device=dict)


def tiling(offloaded: Offloaded) -> Tiling:
    """The tiles of a layer, in the order that the implementation states as its schedule."""
    return choose(offloaded.tiler(TILES), offloaded.layer(), LOCAL)


def moved(address: Address, size: int) -> Address:
    """The address `size` bytes after another."""
    return replace(address, offset=address.offset + size)


def compute(call: KernelCall) -> Sequence[Invoke]:
    """The commands of a call: the loads, and a command for each tile."""
    p, x, y = call.parameters, call.operand(0), call.result
    width, in_c, out_c = p["in_w"], p["in_c"], p["out_c"]
    found: list[Invoke] = []
    for step in tiling(call).steps():
        (top, bottom), (first, end) = step.box["h"], step.box["c"]
        pixels, channels = (bottom - top) * width, end - first
        loaded = {copy.operand.name for copy in step.loads}
        if "input 0" in loaded:
            found.append(call.invoke(LOAD, 0, x.row(top), pixels * in_c))
        if "input 1" in loaded:
            weights = moved(call.operand(1).address, first * in_c)
            found.append(call.invoke(LOAD, 1, weights, channels * in_c))
        tables = [moved(call.operand(2).address, 4 * first)]
        tables += [moved(call.table(name), 4 * first) for name in ("multiplier", "shift")]
        numbers = (pixels, in_c, channels, out_c, p["in_zero"], p["out_zero"])
        bounds = (p["least"], p["most"])
        found.append(call.invoke(RUN, *tables, y.row(top, first), *numbers, *bounds))
    return found


def tables(offloaded: Offloaded) -> dict[str, Array]:
    """The multiplier and shift of each output channel, as int32."""
    return {name: offloaded.tables[name].astype(np.int32) for name in ("multiplier", "shift")}


def cycles(offloaded: Offloaded, rows: int) -> float:
    """The cycles of a call: one for each 4 bytes loaded or stored."""
    del rows
    return tiling(offloaded).bytes / 4


def pointwise(offloaded: Offloaded) -> bool | str:
    """Windows must be 1 x 1, with stride 1, one group and batch size 1."""
    p = offloaded.parameters
    plain = {"kernel_h": 1, "kernel_w": 1, "stride_h": 1, "stride_w": 1, "groups": 1}
    wrong = [f"{name} is {p[name]}" for name, wanted in plain.items() if p[name] != wanted]
    return offloaded.output.shape[0] == 1 and (not wrong or ", ".join(wrong))


class Tiled(UMABackend):
    """An engine for pointwise convolutions, whose attribute `order` selects the schedule."""

    def __init__(self) -> None:
        super().__init__()
        self._register_target_attr("order", "best")
        self._register_pattern(
            "pointwise", is_op("nn.conv2d")(wildcard(), is_constant()), pointwise
        )
        self._register_operator_strategy("pointwise", strategy)
        sources = {"tiled.h": HEADER, "tiled.c": STUB}
        self._register_codegen(includes='#include "tiled.h"', sources=sources)

    @property
    def target_name(self) -> str:
        return "tiled"


def strategy(attrs: Any, inputs: Any, out_type: Any, target: Any) -> OpStrategy:
    """Two implementations, which differ only in their schedules; the faster one runs."""
    del attrs, inputs, out_type
    found, order = OpStrategy(), target.attrs["order"]
    for name, schedule in {"rows": ROWS_OUTSIDE, "channels": CHANNELS_OUTSIDE}.items():
        wanted = order in ("best", name) or f"the attribute order is {order}"
        found.add_implementation(
            compute,
            schedule,
            name=f"tiled.{name}",
            cost=cycles,
            tables=tables,
            condition=wanted,
        )
    return found


def network() -> Graph:
    """A pointwise convolution of 8 x 8 pixels with 16 input and 24 output channels."""
    net = penstock.GraphBuilder("pointwise")
    return net.build(net.conv2d(net.input((1, 8, 8, 16)), 24, 1, name="y"))
