"""vanilla: a convolution engine with a single driver function; the accelerator of UMA's tutorial.

An invocation computes a convolution, with all tensors in main memory.  `vanilla.c` implements it.
Source: TVM's UMA tutorial, accelerator Vanilla; there float32 in NCHW, here int8 in NHWC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Generic, TypeVar

import numpy as np

from penstock.uma import (
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
    one_group,
    requantise,
    single_image,
    wildcard,
)

Memory = TypeVar("Memory")


@dataclass(frozen=True, slots=True)
class Convolution2D(Generic[Memory]):
    """The arguments of `vanilla_conv2d`.  Tensors are addresses, or byte arrays in `convolve`.

    x, weights: the int8 input (in_h, in_w, in_c) and weights (out_c, kernel_h, kernel_w, in_c).
    bias, multiplier, shift: one number per output channel; scale = multiplier * 2^(shift - 31).
    y: the int8 output (out_h, out_w, out_c).
    stride_h to pad_left: strides, dilations, and padding above and to the left.
    in_zero to most: the zero points, and the inclusive bounds of the output."""

    x: Memory
    weights: Memory
    bias: Memory
    multiplier: Memory
    shift: Memory
    y: Memory
    in_h: int
    in_w: int
    in_c: int
    out_h: int
    out_w: int
    out_c: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    dilation_h: int
    dilation_w: int
    pad_top: int
    pad_left: int
    in_zero: int
    out_zero: int
    least: int
    most: int


TENSORS = ("x", "weights", "bias", "multiplier", "shift", "y")


class Vanilla(UMABackend):
    """Backend of vanilla: convolutions with batch size 1 and one group."""

    def __init__(self) -> None:
        super().__init__()
        self._register_target_attr("macs_per_cycle", default=16, least=1)
        self._register_pattern("conv2d", is_op("nn.conv2d")(wildcard(), is_constant()))
        self._register_constraint(single_image)
        self._register_constraint(one_group)
        self._register_operator_strategy("nn.conv2d", conv2d_strategy)
        self._register_codegen(includes='#include "vanilla.h"', sources=("vanilla.h", "vanilla.c"))

    @property
    def target_name(self) -> str:
        return "vanilla"


def conv2d_strategy(*facts: object) -> OpStrategy:
    """Return the strategy of convolutions: one driver call per convolution."""
    del facts
    strategy = OpStrategy()
    strategy.add_implementation(
        conv2d, name="vanilla_conv2d", cost=cycles, tables=lambda offloaded: offloaded.tables
    )
    return strategy


def cycles(offloaded: Offloaded, rows: int) -> float:
    """Return the cycles of a call for `rows` rows: 200 + MACs / (attribute `macs_per_cycle`)."""
    return offloaded.macs(rows) / int(offloaded.target.attrs["macs_per_cycle"]) + 200


def conv2d(call: KernelCall) -> Sequence[Command]:
    """Return the commands of a kernel call: one call of the driver function."""
    names = (field.name for field in fields(Convolution2D) if field.name not in TENSORS)
    record = Convolution2D(
        call.operand(0).address,
        call.operand(1).address,
        call.operand(2).address,
        call.table("multiplier"),
        call.table("shift"),
        call.result.address,
        *(call.parameters[name] for name in names),
    )
    return [call.invoke_record(VANILLA_CONV2D, record)]


def convolve(engine: object, op: Convolution2D[Array]) -> None:
    """Functional model of `vanilla_conv2d`: compute a convolution with NumPy."""
    del engine
    sums = convolved(
        elements(op.x, np.int8, op.in_h, op.in_w, op.in_c),
        elements(op.weights, np.int8, op.out_c, op.kernel_h, op.kernel_w, op.in_c),
        (op.out_h, op.out_w),
        (op.stride_h, op.stride_w),
        (op.dilation_h, op.dilation_w),
        (op.pad_top, op.pad_left),
        op.in_zero,
    )
    sums += elements(op.bias, np.int32, op.out_c)
    multiplier = elements(op.multiplier, np.int32, op.out_c)
    shift = elements(op.shift, np.int8, op.out_c)
    found = requantise(sums, multiplier, shift, op.out_zero, (op.least, op.most))
    elements(op.y, np.int8, *found.shape)[:] = found


VANILLA_CONV2D = Driver("vanilla_conv2d", "vanilla", convolve, device=object)
