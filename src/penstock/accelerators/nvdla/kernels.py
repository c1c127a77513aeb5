"""kernels: operators as hardware layers of NVDLA's core and of the extension.

Features lie in packs of channels, row by row (`penstock.uma.packed`): a surface is one pack of a
row, and lines are as far apart as rows.  Whole tensors are computed, one after the other; where the
input does not fit into the convolution buffer, in pieces of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from penstock.accelerators.nvdla.address_map import registers
from penstock.accelerators.nvdla.banks import Demand, allocate
from penstock.accelerators.nvdla.configurations import Configuration, configuration
from penstock.accelerators.nvdla.extension import (
    Elementwise,
    Post,
    Range,
    Scale,
    WindowKind,
    WindowLayer,
)
from penstock.accelerators.nvdla.layer import Accumulators, ConvolutionLayer, Padding, Surface
from penstock.accelerators.nvdla.packing import pack_weights
from penstock.accelerators.nvdla.programs import BEGIN, NUMBERS, WRITE
from penstock.accelerators.nvdla.stream import Write, convolution_writes, window_writes
from penstock.uma import Address, Array, Command, KernelCall, Offloaded, Operand

Places = Mapping[str, Address]
"""Addresses by the registers that hold their lower halves."""
SOURCE, WEIGHTS = "CDMA.D_DAIN_ADDR_LOW_0", "CDMA.D_WEIGHT_ADDR_LOW"
WINDOW_SOURCE, WINDOW_WEIGHTS = "WINDOW.D_DAIN_ADDR_LOW", "WINDOW.D_WEIGHT_ADDR_LOW"
TABLE, SECOND, OUTPUT = (
    *("POST.D_TABLE_ADDR_LOW", "POST.D_SECOND_ADDR_LOW", "SDP.D_DST_BASE_ADDR_LOW"),
)
SIGNS = {1: Elementwise.ADD, -1: Elementwise.SUBTRACT}
POOLS = {"MaxPool2D": WindowKind.LARGEST, "AveragePool2D": WindowKind.MEAN}
WHOLE_ROW = {"kernel_h": 1, "kernel_w": 1, "stride_h": 1, "stride_w": 1, "dilation_h": 1,
             "dilation_w": 1, "pad_top": 0, "pad_left": 0}  # fmt: skip
"""The window of a layer that has none."""


def hardware(offloaded: Offloaded) -> Configuration:
    """The configuration that the user chose, with the extension."""
    return configuration(str(offloaded.target.attrs["config"])).extended(0, 0)


def geometry(offloaded: Offloaded) -> dict[str, int]:
    """Shapes and window of the main operator; a dense layer is a convolution of one point."""
    p = dict(offloaded.parameters)
    match offloaded.main.kind:
        case "FullyConnected":
            return WHOLE_ROW | p | {"in_h": 1, "in_w": 1, "out_h": 1, "out_w": 1}
        case "Conv2D" | "DepthwiseConv2D" | "MaxPool2D" | "AveragePool2D":
            return p
        case _:
            _, h, w, c = offloaded.main.output.type.shape
            sizes = {f"{side}_{axis}": n for side in ("in", "out") for axis, n in zip("hwc", (h, w, c), strict=True)}
            return WHOLE_ROW | p | sizes


def surface(offloaded: Offloaded, width: int, channels: int) -> Surface:
    """How a tensor of so many columns and channels lies."""
    atom = hardware(offloaded).memory_atom_bytes
    return Surface(-(-channels // atom) * width * atom, width * atom)


def requantisation(offloaded: Offloaded) -> Post:
    """What becomes of sums."""
    p = offloaded.parameters
    limits = Range(p["least"], p["most"])
    return Post(requantise=True, zero=p["out_zero"], limits=limits)


def reach(p: Mapping[str, int], axis: str) -> int:
    """Points from the first to the last tap of a window."""
    return (p[f"kernel_{axis}"] - 1) * p[f"dilation_{axis}"] + 1


def span(p: Mapping[str, int], axis: str, first: int, end: int) -> tuple[int, int, int, int]:
    """Of outputs [first, end): the first input and how many are read, and the padding before and
    behind them."""
    before = p["pad_top" if axis == "h" else "pad_left"]
    lower = first * p[f"stride_{axis}"] - before
    upper = (end - 1) * p[f"stride_{axis}"] - before + reach(p, axis)
    extent = p[f"in_{axis}"]
    inside = max(lower, 0), min(upper, extent)
    return inside[0], inside[1] - inside[0], inside[0] - lower, upper - inside[1]


def demand(offloaded: Offloaded) -> Demand:
    """What a convolution asks of the buffer."""
    p = geometry(offloaded)
    taps = p["kernel_h"] * p["kernel_w"]
    return Demand(hardware(offloaded), p["in_w"], p["in_h"], p["in_c"], p["out_c"], taps,
                  reach(p, "h"), p["stride_h"])  # fmt: skip


def pieces(offloaded: Offloaded) -> Iterator[tuple[int, ConvolutionLayer]]:
    """The hardware layers of a convolution, with the first row of each one's output."""
    p, split = geometry(offloaded), allocate(demand(offloaded))
    step = p["out_h"] if split.rows >= p["in_h"] else (split.rows - reach(p, "h")) // p["stride_h"] + 1
    for first in range(0, p["out_h"], step):
        end = min(first + step, p["out_h"])
        _, height, top, bottom = span(p, "h", first, end)
        _, width, left, right = span(p, "w", 0, p["out_w"])
        output = surface(offloaded, p["out_w"], p["out_c"])
        yield first, ConvolutionLayer(
            hardware(offloaded),
            width,
            height,
            p["in_c"],
            p["out_c"],
            p["kernel_w"],
            p["kernel_h"],
            source=surface(offloaded, p["in_w"], p["in_c"]),
            output=output,
            accumulators=Accumulators(output.line_stride, output.surface_stride),
            data_banks=split.data_banks,
            weight_banks=split.weight_banks,
            release=height,
            stride_x=p["stride_w"],
            stride_y=p["stride_h"],
            dilation_x=p["dilation_w"],
            dilation_y=p["dilation_h"],
            padding=Padding(left, right, top, bottom),
            pad_value=p["in_zero"],
        )


def window(offloaded: Offloaded, kind: WindowKind) -> WindowLayer:
    """A layer of the extension's unit WINDOW."""
    p = geometry(offloaded)
    _, _, top, bottom = span(p, "h", 0, p["out_h"])
    _, _, left, right = span(p, "w", 0, p["out_w"])
    return WindowLayer(
        kind,
        p["in_w"],
        p["in_h"],
        p["in_c"],
        p["kernel_w"],
        p["kernel_h"],
        surface(offloaded, p["in_w"], p["in_c"]),
        surface(offloaded, p["out_w"], p["out_c"]),
        p["stride_w"],
        p["stride_h"],
        p["dilation_w"],
        p["dilation_h"],
        Padding(left, max(right, 0), top, max(bottom, 0)),
        p.get("in_zero", 0),
        p.get("multiplier_d", 1),
    )


def convolution(call: KernelCall) -> Sequence[Command]:
    """A convolution, or a dense layer, in pieces of rows."""
    p, commands = geometry(call), begin(call)
    x, y = packs(call, 0), call.result
    for first, layer in pieces(call):
        row, *_ = span(p, "h", first, first + layer.out_height)
        places = {
            SOURCE: x.row(row),
            WEIGHTS: call.table("weights"),
            TABLE: call.table("post"),
            OUTPUT: y.row(first),
        }
        commands += writes(convolution_writes(layer, requantisation(call)), places)
    return commands


def depthwise(call: KernelCall) -> Sequence[Command]:
    """A depthwise convolution."""
    places = {
        WINDOW_SOURCE: packs(call, 0).row(0),
        WINDOW_WEIGHTS: call.table("weights"),
        TABLE: call.table("post"),
        OUTPUT: call.result.row(0),
    }
    layer = window(call, WindowKind.DEPTHWISE)
    return begin(call) + writes(window_writes(layer, requantisation(call)), places)


def pool(call: KernelCall) -> Sequence[Command]:
    """The largest element under each window, or the mean."""
    post = Post(limits=Range(call.parameters["least"], call.parameters["most"]))
    places = {WINDOW_SOURCE: packs(call, 0).row(0), OUTPUT: call.result.row(0)}
    return begin(call) + writes(window_writes(window(call, POOLS[call.main.kind]), post), places)


def elementwise(call: KernelCall) -> Sequence[Command]:
    """A sum, a difference or a product: the first tensor passes under a window of one element."""
    p, g = call.parameters, geometry(call)
    post = Post(
        elementwise=SIGNS[p["sign1"]] if "sign1" in p else Elementwise.MULTIPLY,
        second=surface(call, g["out_w"], g["out_c"]),
        first=Scale(p["zero0"], p.get("multiplier0", 0), p.get("shift0", 0)),
        other=Scale(p["zero1"], p.get("multiplier1", 0), p.get("shift1", 0)),
        result=Scale(p["out_zero"], p["out_multiplier"], p["out_shift"]),
        result_limits=Range(p["least"], p["most"]),
    )
    places = {
        WINDOW_SOURCE: packs(call, 0).row(0),
        SECOND: packs(call, 1).row(0),
        OUTPUT: call.result.row(0),
    }
    return begin(call) + writes(window_writes(window(call, WindowKind.LARGEST), post), places)


def packs(call: KernelCall, k: int) -> Operand:
    """Input k of the main operator, in packs, as it comes from outside."""
    return call.operands[call.composite.inputs.index(f"{call.main.inputs[k].name}/packed")]


def begin(call: KernelCall) -> list[Command]:
    """What every stream begins with."""
    return [call.invoke(BEGIN, NUMBERS.index(hardware(call).name))]


def writes(layer: Sequence[Write], places: Places) -> list[Command]:
    """Commands of a hardware layer's writes."""
    return [
        KernelCall.invoke(WRITE, registers()[w.register].address, places.get(w.register, w.word))
        for w in layer
    ]


def tables(offloaded: Offloaded) -> Mapping[str, Array]:
    """Weights in the hardware's order; bias, multiplier and shift of each channel."""
    weights = offloaded.constant(1)
    p, t = offloaded.parameters, offloaded.tables
    if offloaded.main.kind == "DepthwiseConv2D":
        packed, sums = weights.ravel(), weights.astype(np.int64).sum(axis=(0, 1, 2))
    else:
        kernels = weights.reshape(len(weights), *(weights.shape[1:] if weights.ndim == 4 else (1, 1, -1)))
        packed = np.frombuffer(pack_weights(kernels, hardware(offloaded)), np.int8)
        sums = kernels.astype(np.int64).sum(axis=(1, 2, 3))
    bias = offloaded.constant(2) - p["in_zero"] * sums
    post = np.stack([bias, t["multiplier"], t["shift"]], axis=1)
    return {"weights": packed, "post": post.astype(np.int32)}


KERNELS: Mapping[str, Any] = {
    "nn.conv2d": convolution,
    "nn.dense": convolution,
    "nn.depthwise_conv2d": depthwise,
    "nn.max_pool2d": pool,
    "nn.avg_pool2d": pool,
    "add": elementwise,
    "subtract": elementwise,
    "multiply": elementwise,
}
WEIGHTED = ("nn.conv2d", "nn.dense", "nn.depthwise_conv2d")
