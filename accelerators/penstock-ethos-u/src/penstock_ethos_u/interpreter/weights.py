"""Decoding of the weight stream of an operation, and of biases with their scales. A weight stream
contains the compressed weights in the order in which the hardware consumes them.

The nested loops over weights are, from the outermost: blocks of output channels, blocks of input
channels, parts of the kernel (groups of taps), micro blocks (small groups of channels). Incomplete
micro blocks and parts are padded with zeros. Source: Arm's weight encoder, mlw_encode.c.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from penstock.uma import Array, BackendError
from penstock_ethos_u.interpreter.hardware import NpuHardware
from penstock_ethos_u.interpreter.operation import BlockOperation, KernelWindow, not_modelled
from penstock_ethos_u.interpreter.weight_stream import DamagedError, decoded

# Maximum number of weights of an operation; protects the host against invalid streams.
MOST_WEIGHTS = 1 << 24
BIAS_BYTES = 10  # Bytes per channel: a bias of 40 bits, a scale of 32 bits and a shift of 6 bits.
# For 8-bit inputs, the taps of a part of a kernel are padded to a multiple of this number, in
# depthwise and part-kernel-first order.
PARALLEL_TAPS = 4
WIDE_PARALLEL_TAPS = 2  # The corresponding number for 16-bit inputs in part-kernel-first order.


@dataclass(frozen=True, slots=True)
class WeightLayout:
    """The parameters that determine the order of weights in a stream.

    outputs, inputs: number of output and input channels; `inputs` is 1 for a depthwise convolution.
    kernel: the window of the operation.
    depthwise: whether the operation is a depthwise convolution.
    block: maximum number of output channels in a block of the output.
    micro, input_micro: output and input channels of a micro block, the unit of computation of the
        multipliers.
    bits: number of bits of an input element."""

    outputs: int
    inputs: int
    kernel: KernelWindow
    depthwise: bool
    block: int
    micro: int
    input_micro: int
    bits: int

    @property
    def text(self) -> str:
        """The parameters as the subject of a sentence for messages, such as "kernels of 3 x 3 for
        16 outputs of 8 inputs, depth first, in blocks of 16 outputs,"."""
        kernel = self.kernel
        part = "part of the kernel" if kernel.part_kernel_first else "depth"
        first = "depthwise" if self.depthwise else f"{part} first"
        return (
            f"kernels of {kernel.height} x {kernel.width} for {self.outputs} outputs of "
            f"{self.inputs} inputs, {first}, in blocks of {self.block} outputs,"
        )


def decode_weights(
    operation: BlockOperation, streams: Sequence[bytes], hardware: NpuHardware
) -> Array:
    """Return the weights of an operation as an int64 array of shape (height, width, input channels,
    output channels). The number of input channels is 1 for depthwise operations.

    streams: the bytes of the compressed weights of each core.

    Raises BackendError if a stream is invalid or has too few weights, UnsupportedError if there are
    too many of them."""
    depthwise, cores = operation.kind == "depthwise", len(streams)
    inputs, outputs = 1 if depthwise else operation.ifm.shape[2], operation.ofm.shape[2]
    kernel = operation.kernel
    shape = kernel.height, kernel.width, inputs, outputs
    if prod(shape) > MOST_WEIGHTS:
        raise not_modelled(f"{prod(shape)} weights", operation.where)
    found = np.zeros(shape, np.int64)
    for core, stream in enumerate(streams):
        of_core = found[..., core::cores]
        if not of_core.size:
            continue
        order = WeightLayout(
            of_core.shape[-1],
            inputs,
            kernel,
            depthwise,
            -(-(operation.block[2] - core) // cores),
            hardware.ofm_channels,
            hardware.ifm_channels,
            8 * operation.ifm.element_bytes,
        )
        of_core[:] = _weights_of_core(operation, stream, order)
    return found


def _weights_of_core(operation: BlockOperation, stream: bytes, order: WeightLayout) -> Array:
    """The weights of the output channels of a core, in the shape of `decode_weights`."""
    kernel, places = order.kernel, _places(order)
    try:
        values = _weights(stream)
    except DamagedError as error:
        raise BackendError(
            "ethosu-114",
            f"the data at WEIGHT_BASE is not a valid weight stream: {error}",
            where=operation.where,
            why="weights are compressed, and NPU_SET_WEIGHT_LENGTH is their size",
            help="correct base and length, and encode weights as Vela's npu_encode_weights does",
        ) from error
    if len(values) < len(places):
        raise BackendError(
            "ethosu-107",
            f"the stream of weights decodes to {len(values)} weights of {len(places)}",
            where=operation.where,
            why=f"{order.text} need that many weights, including the zeros that pad blocks",
            help="encode the weights for this kernel, block depth, order and accelerator",
        )
    found = np.zeros(kernel.height * kernel.width * order.inputs * order.outputs + 1, np.int64)
    found[places] = values[: len(places)]
    return found[:-1].reshape(kernel.height, kernel.width, order.inputs, order.outputs)


def decode_biases(operation: BlockOperation, tables: Sequence[Array]) -> tuple[Array, Array, Array]:
    """Decode the biases and scales of the output channels. Return (biases, scales, shifts): int64
    arrays with one value per channel.

    tables: for each core, a uint8 array with 10 bytes for each of its channels: bias (40 bits,
        signed), scale (32 bits), shift (6 bits). A channel is scaled by scale / 2 ** shift.

    Raises BackendError if a table has too few bytes."""
    found = np.zeros((3, operation.ofm.shape[2]), np.int64)
    for core, table in enumerate(tables):
        of_core = found[:, core :: len(tables)]
        of_core[:] = _biases_of_core(operation, table, of_core.shape[1])
    return found[0], found[1], found[2]


def _biases_of_core(
    operation: BlockOperation, data: Array, channels: int
) -> tuple[Array, Array, Array]:
    if len(data) < channels * BIAS_BYTES:
        raise BackendError(
            "ethosu-108",
            f"there are {len(data)} bytes of biases for {channels} channels",
            where=operation.where,
            why=f"a channel has {BIAS_BYTES} bytes: a bias of 40 bits, a scale and a shift",
            help="correct NPU_SET_SCALE_LENGTH, or encode biases for every channel",
        )
    table = np.asarray(data[: channels * BIAS_BYTES]).reshape(channels, BIAS_BYTES)
    wide = table.astype(np.int64)
    bias = (wide[:, :5] << 8 * np.arange(5)).sum(axis=1)
    bias = np.where(bias >= 1 << 39, bias - (1 << 40), bias)
    scale = (wide[:, 5:9] << 8 * np.arange(4)).sum(axis=1)
    return bias, scale, wide[:, 9] & 0x3F


@lru_cache(maxsize=256)
def _weights(stream: bytes) -> Array:
    """The decoded weights of a compressed stream, in the order of the stream; results are
    cached. Raises DamagedError if the stream is invalid."""
    return decoded(stream)


@lru_cache(maxsize=256)
def _places(order: WeightLayout) -> Array:
    """An array with the place of each weight of the stream, in the order of the stream."""
    # The place of a weight is its flat index in an array of shape (height, width, inputs, outputs).
    # The zeros that pad the stream have the place N, the number of elements of this array, which is
    # not a valid index.
    parts = [
        _part_places(order, first_output, first_input, part)
        for first_output in range(0, order.outputs, order.block)
        for first_input in range(0, order.inputs, _input_block(order))
        for part in _kernel_parts(order.kernel)
    ]
    return np.concatenate([part.ravel() for part in parts])


def _input_block(order: WeightLayout) -> int:
    """The number of channels of a block of input channels; the last block may have fewer.
    For each block of output channels, the stream contains the weights of all taps of the kernel for
    one block of input channels, then those for the next block of input channels."""
    if order.depthwise:
        return 1
    return 16 if order.kernel.part_kernel_first or order.bits == 16 else 32


def _kernel_parts(kernel: KernelWindow) -> Iterator[tuple[range, range]]:
    """(rows, columns) for each part of a kernel: the part consists of the taps with these row
    and column indices. Including dilation, it spans at most `kernel.decomposition` rows and
    columns."""
    tall, wide = (kernel.decomposition // d for d in (kernel.dilation_y, kernel.dilation_x))
    for top in range(0, kernel.height, tall):
        for left in range(0, kernel.width, wide):
            yield (
                range(top, min(top + tall, kernel.height)),
                range(left, min(left + wide, kernel.width)),
            )


def _part_places(
    order: WeightLayout, first_output: int, first_input: int, part: tuple[range, range]
) -> Array:
    """The places of the weights that the stream contains for one part of a kernel and one
    block of channels; `_places` concatenates them. The place of a weight is its flat index in an
    array of shape (height, width, inputs, outputs). The zeros that pad the stream have the place N,
    the number of elements of this array."""
    # The result is in the order of the stream. Its axes are the loops over the weights, from the
    # outermost to the innermost. A micro block consists of the channels that the hardware processes
    # at a time.
    # - micro blocks of input channels; if the order is depth first, of length 1
    # - micro blocks of output channels
    # - taps, including those that pad the part
    # - micro blocks of input channels; if the order is part kernel first, of length 1
    # - output channels of a micro block
    # - input channels of a micro block
    rows, columns = part
    kernel, part_first = order.kernel, order.kernel.part_kernel_first
    block = _input_block(order)
    deep = min(block, order.inputs - first_input) if part_first else block
    inner = 1 if order.depthwise else order.input_micro
    micros = -(-deep // inner)
    outer_inputs, inner_inputs = (micros, 1) if part_first else (1, micros)
    outputs = min(order.block, order.outputs - first_output)
    o, b, t, i, z, c = np.ogrid[
        :outer_inputs, : -(-outputs // order.micro), : _taps(order, len(rows) * len(columns)),
        :inner_inputs, : order.micro, :inner,
    ]  # fmt: skip
    to = first_output + b * order.micro + z
    source = first_input + (o + i) * inner + c
    y, x = rows.start + t // len(columns), columns.start + t % len(columns)
    place = ((y * kernel.width + x) * order.inputs + source) * order.outputs + to
    inside = (to < order.outputs) & (source < order.inputs) & (y < rows.stop)
    nowhere = kernel.height * kernel.width * order.inputs * order.outputs
    return np.where(inside, place, nowhere)


def _taps(order: WeightLayout, taps: int) -> int:
    """The number of taps that the stream contains for a part of the kernel with `taps` taps.
    It is rounded up to a multiple that depends on the order of weights and the input type; the
    additional taps are zeros. For example, 9 taps become 12 in a depthwise convolution."""
    if order.depthwise:
        step = PARALLEL_TAPS
    elif order.kernel.part_kernel_first:
        step = {8: PARALLEL_TAPS, 16: WIDE_PARALLEL_TAPS}.get(order.bits, 1)
    else:
        step = 1
    return -(-taps // step) * step
