"""vanilla: a convolution engine behind one C function; the accelerator of UMA's tutorial.

The engine computes a whole convolution at once, where its tensors lie; it has no memory of its own.
The function is supplied: `vanilla.c`, which runs until there is silicon.

Source: TVM, UMA tutorial "Making your Hardware Accelerator TVM-ready with UMA", accelerator
Vanilla; there on floats in NCHW, here on int8 in NHWC with TFLite's arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.uma import (
    AcceleratorTarget,
    Array,
    Command,
    Driver,
    KernelCall,
    Offloaded,
    OpStrategy,
    UMABackend,
    convolved,
    elements,
    is_constant,
    is_op,
    requantise,
    wildcard,
)

SHAPE = ("in_h", "in_w", "in_c", "out_h", "out_w", "out_c", "kernel_h", "kernel_w")
WINDOW = ("stride_h", "stride_w", "dilation_h", "dilation_w", "pad_top", "pad_left")
RANGE = ("in_zero", "out_zero", "least", "most")


class Vanilla(UMABackend):
    """Convolutions of one image, without groups."""

    def __init__(self) -> None:
        super().__init__()
        self._register_target_attr("macs_per_cycle", default=16, least=1)
        self._register_pattern("conv2d", is_op("nn.conv2d")(wildcard(), is_constant()))
        self._register_constraint(one_image)
        self._register_constraint(no_groups)
        self._register_operator_strategy("nn.conv2d", conv2d_strategy)
        self._register_codegen(includes='#include "vanilla.h"', sources=("vanilla.h", "vanilla.c"))

    @property
    def target_name(self) -> str:
        return "vanilla"


def one_image(offloaded: Offloaded) -> bool | str:
    """The engine convolves one image."""
    images = offloaded.output.shape[0]
    return images == 1 or f"there are {images}"


def no_groups(offloaded: Offloaded) -> bool | str:
    """Every output channel reads every input channel."""
    groups = offloaded.parameters["groups"]
    return groups == 1 or f"there are {groups} groups of channels"


def conv2d_strategy(
    attrs: Any, inputs: Any, out_type: Any, target: AcceleratorTarget
) -> OpStrategy:
    """One function of the driver a convolution."""
    del attrs, inputs, out_type, target
    strategy = OpStrategy()
    strategy.add_implementation(
        conv2d,
        name="vanilla_conv2d",
        cost=cycles,
        tables=lambda offloaded: offloaded.tables,
    )
    return strategy


def cycles(offloaded: Offloaded, rows: int) -> float:
    """So many products a cycle, and 200 cycles to begin."""
    return offloaded.macs(rows) / int(offloaded.target.attrs["macs_per_cycle"]) + 200


def conv2d(call: KernelCall) -> Sequence[Command]:
    """The call: input, weights, bias, multipliers, shifts, output; then the numbers."""
    tensors = (call.operand(k).address for k in range(3))
    numbers = (call.parameters[name] for name in SHAPE + WINDOW + RANGE)
    return [
        call.invoke(
            VANILLA_CONV2D,
            *tensors,
            call.table("multiplier"),
            call.table("shift"),
            call.result.address,
            *numbers,
        )
    ]


def convolve(
    engine: object,
    x: Array,
    weights: Array,
    bias: Array,
    multiplier: Array,
    shift: Array,
    y: Array,
    *numbers: int,
) -> None:
    """What the function does: bytes in, bytes out."""
    del engine
    p = dict(zip(SHAPE + WINDOW + RANGE, numbers, strict=True))
    sums = convolved(
        elements(x, np.int8, p["in_h"], p["in_w"], p["in_c"]),
        elements(weights, np.int8, p["out_c"], p["kernel_h"], p["kernel_w"], p["in_c"]),
        (p["out_h"], p["out_w"]),
        (p["stride_h"], p["stride_w"]),
        (p["dilation_h"], p["dilation_w"]),
        (p["pad_top"], p["pad_left"]),
        p["in_zero"],
    )
    sums += elements(bias, np.int32, p["out_c"])
    factors = elements(multiplier, np.int32, p["out_c"]), elements(shift, np.int8, p["out_c"])
    found = requantise(sums, *factors, p["out_zero"], (p["least"], p["most"]))
    elements(y, np.int8, *found.shape)[:] = found


VANILLA_CONV2D = Driver("vanilla_conv2d", "vanilla", convolve, device=object)
