"""Conversion of accumulators to output elements: scale, zero point, clamping, look-up table."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.uma import BackendError, UnsupportedError
from penstock_ethos_u.interpreter.operation import BlockOperation
from penstock_ethos_u.interpreter.scaling import scaled

TABLE_ENTRIES = 256
"""Number of entries of a look-up table for 8-bit and 32-bit elements."""
WIDE_ENTRIES = 512
"""Number of entries of a look-up table for 16-bit elements."""
WIDE_STEP_BITS = 7
"""log2 of the distance between the elements of two consecutive entries of a table for 16-bit
elements."""
SLOT_BYTES = 256
"""Look-up tables begin at multiples of this number of bytes."""
SIGNED_RANGES = {2: False, 3: True, 5: True}
"""Whether elements that index a look-up table are signed, by `ActivationRange.clip_range`. For
other codes, the type of the output determines this."""


def limited(operation: BlockOperation, values: Any) -> Any:
    """Add the zero point of the output to `values`, which are already requantised, and return the
    results, clamped to the limits of the activation.

    As an exception, 32-bit outputs without a look-up table are only saturated to 32 bits; the zero
    point and the limits are ignored."""
    activation = operation.activation
    # The exception follows from the streams that the older core of Arm's compiler Vela, written in
    # Python, generates for softmax: they set zero points that must have no effect.
    if operation.ofm.element_bytes == 4 and activation.table is None:
        return np.clip(values, -1 << 31, (1 << 31) - 1)
    return np.clip(values + operation.ofm.zero_point, activation.lower, activation.upper)


def table_bytes(operation: BlockOperation) -> int:
    """Return the size in bytes of the look-up table of an operation: 256 for outputs of 8 bits,
    2048 for 16 bits, 1024 for 32 bits."""
    return {1: TABLE_ENTRIES, 2: 4 * WIDE_ENTRIES, 4: 4 * TABLE_ENTRIES}[
        operation.ofm.element_bytes
    ]


def looked_up(operation: BlockOperation, values: Any, table: Any) -> Any:
    """Return the result of looking up each of `values` in a table.

    table: the bytes of the table. Entry 0 belongs to the least possible value.

    An 8-bit or 32-bit result is the entry itself. A 16-bit result is interpolated linearly: an
    entry consists of a base and a slope."""
    ofm = operation.ofm
    if ofm.element_bytes == 2:
        return _interpolated(values, table, ofm.signed)
    entries = table.view(ofm.dtype).astype(np.int64)
    signed = SIGNED_RANGES.get(operation.activation.clip_range, ofm.signed)
    return entries[values + (TABLE_ENTRIES // 2 if signed else 0)]


def scaled_output(operation: BlockOperation, values: Any, scale: Any, shift: Any) -> Any:
    """Return the accumulators `values` multiplied by `scale` / 2 ** `shift`, in the operation's
    rounding mode. `scale` and `shift` are scalars or arrays that broadcast to the output, such as
    one value per channel."""
    return scaled(values, scale, shift, operation.rounding)


def check_accumulators(operation: BlockOperation, values: Any) -> None:
    """Raise BackendError if one of `values` overflows the accumulators, because the result is then
    unspecified. Raise UnsupportedError if accumulators have neither 32 nor 40 bits."""
    bits = operation.accumulator_bits
    if bits not in (32, 40):
        raise UnsupportedError(
            "ethosu-106",
            f"not modelled: accumulators of {bits} bits here",
            where=operation.where,
            help="the model supports the operations that Vela and its API emit for Ethos-U55 and "
            "one core of U65",
        )
    most = 1 << bits - 1
    least, greatest = int(values.min()), int(values.max())
    if least < -most or greatest >= most:
        raise BackendError(
            "ethosu-109",
            f"sums of {least} to {greatest} overflow accumulators of {bits} bits",
            where=operation.where,
            why="the result of an overflow is unspecified",
            help="take 40 bits (NPU_SET_ACC_FORMAT), or smaller weights",
        )


def _interpolated(values: Any, table: Any, signed: bool) -> Any:
    """Return 16-bit results, interpolated linearly between the entries of a look-up table.

    values: the 16-bit values to look up.
    table: the bytes of the table. The low 16 bits of an entry are the base, the high 16 bits the
        slope: the difference between the next base and this base.
    signed: whether `values` are signed."""
    entries = table.view("<u4").astype(np.int64)
    base, slope = ((part & 0xFFFF ^ 0x8000) - 0x8000 for part in (entries, entries >> 16))
    places = values + (1 << 15 if signed else 0)
    at, within = places >> WIDE_STEP_BITS, places & (1 << WIDE_STEP_BITS) - 1
    half = 1 << WIDE_STEP_BITS - 1
    return base[at] + ((slope[at] * within + half) >> WIDE_STEP_BITS)
