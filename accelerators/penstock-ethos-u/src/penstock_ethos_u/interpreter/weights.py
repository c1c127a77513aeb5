"""Decoding of the weight stream of an operation, and of biases with their scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from penstock.uma import Array, BackendError
from penstock_ethos_u.interpreter.commands import U85
from penstock_ethos_u.interpreter.hardware import NpuHardware
from penstock_ethos_u.interpreter.operation import BlockOperation, not_modelled
from penstock_ethos_u.interpreter.weight_order import (
    WeightLayout,
    dealt,
    u55_places,
    u85_places,
)
from penstock_ethos_u.interpreter.weight_stream import DamagedError, decoded, decoded_fast

# Maximum number of weights of an operation; protects the host against invalid streams.
MOST_WEIGHTS = 1 << 24
BIAS_BYTES = 10  # Bytes per channel: a bias, a scale and a shift of 6 bits.
# Bytes of a bias and of its scale, which the shift follows: in general, in U85, and in U85 with
# accumulators of 48 bits.
BIAS, U85_BIAS, WIDE_BIAS = (5, 4), (4, 4), (6, 2)


def decode_weights(
    operation: BlockOperation, streams: Sequence[bytes], hardware: NpuHardware
) -> Array:
    """Return the weights of an operation as an int64 array of shape (height, width, input channels,
    output channels). The number of input channels is 1 for depthwise operations.

    streams: the bytes of the compressed weights of each core, or those of all cores.

    Raises BackendError if a stream is invalid or has too few weights, UnsupportedError if there are
    too many of them."""
    depthwise, kernel = operation.kind == "depthwise", operation.kernel
    inputs, outputs = 1 if depthwise else operation.ifm.shape[2], operation.ofm.shape[2]
    layout = WeightLayout(
        outputs,
        inputs,
        kernel,
        depthwise,
        operation.block[2],
        1 if depthwise else operation.slice_channels,
        operation.micro_channels,
        hardware.ifm_channels,
        8 * operation.ifm.element_bytes,
        hardware.ofm_channels * hardware.ifm_channels,
        operation.sparse_weights,
        cores=hardware.cores if operation.fast_weights else len(streams),
    )
    if layout.nowhere > MOST_WEIGHTS:
        raise not_modelled(f"{layout.nowhere} weights", operation.where)
    found = np.zeros(layout.nowhere + 1, np.int64)
    ordered = u85_places if hardware.family == U85 else u55_places
    values = [_values(operation, stream) for stream in streams]
    if operation.fast_weights:
        values = dealt(values[0], layout)
    for core, of_core in enumerate(values):
        layout = replace(layout, core=core)
        places = ordered(layout)
        if len(of_core) < len(places):
            raise BackendError(
                "ethosu-107",
                f"the stream of weights decodes to {len(of_core)} weights of {len(places)}",
                where=operation.where,
                why=f"{layout.text} need that many weights, including the zeros that pad blocks",
                help="encode the weights for this kernel, block depth, order and accelerator",
            )
        found[places] = of_core[: len(places)]
    return found[:-1].reshape(kernel.height, kernel.width, inputs, outputs)


def _values(operation: BlockOperation, stream: bytes) -> Array:
    """The weights of a stream, in its order; none if it is empty."""
    try:
        return _decoded(stream, fast=operation.fast_weights) if stream else np.zeros(0, np.int64)
    except DamagedError as error:
        raise BackendError(
            "ethosu-114",
            f"the data at WEIGHT_BASE is not a valid weight stream: {error}",
            where=operation.where,
            why="weights are compressed, and NPU_SET_WEIGHT_LENGTH is their size",
            help="correct base and length, and encode weights as Vela's npu_encode_weights does",
        ) from error


def decode_biases(
    operation: BlockOperation, tables: Sequence[Array], hardware: NpuHardware
) -> tuple[Array, Array, Array]:
    """Decode the biases and scales of the output channels. Return (biases, scales, shifts): int64
    arrays with one value per channel.

    tables: for each core, a uint8 array with 10 bytes for each of its channels: bias (signed),
        scale and shift (6 bits). A channel is scaled by scale / 2 ** shift.

    Raises BackendError if a table has too few bytes."""
    found = np.zeros((3, operation.ofm.shape[2]), np.int64)
    sizes = BIAS
    if hardware.family == U85:
        sizes = WIDE_BIAS if operation.accumulator_bits == 48 else U85_BIAS
    for core, table in enumerate(tables):
        of_core = found[:, core :: len(tables)]
        of_core[:] = _biases_of_core(operation, table, of_core.shape[1], sizes)
    return found[0], found[1], found[2]


def _biases_of_core(
    operation: BlockOperation, data: Array, channels: int, sizes: tuple[int, int]
) -> tuple[Array, Array, Array]:
    if len(data) < channels * BIAS_BYTES:
        raise BackendError(
            "ethosu-108",
            f"there are {len(data)} bytes of biases for {channels} channels",
            where=operation.where,
            why=f"a channel has {BIAS_BYTES} bytes: a bias, a scale and a shift",
            help="correct NPU_SET_SCALE_LENGTH, or encode biases for every channel",
        )
    table = np.asarray(data[: channels * BIAS_BYTES]).reshape(channels, BIAS_BYTES)
    wide = table.astype(np.int64)
    of_bias, of_scale = sizes
    bias = (wide[:, :of_bias] << 8 * np.arange(of_bias)).sum(axis=1)
    bias -= (wide[:, of_bias - 1] >> 7) << 8 * of_bias
    scale = (wide[:, of_bias : of_bias + of_scale] << 8 * np.arange(of_scale)).sum(axis=1)
    return bias, scale, wide[:, of_bias + of_scale] & 0x3F


@lru_cache(maxsize=256)
def _decoded(stream: bytes, *, fast: bool) -> Array:
    """The decoded weights of a compressed stream, in the order of the stream; results are
    cached. Raises DamagedError if the stream is invalid."""
    return decoded_fast(stream) if fast else decoded(stream)
