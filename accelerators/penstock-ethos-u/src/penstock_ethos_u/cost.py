"""cost: cycles of a kernel call, from the timing of its operations and copies.

The addresses of rows determine into how many operations a call is split. Before memory is planned,
rows are assumed to be contiguous; `placed` computes costs for known addresses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from penstock.uma import Breakdown, Filling, Place, StreamRows, StreamTransfer
from penstock_ethos_u.call import (
    Action,
    Compute,
    EncodedOperation,
    NpuCall,
    TableCopy,
)
from penstock_ethos_u.encoding import ConstantSegment
from penstock_ethos_u.operation import Operation
from penstock_ethos_u.timeline import timing
from penstock_ethos_u.waits import timeline_steps

# Numbers of the regions that a call uses before memory is planned: the kernel's table, scratch,
# constants prefetched for this call, and constants copied for later calls; and, from TENSORS on,
# one region for each tensor.
TABLE, SCRATCH, PREFETCHED, ELSEWHERE, TENSORS = range(5)


def cost_of(op: Operation, actions: Iterable[Action]) -> Breakdown:
    """Return the cost of a call of `op`: its elapsed cycles, and the busy cycles of five units.

    The units are "multipliers", "output" (which scales and writes results), "commands" (issue of
    commands), and the ports of the memories that hold tensors ("features") and constants
    ("constants"). If the call copies constants, the cycles of "constants" are those of the copies,
    without those of operations that read constants.

    actions: the operations and copies that the call executes, in order."""
    chip, done = op.configuration, tuple(actions)
    every = [action.timing.cycles for action in done if isinstance(action, Compute)]
    copied = sum(_copied_bytes(action) for action in done)
    busy = {
        "multipliers": sum(float(each.multipliers[0]) for each in every),
        "output": sum(float(each.output[0]) for each in every),
        "commands": sum(float(each.commands[0]) for each in every),
        "features": sum(float(each.features[0]) for each in every),
        "constants": copied / chip.constants.bytes_per_cycle
        or sum(float(each.constants[0]) for each in every),
    }
    taken = math.ceil(timing(timeline_steps(done, chip), chip))
    return Breakdown(taken, busy, chip.macs if op.weighted else None)


def _copied_bytes(action: Action) -> int:
    """The number of bytes of constants that an action copies."""
    if isinstance(action, StreamTransfer):
        return action.size_bytes
    return action.size_bytes if isinstance(action, TableCopy) and not action.op.prefetched else 0


def contiguous_cost(
    encoded: EncodedOperation, rows: int, fillings: tuple[Filling, ...] = ()
) -> Breakdown:
    """Return the cost (`cost_of`) of a call, assuming that the rows of every tensor are contiguous.

    encoded: the operation. If its constants are not encoded yet, the size of a segment is estimated
        from the size of all constants (`Operation.constant_bytes`), in proportion to the number of
        output channels.
    rows: number of output rows that the call computes. They are the first ones whose windows have
        no padding at the top or, if there are fewer of these, the last rows of the output.
    fillings: copies of constants that the call makes for itself or for later calls."""
    op = encoded.operation
    rows = min(rows, op.out_h)
    # The first row whose window contains no padding at the top, or an earlier one if fewer than
    # `rows` rows follow it.
    first = min(op.out_h - rows, -(-op.pad_top // op.stride_h))
    if op.weighted and not encoded.segments:
        segments = tuple(
            ConstantSegment(channels, (), (op.constant_bytes * channels // op.out_c,))
            for channels in op.segment_channels
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
    op, second = encoded.operation, encoded.operation.second_tensor
    sizes = [(op.in_h, op.in_row_bytes)]
    if encoded.steps is not None:
        sizes = list(zip(encoded.steps.extents, encoded.steps.row_bytes, strict=True))
    elif second is not None:
        sizes.append((second.shape.height, second.row_bytes))
    return tuple(_contiguous(TENSORS + k, *size) for k, size in enumerate(sizes))


def _contiguous(region: int, count: int, size_bytes: int) -> StreamRows:
    """The addresses of `count` contiguous rows of `size_bytes` bytes each, which begin at
    offset 0 of the memory region with number `region`."""
    return StreamRows(region, 0, range(0, count * size_bytes, size_bytes))
