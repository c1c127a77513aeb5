"""Conversion of accumulators to output elements: scale, zero point, clamp, table."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.accelerators.ethos_u.interpreter.operation import BlockOperation
from penstock.accelerators.ethos_u.interpreter.scaling import scaled
from penstock.uma import BackendError, UnsupportedError

TABLE_ENTRIES = 256
WIDE_ENTRIES = 512
"""Number of entries of a table for 16-bit elements."""
WIDE_STEP_BITS = 7
"""log2 of the distance between two of these entries."""
SLOT_BYTES = 256
"""Tables begin at multiples of this size."""
SIGNED_RANGES = {2: False, 3: True, 5: True}
"""Clip ranges that replace that of the output's type, and whether they are signed."""


def limited(operation: BlockOperation, values: Any) -> Any:
    """Add the zero point and clamp to the limits of the activation.

    Without a table, 32-bit outputs have neither, but saturate. Source: Vela's softmax, whose
    registers contain zero points that have no effect (older core).
    """
    activation = operation.activation
    if operation.ofm.element_bytes == 4 and activation.table is None:
        return np.clip(values, -1 << 31, (1 << 31) - 1)
    return np.clip(values + operation.ofm.zero_point, activation.lower, activation.upper)


def table_bytes(operation: BlockOperation) -> int:
    """Return the size of an operation's table, which depends on its output type."""
    return {1: TABLE_ENTRIES, 2: 4 * WIDE_ENTRIES, 4: 4 * TABLE_ENTRIES}[
        operation.ofm.element_bytes
    ]


def looked_up(operation: BlockOperation, values: Any, table: Any) -> Any:
    """Look values up in a table. The table is indexed from the least value; with 16 bits, it is
    interpolated between entries of base and slope."""
    ofm = operation.ofm
    if ofm.element_bytes == 2:
        return _interpolated(values, table, ofm.signed)
    entries = table.view(ofm.dtype).astype(np.int64)
    signed = SIGNED_RANGES.get(operation.activation.clip_range, ofm.signed)
    return entries[values + (TABLE_ENTRIES // 2 if signed else 0)]


def scaled_output(operation: BlockOperation, values: Any, scale: Any, shift: Any) -> Any:
    """Return accumulators times a scale, which is a scalar or per channel."""
    return scaled(values, scale, shift, operation.rounding)


def check_accumulators(operation: BlockOperation, values: Any) -> None:
    """Raise BackendError if a sum overflows the accumulators, whose contents are then
    unspecified."""
    bits = operation.accumulator_bits
    if bits not in (32, 40):
        raise UnsupportedError(
            "ethosu-106",
            f"not modelled: accumulators of {bits} bits here",
            where=operation.where,
            help="supported is what Vela and its API emit for Ethos-U55 and one core of U65",
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
    """Interpolate between entries of 16-bit base and slope; the slope is per table step."""
    entries = table.view("<u4").astype(np.int64)
    base, slope = ((part & 0xFFFF ^ 0x8000) - 0x8000 for part in (entries, entries >> 16))
    places = values + (1 << 15 if signed else 0)
    at, within = places >> WIDE_STEP_BITS, places & (1 << WIDE_STEP_BITS) - 1
    half = 1 << WIDE_STEP_BITS - 1
    return base[at] + ((slope[at] * within + half) >> WIDE_STEP_BITS)
