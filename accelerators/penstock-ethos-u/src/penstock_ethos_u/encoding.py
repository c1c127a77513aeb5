"""encoding: weights and biases in the compressed form that the NPU reads. The weights and biases of
consecutive output channels form a segment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from penstock.uma import Array
from penstock_ethos_u.blocks import Extent, input_channels
from penstock_ethos_u.configurations import CONFIGURATIONS, EthosUConfiguration
from penstock_ethos_u.interpreter.operation import KernelWindow
from penstock_ethos_u.interpreter.weight_order import WeightLayout, u85_places
from penstock_ethos_u.operation import STEP, NpuFunction, Operation
from penstock_ethos_u.vela import encoder, npu, vela

# Number of fraction bits of TFLite's multipliers. The NPU's multipliers are integers, so the NPU
# shifts right by `HIGH_BITS - shift` where TFLite shifts left by `shift`.
HIGH_BITS = 31
EXTRA_BITS = 20  # Number of bits by which TFLite shifts both terms of a sum left.


class ConstantSegment(NamedTuple):
    """Sizes of a segment: the encoded biases of consecutive output channels, followed by their
    encoded weights. Each bias is encoded with the multiplier and shift of its channel's
    requantisation.

    channels: number of output channels.
    bias_sizes: for each core, size in bytes of the biases, multipliers and shifts of its channels.
    weight_sizes: for each core, size in bytes of the weights of its channels."""

    channels: int
    bias_sizes: tuple[int, ...]
    weight_sizes: tuple[int, ...]

    @property
    def bias_bytes(self) -> int:
        """Size of the biases, multipliers and shifts of all cores."""
        return sum(self.bias_sizes)

    @property
    def size_bytes(self) -> int:
        """Size of the biases and weights of the segment in bytes."""
        return self.bias_bytes + sum(self.weight_sizes)


NO_SEGMENT = ConstantSegment(0, (), ())


@dataclass(frozen=True, slots=True)
class EncodedConstants:
    """The constants of an operation in the format that the NPU reads: weights and biases in
    segments, or a look-up table.

    raw: the concatenated segments, or the look-up table; empty if there are no constants.
    segments: sizes of each segment, i.e. of the weights and biases of consecutive output channels;
        empty for a look-up table."""

    raw: bytes
    segments: tuple[ConstantSegment, ...]


@dataclass(frozen=True, slots=True)
class WeightOrder:
    """The properties of an operation that determine how its weights are encoded.

    configuration: name of the hardware configuration, such as "ethos-u55-128".
    depthwise: whether the operation is a depthwise convolution.
    dilation, stride: those of the window in rows and columns.
    part_kernel: True if the order is part kernel first (several taps of few channels at a time),
        False if it is depth first (one tap of many channels at a time).
    block_depth: number of output channels that the NPU computes at a time.
    channels_per_segment: number of output channels of a segment."""

    configuration: str
    depthwise: bool
    dilation: Extent
    stride: Extent
    part_kernel: bool
    block_depth: int
    channels_per_segment: int

    @staticmethod
    def of_operation(op: Operation) -> WeightOrder:
        """Return the properties of `op` that determine how its weights are encoded."""
        return WeightOrder(
            op.configuration.name,
            op.function is NpuFunction.DEPTHWISE,
            Extent(op.dilation_h, op.dilation_w),
            Extent(op.stride_h, op.stride_w),
            op.part_kernel,
            op.block_depth,
            op.channels_per_segment,
        )


@lru_cache(maxsize=1024)
def encoded(
    order: WeightOrder,
    weights: bytes,
    shape: tuple[int, int, int, int],
    bias: tuple[int, ...],
    multipliers: tuple[int, ...],
    shifts: tuple[int, ...],
) -> EncodedConstants:
    """Return the encoded weights and biases of an operation, in segments of
    `order.channels_per_segment` output channels.

    weights: bytes of an int16 array of shape `shape`.
    shape: (output channels, rows, columns, input channels).
    bias, multipliers, shifts: one element per output channel; multipliers and shifts of TFLite's
        requantisation."""
    every = np.frombuffer(weights, np.int16).reshape(shape)
    chip = CONFIGURATIONS[order.configuration]
    bias_bytes = BIAS_BYTES if chip.memories is None else SEPARATE_BIAS_BYTES
    biases = _biases(bias, multipliers, shifts, bias_bytes)
    raw, segments = b"", list[ConstantSegment]()
    for first in range(0, len(bias), order.channels_per_segment):
        end = min(first + order.channels_per_segment, len(bias))
        if chip.memories is not None:
            micro = chip.memories.convolution_micro_blocks(end - first)
            if order.depthwise:
                micro = chip.memories.plain_micro_blocks
            padding = -(end - first) % max(STEP, micro[0].depth)
            scales = [biases[first:end] + (bytes(sum(bias_bytes)),) * padding]
            streams = _dealt(order, chip, every[first:end], micro[0].depth)
        else:
            cores = chip.cores
            parts = [slice(first + core, end, cores) for core in range(min(cores, end - first))]
            scales = [biases[part] for part in parts]
            streams = [
                _weights(
                    order,
                    np.ascontiguousarray(every[part]),
                    -(-(order.block_depth - core) // cores),
                )
                for core, part in enumerate(parts)
            ]
        padded = [_padded(b"".join(scale)) for scale in scales], [*map(_padded, streams)]
        raw += b"".join(padded[0] + padded[1])
        sizes = (tuple(map(len, each)) for each in padded)
        segments.append(ConstantSegment(end - first, *sizes))
    return EncodedConstants(raw, tuple(segments))


# Bytes of the bias, multiplier and shift of a channel; with separate memories.
BIAS_BYTES, SEPARATE_BIAS_BYTES = (5, 4, 1), (4, 4, 2)


@lru_cache(maxsize=1024)
def _biases(
    bias: tuple[int, ...],
    multipliers: tuple[int, ...],
    shifts: tuple[int, ...],
    sizes: tuple[int, int, int],
) -> tuple[bytes, ...]:
    """Return, for each output channel, the 10 bytes in which the NPU reads its bias, multiplier and
    shift."""
    return tuple(
        b"".join(
            n.to_bytes(size, "little", signed=k == 0)
            for k, (n, size) in enumerate(
                zip((b, m, HIGH_BITS - s if m else 0), sizes, strict=True)
            )
        )
        for b, m, s in zip(bias, multipliers, shifts, strict=True)
    )


def _dealt(
    order: WeightOrder, chip: EthosUConfiguration, weights: Array, micro: int
) -> list[bytes]:
    """The encoded weights of each decoder, in the order that the interpreter expects: whether it is
    that of the hardware is checked on Vela's streams.

    micro: output channels of a micro block."""
    outputs, rows, columns, inputs = weights.shape
    window = KernelWindow(
        rows, columns, *order.stride, *order.dilation, part_kernel_first=order.part_kernel
    )
    layout = WeightLayout(
        outputs,
        inputs,
        window,
        order.depthwise,
        order.block_depth,
        1 if order.depthwise else input_channels(chip, order.part_kernel),
        micro,
        input_micro=8,
        bits=8,
        macs=chip.macs,
        cores=chip.decoders,
    )
    every = np.append(weights.transpose(1, 2, 3, 0).ravel(), 0)
    layouts = (replace(layout, core=core) for core in range(chip.decoders))
    return [bytes(encoder().encode(every[u85_places(each)].tolist())) for each in layouts]


def _weights(order: WeightOrder, weights: Array, block_depth: int) -> bytes:
    """The encoded weights of a core, which computes `block_depth` channels of a block."""
    api = vela()
    return bytes(
        api.npu_encode_weights(
            npu(order.configuration),
            weights,
            (order.dilation.width, order.dilation.height),
            8,
            block_depth,
            order.depthwise,
            traversal(api, part_kernel=order.part_kernel),
        )
    )


def _padded(raw: bytes) -> bytes:
    """Return `raw`, padded with zeros to a multiple of 16 bytes, the alignment of encoded
    constants."""
    return raw + bytes(-len(raw) % STEP)


def traversal(api: Any, *, part_kernel: bool) -> Any:
    """Return Vela's constant for the order in which the NPU reads weights.

    part_kernel: True for part kernel first (several taps of few channels at a time), False for
        depth first (one tap of many channels at a time)."""
    orders = api.NpuBlockTraversal
    return orders.PART_KERNEL_FIRST if part_kernel else orders.DEPTH_FIRST
