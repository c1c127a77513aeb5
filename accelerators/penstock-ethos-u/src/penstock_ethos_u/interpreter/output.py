"""Conversion of accumulators to output elements: scale, zero point, clamping, look-up table."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.uma import BackendError
from penstock_ethos_u.interpreter.operation import BlockOperation, not_modelled

# Multiplication by a scale and rounding right shift, in the rounding modes of the hardware.
#
#     tfl        like TFLite's MultiplyByQuantizedMultiplier; rounds twice if the shift exceeds 31
#     truncate   towards zero
#     natural    to nearest, ties upwards
#     symmetric  to nearest, ties away from zero
#     down       to the next lower integer
#
# Source: TOSA specification (apply_scale_32 with double_round, which equals TFLite's rounding) for
# the first mode; Arm's compiler Vela for the names of the others.


DOUBLED = 31  # Number of bits by which TFLite's high multiplication shifts.
SAFE = 1 << 62  # Products below this bound can be computed and rounded in int64 without overflow.


def scaled(values: Any, scale: Any, shift: Any, rounding: str) -> Any:
    """Return `values` * `scale` / 2 ** `shift` as int64. The shapes of the three arrays are
    broadcast.

    rounding: name of the rounding mode."""
    values, scale, shift = (np.asarray(x, np.int64) for x in (values, scale, shift))
    if _greatest(values) * _greatest(scale) >= SAFE:
        values, scale, shift = (x.astype(object) for x in (values, scale, shift))
    product = values * scale
    one = shift - shift + 1
    half = (one << shift) >> 1
    if rounding == "truncate":
        found = np.sign(product) * (abs(product) >> shift)
    elif rounding == "natural":
        found = (product + half) >> shift
    elif rounding == "symmetric":
        found = np.sign(product) * ((abs(product) + half) >> shift)
    elif rounding == "down":
        found = product >> shift
    else:
        twice = np.where(values >= 0, 1, -1) * (one << DOUBLED - 1) * (shift > DOUBLED)
        found = (product + half + twice) >> shift
    return np.asarray(found).astype(np.int64)


def _greatest(values: Any) -> int:
    """The greatest absolute value, or 0 if the array is empty."""
    return max(abs(int(values.min())), abs(int(values.max()))) if values.size else 0


TABLE_ENTRIES = 256  # Number of entries of a look-up table for 8-bit and 32-bit elements.
WIDE_ENTRIES = 512  # Number of entries of a look-up table for 16-bit elements.
# log2 of the distance between the elements of two consecutive entries of a table for 16-bit
# elements.
WIDE_STEP_BITS = 7
SLOT_BYTES = 256  # Look-up tables begin at multiples of this number of bytes.


def limited(operation: BlockOperation, values: Any) -> Any:
    """Add the zero point of the output to `values`, which are already requantised, and return the
    results, clamped to the limits of the activation."""
    activation = operation.activation
    return np.clip(values + operation.ofm.zero_point, activation.lower, activation.upper)


def table_bytes(operation: BlockOperation) -> int:
    """Return the size in bytes of the look-up table of an operation."""
    if operation.activation.interpolated:
        return 4 * WIDE_ENTRIES
    return TABLE_ENTRIES * operation.ofm.element_bytes


def looked_up(operation: BlockOperation, values: Any, table: Any) -> Any:
    """Return the result of looking up each of `values` in a table.

    table: the bytes of the table. Entry 0 belongs to the least possible value."""
    # The result is the entry itself, or interpolated linearly: an entry then consists of a base and
    # a slope.
    signed = operation.activation.signed
    if operation.activation.interpolated:
        return _interpolated(values, table, signed)
    entries = table.view(operation.ofm.dtype).astype(np.int64)
    return entries[values + (TABLE_ENTRIES // 2 if signed else 0)]


def scaled_output(operation: BlockOperation, values: Any, scale: Any, shift: Any) -> Any:
    """Return the accumulators `values` multiplied by `scale` / 2 ** `shift`, in the operation's
    rounding mode. `scale` and `shift` are scalars or arrays that broadcast to the output, such as
    one value per channel."""
    return scaled(values, scale, shift, operation.rounding)


def check_accumulators(operation: BlockOperation, values: Any) -> None:
    """Raise BackendError if one of `values` overflows the accumulators, because the result is then
    unspecified. Raise UnsupportedError if accumulators have none of the known widths."""
    bits = operation.accumulator_bits
    if bits not in (32, 40, 48):
        raise not_modelled(f"accumulators of {bits} bits here", operation.where)
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
    """Return 16-bit results, interpolated linearly between the entries of a look-up table."""
    entries = table.view("<u4").astype(np.int64)
    base, slope = ((part & 0xFFFF ^ 0x8000) - 0x8000 for part in (entries, entries >> 16))
    places = values + (1 << 15 if signed else 0)
    at, within = places >> WIDE_STEP_BITS, places & (1 << WIDE_STEP_BITS) - 1
    half = 1 << WIDE_STEP_BITS - 1
    return base[at] + ((slope[at] * within + half) >> WIDE_STEP_BITS)
