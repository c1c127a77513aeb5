"""npu16: an engine with 16 KiB of local memory that runs convolutions and pools in tiles.

docs/how-to/bring-up-an-accelerator.md builds this file step by step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

import penstock
from penstock.ir.graph import Graph
from penstock.uma import (
    Address,
    Array,
    Breakdown,
    CallTiles,
    CapacityError,
    Command,
    Copies,
    Driver,
    Expr,
    KernelCall,
    Layer,
    LeastTraffic,
    Offloaded,
    OpStrategy,
    Scratchpads,
    TilePiece,
    Tiling,
    UMABackend,
    choose,
    elements,
    is_constant,
    is_op,
    load_piece,
    requantise,
    sliding_windows,
    store_piece,
    wildcard,
)

LANES, START_CYCLES = 16, 10
LOCAL = Scratchpads.shared(16384, alignment=4, copies=Copies(4, per_run=2, per_copy=20))
TILES = LeastTraffic(only=frozenset("hwc"))
"""Tiles of rows, columns and output channels; never of the sums over input channels."""
CONV, DEPTHWISE, MAX, AVERAGE = KINDS = "Conv2D", "DepthwiseConv2D", "MaxPool2D", "AveragePool2D"


@dataclass(frozen=True)
class Tile:
    """The arguments of npu16_compute, which npu16.h describes."""

    kind: int
    x: Expr
    in_h: Expr
    in_w: Expr
    in_c: Expr
    top: Expr
    left: Expr
    x_row: int
    x_column: int
    y: Expr
    out_h: Expr
    out_w: Expr
    out_c: Expr
    y_row: int
    y_column: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    least: int
    most: int
    w: Expr = 0
    w_tap: int = 0
    scales: Expr = 0
    in_zero: int = 0
    out_zero: int = 0


def compute_model(local: Array, t: Any) -> None:
    """Functional model of npu16_compute on the bytes of the local memory."""
    kind, kernel, stride = KINDS[t.kind], (t.kernel_h, t.kernel_w), (t.stride_h, t.stride_w)
    x = elements(local[t.x :], np.int8, t.in_h, t.in_w, t.in_c, pitches=(t.x_row, t.x_column, 1))
    found, inside = sliding_windows(
        x.astype(float), (t.out_h, t.out_w), kernel, stride, before=(t.top, t.left)
    )
    if kind == MAX:
        y = np.where(inside, found, -128).max((2, 3))
    elif kind == AVERAGE:
        sums = (found * inside).sum((2, 3))
        y = np.trunc(sums / inside.sum((2, 3)) + np.copysign(0.5, sums))
    else:
        shape = (t.out_c if kind == CONV else 1, t.kernel_h * t.kernel_w, t.in_c)
        pitches = (shape[1] * t.w_tap, t.w_tap, 1)
        w = elements(local[t.w :], np.int8, *shape, pitches=pitches).astype(float)
        taps = ((found - t.in_zero) * inside).reshape(t.out_h, t.out_w, *shape[1:])
        axes = "yxtc,otc->yxo" if kind == CONV else "yxtc,otc->yxc"
        sums = np.einsum(axes, taps, w, optimize=True).astype(np.int64)
        bias, factor, shift = elements(local[t.scales :], np.int32, t.out_c, 3).T
        y = requantise(sums + bias, factor, shift, t.out_zero, (t.least, t.most))
    shape, pitches = (t.out_h, t.out_w, t.out_c), (t.y_row, t.y_column, 1)
    elements(local[t.y :], np.int8, *shape, pitches=pitches)[:] = y.clip(t.least, t.most)


def new_memory() -> Array:
    return np.full(LOCAL.scratchpads[0].size_bytes, 0x55, np.uint8)


LOAD = Driver("npu16_load", "npu16", load_piece, new_memory)
STORE = Driver("npu16_store", "npu16", store_piece, new_memory)
COMPUTE = Driver("npu16_compute", "npu16", compute_model, new_memory)


def layer(offloaded: Offloaded, rows: int | None = None) -> Layer:
    """The loop nest of a call.  Bias, multiplier and shift take 12 bytes for each channel."""
    found = offloaded.layer(rows)
    inputs = (replace(i, element_bytes=12) if i.name == "input 2" else i for i in found.inputs)
    return replace(found, inputs=tuple(inputs)).with_axis("c", least=4, step=4, lanes=LANES)


@cache
def tiling(found: Layer) -> Tiling:
    return choose(TILES, found, LOCAL)


def load(piece: TilePiece[Expr, Address]) -> Command:
    return KernelCall.invoke_record(LOAD, piece)


def store(piece: TilePiece[Expr, Address]) -> Command:
    return KernelCall.invoke_record(STORE, piece)


def compute(call: KernelCall) -> Sequence[Command]:
    """The commands of a call: load, compute and store each tile of its rows."""
    p, tiles = call.parameters, CallTiles(call, layer(call), tiling(layer(call, call.rows)))
    x, *constants, y = tiles.operand_tiles
    arguments = [KINDS.index(call.main.kind)]
    arguments += [x.start, *x.shape[1:], *x.padding[1:3], *x.pitches[1:3]]
    arguments += [y.start, *y.shape[1:], *y.pitches[1:3]]
    window = ("kernel_h", "kernel_w", "stride_h", "stride_w", "least", "most")
    arguments += [p[name] for name in window]
    loads = [x.copies(call.operand(0), load)]
    if constants:
        w, scales = constants
        loads += [w.copies(call.operand(1), load), scales.copies(call.table("scales"), load)]
        arguments += [w.start, w.pitches[2], scales.start, p["in_zero"], p["out_zero"]]
    run = call.invoke_record(COMPUTE, Tile(*arguments))
    return tiles.nest(loads, [run], y.copies(call.result, store))


def scales(offloaded: Offloaded) -> dict[str, Array]:
    """Bias, multiplier and shift of each channel, as int32."""
    if offloaded.main.kind in (MAX, AVERAGE):
        return {}
    columns = offloaded.constant(2), offloaded.tables["multiplier"], offloaded.tables["shift"]
    return {"scales": np.stack(columns, axis=1).astype(np.int32)}


def cycles(offloaded: Offloaded, rows: int) -> Breakdown:
    """The cycles of a call: copies and computation do not overlap."""
    found = tiling(layer(offloaded, rows))
    parts = {"multipliers": float(found.engine_cycles), "dma": float(found.copy_cycles)}
    return Breakdown(sum(parts.values()) + START_CYCLES * found.count, parts, LANES)


def strategy(attrs: Any, inputs: Sequence[Any], out_type: Any, target: Any) -> OpStrategy:
    """One implementation; the table of scales replaces the bias, input 2."""
    found = OpStrategy()
    folded = (2,) if len(inputs) > 2 else ()
    found.add_implementation(
        compute, name="npu16.tiles", cost=cycles, tables=scales, folded=folded,
        by_rows=True, by_columns=True,
    )  # fmt: skip
    return found


def plain(offloaded: Offloaded) -> bool | str:
    """There are no dilations, groups, depth multipliers or batches."""
    p = {"images": offloaded.output.shape[0], **offloaded.parameters}
    names = ("dilation_h", "dilation_w", "groups", "multiplier_d", "images")
    return next((f"{name} is {p[name]}" for name in names if p.get(name, 1) != 1), True)


def fits(offloaded: Offloaded) -> bool | str:
    """The smallest tiles of all tensors fit into the local memory together."""
    try:
        tiling(layer(offloaded))
    except CapacityError as error:
        return error.what
    return True


class Npu16(UMABackend):
    """The engine, for int8 convolutions, depthwise convolutions and pools."""

    def __init__(self) -> None:
        super().__init__()
        self._register_constraint(plain)
        self._register_constraint(fits)
        weighted = (wildcard(), is_constant(), is_constant())
        self._register_pattern("convolution", is_op("nn.conv2d")(*weighted))
        self._register_pattern("depthwise", is_op("nn.depthwise_conv2d")(*weighted))
        self._register_pattern("maximum", is_op("nn.max_pool2d")(wildcard()))
        self._register_pattern("mean", is_op("nn.avg_pool2d")(wildcard()))
        for name in ("convolution", "depthwise", "maximum", "mean"):
            self._register_operator_strategy(name, strategy)
        self._register_codegen(includes='#include "npu16.h"', sources=("npu16.h", "npu16.c"))

    @property
    def target_name(self) -> str:
        return "npu16"


def network() -> Graph:
    """Convolutions, a depthwise layer and pools, whose tensors exceed the local memory."""
    net = penstock.GraphBuilder("layers")
    x = net.conv2d(net.input((1, 48, 40, 3)), 20, 3, 2, activation="relu", name="first")
    x = net.conv2d(x, 30, 1, name="pointwise")
    x = net.depthwise_conv2d(x, 3, activation="relu6", name="depthwise")
    x = net.max_pool2d(x, 3, 2, "same", name="maximum")
    x = net.depthwise_conv2d(x, (5, 3), (1, 2), "valid", name="long")
    return net.build(net.average_pool2d(x, 2, 1, "same", name="mean"))
