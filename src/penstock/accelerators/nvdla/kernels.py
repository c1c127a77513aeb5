"""kernels: operators as hardware layers of NVDLA's core and of the extension.

Features lie in packs of channels, row by row (`penstock.uma.packed`): a surface is one pack of a
row, and lines are as far apart as rows.  Whole tensors are computed; where
the input does not fit into the convolution buffer, in pieces of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from penstock.accelerators.nvdla.address_map import registers
from penstock.accelerators.nvdla.configurations import Configuration, configuration
from penstock.accelerators.nvdla.cut import Convolution, hardware_layers
from penstock.accelerators.nvdla.extension import (
    Elementwise,
    Post,
    Range,
    Scale,
    WindowKind,
    WindowLayer,
)
from penstock.accelerators.nvdla.layer import Padding, Surface
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
            same = {"in_h": h, "in_w": w, "in_c": c, "out_h": h, "out_w": w, "out_c": c}
            return WHOLE_ROW | p | same


def surface(offloaded: Offloaded, width: int, channels: int) -> Surface:
    """How a tensor of so many columns and channels lies."""
    atom = hardware(offloaded).memory_atom_bytes
    return Surface(-(-channels // atom) * width * atom, width * atom)


def requantisation(offloaded: Offloaded) -> Post:
    """What becomes of sums."""
    p = offloaded.parameters
    limits = Range(p["least"], p["most"])
    return Post(requantise=True, zero=p["out_zero"], limits=limits)


def padding(p: Mapping[str, int]) -> Padding:
    """What windows see around the input."""
    behind = [
        (p[f"out_{axis}"] - 1) * p[f"stride_{axis}"]
        + (p[f"kernel_{axis}"] - 1) * p[f"dilation_{axis}"]
        + 1
        - p[before]
        - p[f"in_{axis}"]
        for axis, before in (("w", "pad_left"), ("h", "pad_top"))
    ]
    return Padding(p["pad_left"], max(0, behind[0]), p["pad_top"], max(0, behind[1]))


def convolution(offloaded: Offloaded) -> Convolution:
    """A convolution, or a dense layer, as the core is to see it; addresses begin at 0."""
    p = geometry(offloaded)
    return Convolution(
        hardware(offloaded),
        p["in_w"],
        p["in_h"],
        p["in_c"],
        p["out_c"],
        p["kernel_w"],
        p["kernel_h"],
        surface(offloaded, p["in_w"], p["in_c"]),
        surface(offloaded, p["out_w"], p["out_c"]),
        weight_address=0,
        stride_x=p["stride_w"],
        stride_y=p["stride_h"],
        dilation_x=p["dilation_w"],
        dilation_y=p["dilation_h"],
        padding=padding(p),
        pad_value=p["in_zero"],
    )


def window(offloaded: Offloaded, kind: WindowKind) -> WindowLayer:
    """A layer of the extension's unit WINDOW."""
    p = geometry(offloaded)
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
        padding(p),
        p.get("in_zero", 0),
        p.get("multiplier_d", 1),
    )


def convolved(call: KernelCall) -> Sequence[Command]:
    """A convolution, or a dense layer, in pieces that the buffer has room for."""
    places = {
        SOURCE: packs(call, 0).row(0),
        WEIGHTS: call.table("weights"),
        TABLE: call.table("post"),
        OUTPUT: call.result.row(0),
    }
    layers = (convolution_writes(layer, requantisation(call))
              for layer in hardware_layers(convolution(call)))  # fmt: skip
    return begin(call) + [command for layer in layers for command in writes(layer, places)]


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
    """Commands of a hardware layer's writes; addresses are counted from their places."""
    return [
        KernelCall.invoke(WRITE, registers()[w.register].address, _placed(w, places)) for w in layer
    ]


def _placed(write: Write, places: Places) -> int | Address:
    place = places.get(write.register)
    return write.word if place is None else replace(place, offset=place.offset + write.word)


def tables(offloaded: Offloaded) -> Mapping[str, Array]:
    """Weights in the hardware's order; bias, multiplier and shift of each channel."""
    weights = offloaded.constant(1)
    p, t = offloaded.parameters, offloaded.tables
    if offloaded.main.kind == "DepthwiseConv2D":
        packed, sums = weights.ravel(), weights.astype(np.int64).sum(axis=(0, 1, 2))
    else:
        kernels = weights.reshape((len(weights), 1, 1, -1)) if weights.ndim == 2 else weights
        packed = np.frombuffer(pack_weights(kernels, hardware(offloaded)), np.int8)
        sums = kernels.astype(np.int64).sum(axis=(1, 2, 3))
    bias = offloaded.constant(2) - p["in_zero"] * sums
    post = np.stack([bias, t["multiplier"], t["shift"]], axis=1)
    return {"weights": packed, "post": post.astype(np.int32)}


KERNELS: Mapping[str, Any] = {
    "nn.conv2d": convolved,
    "nn.dense": convolved,
    "nn.depthwise_conv2d": depthwise,
    "nn.max_pool2d": pool,
    "nn.avg_pool2d": pool,
    "add": elementwise,
    "subtract": elementwise,
    "multiply": elementwise,
}
WEIGHTED = ("nn.conv2d", "nn.dense", "nn.depthwise_conv2d")
