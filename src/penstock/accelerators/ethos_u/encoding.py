"""encoding: weights and biases as the NPU reads them, compressed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from penstock.accelerators.ethos_u.operation import Function, Operation
from penstock.accelerators.ethos_u.vela import npu, vela

STEP = 16
"""Bytes to a multiple of which biases and weights are filled up."""
HIGH_BITS = 31
"""TFLite's multipliers are fractions of so many bits, the NPU's are whole numbers."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """Biases with their scales, then weights; and how blocks and weights are ordered."""

    raw: bytes
    bias_bytes: int
    part_kernel: int
    block_depth: int

    @property
    def weight_bytes(self) -> int:
        return len(self.raw) - self.bias_bytes


@lru_cache(maxsize=1024)
def encoded(
    op: Operation,
    weights: bytes,
    shape: tuple[int, int, int, int],
    bias: tuple[int, ...],
    multipliers: tuple[int, ...],
    shifts: tuple[int, ...],
) -> Encoded:
    """The constants of an operation; weights are int16, output channels, rows, columns, input
    channels."""
    api = vela()
    packed = b"".join(
        bytes(api.npu_encode_bias(np.int64(b), m, HIGH_BITS - s if m else 0))
        for b, m, s in zip(bias, multipliers, shifts, strict=True)
    )
    packed += bytes(-len(packed) % STEP)
    stream = api.npu_encode_weights(
        npu(op.configuration.name),
        np.frombuffer(weights, np.int16).reshape(shape),
        (op.dilation_w, op.dilation_h),
        8,
        op.block_depth,
        op.function == Function.DEPTHWISE,
        traversal(api, op),
    )
    raw = packed + bytes(stream)
    raw += bytes(-len(raw) % STEP)
    return Encoded(raw, len(packed), op.part_kernel, op.block_depth)


def traversal(api: Any, op: Operation) -> Any:
    """In which order weights come."""
    orders = api.NpuBlockTraversal
    return orders.PART_KERNEL_FIRST if op.part_kernel else orders.DEPTH_FIRST
