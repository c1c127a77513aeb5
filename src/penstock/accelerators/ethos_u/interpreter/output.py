"""output: from accumulators to what is written: scale, zero point, limits, table."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.accelerators.ethos_u.interpreter.operation import BlockOperation
from penstock.accelerators.ethos_u.interpreter.scaling import scaled
from penstock.uma import BackendError, UnsupportedError

TABLE_ENTRIES = 256
WIDE_ENTRIES = 512
"""Of a table for 16 bits."""
WIDE_STEP_BITS = 7
"""Between two entries of it lie so many bits of values."""
SLOT_BYTES = 256
"""Tables begin at multiples of it."""
SIGNED_RANGES = {2: False, 3: True, 5: True}
"""Clip ranges that replace the output's type, and whether they are signed."""


def limited(operation: BlockOperation, values: Any) -> Any:
    """Values with the zero point, between the limits of the activation.

    Without a table, 32 bits have neither, but end at the least and greatest value.  Source: vela's
    softmax, where zero points stand that do not count (legacy core)."""
    activation = operation.activation
    if operation.ofm.element_bytes == 4 and activation.table is None:
        return np.clip(values, -1 << 31, (1 << 31) - 1)
    return np.clip(values + operation.ofm.zero_point, activation.lower, activation.upper)


def table_bytes(operation: BlockOperation) -> int:
    """Size of the table of an operation that has one, by what it writes."""
    return {1: TABLE_ENTRIES, 2: 4 * WIDE_ENTRIES, 4: 4 * TABLE_ENTRIES}[
        operation.ofm.element_bytes
    ]


def looked_up(operation: BlockOperation, values: Any, table: Any) -> Any:
    """What a table says of values: by value from the least on; with 16 bits between entries of
    base and slope."""
    ofm = operation.ofm
    if ofm.element_bytes == 2:
        return _interpolated(values, table, ofm.signed)
    entries = table.view(ofm.dtype).astype(np.int64)
    signed = SIGNED_RANGES.get(operation.activation.clip_range, ofm.signed)
    return entries[values + (TABLE_ENTRIES // 2 if signed else 0)]


def scaled_output(operation: BlockOperation, values: Any, scale: Any, shift: Any) -> Any:
    """Accumulators times a scale, one or one for each channel."""
    return scaled(values, scale, shift, operation.rounding)


def check_accumulators(operation: BlockOperation, values: Any) -> None:
    """Raises BackendError where a sum does not fit the accumulators: what they hold then is not
    known."""
    bits = operation.accumulator_bits
    if bits not in (32, 40):
        raise UnsupportedError(
            "ethosu-106",
            f"the functional model has not: accumulators of {bits} bits here",
            where=operation.where,
            help="it has what Vela and its API emit for Ethos-U55 and one core of U65",
        )
    most = 1 << bits - 1
    least, greatest = int(values.min()), int(values.max())
    if least < -most or greatest >= most:
        raise BackendError(
            "ethosu-109",
            f"sums of {least} to {greatest} do not fit accumulators of {bits} bits",
            where=operation.where,
            why="what accumulators hold beyond their range is not known",
            help="take 40 bits (NPU_SET_ACC_FORMAT), or smaller weights",
        )


def _interpolated(values: Any, table: Any, signed: bool) -> Any:
    """Between entries of 16 bits of base and 16 of slope, which is for a whole step."""
    entries = table.view("<u4").astype(np.int64)
    base, slope = ((part & 0xFFFF ^ 0x8000) - 0x8000 for part in (entries, entries >> 16))
    places = values + (1 << 15 if signed else 0)
    at, within = places >> WIDE_STEP_BITS, places & (1 << WIDE_STEP_BITS) - 1
    half = 1 << WIDE_STEP_BITS - 1
    return base[at] + ((slope[at] * within + half) >> WIDE_STEP_BITS)
