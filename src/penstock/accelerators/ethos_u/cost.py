"""cost: cycles of a call, as the clock times its operations and copies.

The addresses of rows determine into how many operations a call is split.  Before memory is planned,
rows are assumed to be contiguous; afterwards their addresses are known (`placed`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from penstock.accelerators.ethos_u.call import (
    Action,
    Compute,
    EncodedOperation,
    NpuCall,
    TableCopy,
)
from penstock.accelerators.ethos_u.encoding import ConstantSegment
from penstock.accelerators.ethos_u.operation import Operation, row_bytes
from penstock.accelerators.ethos_u.timeline import timing
from penstock.accelerators.ethos_u.waits import TABLE_BYTES, steps
from penstock.uma import Breakdown, Filling, Place, StreamRows, StreamTransfer

TABLE, SCRATCH, PREFETCHED, ELSEWHERE, TENSORS = range(5)
"""Regions of a call before memory is planned; each tensor has a region of its own, from TENSORS
on."""


def cost_of(op: Operation, actions: Iterable[Action]) -> Breakdown:
    """Cycles of the actions of a call, in total and by unit of the NPU."""
    chip, done = op.configuration, tuple(actions)
    every = [action.computed.cycles for action in done if isinstance(action, Compute)]
    copied = sum(_copied_bytes(action) for action in done)
    busy = {
        "multipliers": sum(float(each.multipliers[0]) for each in every),
        "output": sum(float(each.output[0]) for each in every),
        "commands": sum(float(each.commands[0]) for each in every),
        "features": sum(float(each.features[0]) for each in every),
        "constants": copied / chip.constants.bytes_per_cycle
        or sum(float(each.constants[0]) for each in every),
    }
    taken = math.ceil(timing(steps(done, chip), chip))
    return Breakdown(taken, busy, chip.macs if op.weighted else None)


def _copied_bytes(action: Action) -> int:
    """Bytes that an action copies."""
    if isinstance(action, StreamTransfer):
        return action.size_bytes
    return TABLE_BYTES if isinstance(action, TableCopy) else 0


def assumed(encoded: EncodedOperation, rows: int, fillings: tuple[Filling, ...] = ()) -> Breakdown:
    """Cycles of a call that computes `rows` rows in the middle of the output, if the rows of every
    tensor are contiguous.

    If `encoded` has no segments, each takes its share of the operation's constants.  `fillings` are
    the constants that the call copies for itself and for later calls."""
    op = encoded.operation
    rows = min(rows, op.out_h)
    first = min(op.out_h - rows, -(-op.pad_top // op.stride_h))
    if op.weighted and not encoded.segments:
        segments = tuple(
            ConstantSegment(channels, 0, op.constant_bytes * channels // op.out_c)
            for channels in op.slices
        )
        encoded = replace(encoded, segments=segments)
    transfers = tuple(
        StreamTransfer(Place(TABLE, 0), Place(PREFETCHED if own else ELSEWHERE, 0), size)
        for size, own in fillings
    )
    inputs = _contiguous_inputs(encoded)
    call = NpuCall(
        encoded,
        inputs,
        _contiguous(TENSORS + len(inputs), op.out_h, op.out_row_bytes),
        Place(TABLE, 0),
        Place(SCRATCH, 0),
        Place(PREFETCHED, 0),
        transfers,
    )
    return cost_of(op, call.actions(first, first + rows))


def _contiguous_inputs(encoded: EncodedOperation) -> tuple[StreamRows, ...]:
    """The rows of all inputs, each tensor in a region of its own."""
    op, second = encoded.operation, encoded.operation.second_tensor
    sizes = [(op.in_h, row_bytes(op.in_w, *piece)) for piece in encoded.pieces]
    sizes = sizes or [(op.in_h, op.in_row_bytes)]
    if second is not None:
        sizes.append((second.shape.height, second.row_bytes))
    return tuple(_contiguous(TENSORS + k, *size) for k, size in enumerate(sizes))


def _contiguous(base: int, count: int, size_bytes: int) -> StreamRows:
    """Consecutive rows of equal size."""
    return StreamRows(base, 0, range(0, count * size_bytes, size_bytes))
