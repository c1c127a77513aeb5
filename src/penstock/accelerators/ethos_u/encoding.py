"""encoding: weights and biases as the NPU reads them, compressed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from penstock.accelerators.ethos_u.operation import STEP, Function, Operation
from penstock.accelerators.ethos_u.vela import npu, vela
from penstock.uma import Array

HIGH_BITS = 31
"""TFLite's multipliers are fractions of so many bits, the NPU's are whole numbers."""


class Segment(NamedTuple):
    """Constants of some output channels: biases with their scales, then weights."""

    channels: int
    bias_bytes: int
    weight_bytes: int

    @property
    def size_bytes(self) -> int:
        return self.bias_bytes + self.weight_bytes


@dataclass(frozen=True, slots=True)
class Encoded:
    """Segments one after the other."""

    raw: bytes
    segments: tuple[Segment, ...]


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
    return _encoded(_as_encoded(op), weights, shape, bias, multipliers, shifts)


def _as_encoded(op: Operation) -> Operation:
    """What an operation has in common with those whose constants are encoded alike."""
    return Operation(
        op.chip,
        0,
        op.function,
        *(0,) * 6,
        dilation_h=op.dilation_h,
        dilation_w=op.dilation_w,
        part_kernel=op.part_kernel,
        block_depth=op.block_depth,
        slice_channels=op.slice_channels,
    )


@lru_cache(maxsize=1024)
def _encoded(
    op: Operation,
    weights: bytes,
    shape: tuple[int, int, int, int],
    bias: tuple[int, ...],
    multipliers: tuple[int, ...],
    shifts: tuple[int, ...],
) -> Encoded:
    every = np.frombuffer(weights, np.int16).reshape(shape)
    biases = _biases(bias, multipliers, shifts)
    raw, segments = b"", list[Segment]()
    for first in range(0, len(bias), op.slice_channels):
        part = slice(first, min(first + op.slice_channels, len(bias)))
        scales = _filled(b"".join(biases[part]))
        stream = _filled(_weights(op, np.ascontiguousarray(every[part])))
        raw += scales + stream
        segments.append(Segment(part.stop - first, len(scales), len(stream)))
    return Encoded(raw, tuple(segments))


@lru_cache(maxsize=1024)
def _biases(
    bias: tuple[int, ...], multipliers: tuple[int, ...], shifts: tuple[int, ...]
) -> tuple[bytes, ...]:
    """Bias, multiplier and shift of each channel."""
    encode = vela().npu_encode_bias
    return tuple(
        bytes(encode(np.int64(b), m, HIGH_BITS - s if m else 0))
        for b, m, s in zip(bias, multipliers, shifts, strict=True)
    )


def _weights(op: Operation, weights: Array) -> bytes:
    """Weights, compressed."""
    api = vela()
    return bytes(
        api.npu_encode_weights(
            npu(op.configuration.name),
            weights,
            (op.dilation_w, op.dilation_h),
            8,
            op.block_depth,
            op.function == Function.DEPTHWISE,
            traversal(api, op),
        )
    )


def _filled(raw: bytes) -> bytes:
    return raw + bytes(-len(raw) % STEP)


def traversal(api: Any, op: Operation) -> Any:
    """In which order weights come."""
    orders = api.NpuBlockTraversal
    return orders.PART_KERNEL_FIRST if op.part_kernel else orders.DEPTH_FIRST
