"""cost: what a call takes, which is what the clock says of its operations and copies.

Where the rows of a call lie decides into how many operations it is cut.  Before memory is planned,
rows are taken to lie one behind the other; afterwards they lie where they lie.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from penstock.accelerators.ethos_u.call import (
    FIRST,
    PIECES,
    RESULT,
    SECOND,
    Action,
    Call,
    Compute,
    ConstantsCopy,
    Piece,
    RowsAt,
    TableCopy,
)
from penstock.accelerators.ethos_u.encoding import Segment
from penstock.accelerators.ethos_u.operation import BINARY, Operation, row_bytes
from penstock.accelerators.ethos_u.timeline import timing
from penstock.accelerators.ethos_u.waits import TABLE_BYTES, steps
from penstock.uma import Breakdown, Filling, Place

TABLE, SCRATCH, FETCHED, ELSEWHERE, TENSORS = range(5)
"""Regions of a call whose tensors lie nowhere yet; of tensors one each, from TENSORS on."""


def cost_of(op: Operation, actions: Iterable[Action]) -> Breakdown:
    """Cycles of what a call of an operation does: in all, and of each part of the NPU."""
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
    if isinstance(action, ConstantsCopy):
        return action.size_bytes
    return TABLE_BYTES if isinstance(action, TableCopy) else 0


def assumed(
    op: Operation,
    rows: int,
    segments: tuple[Segment, ...] = (),
    pieces: tuple[Piece, ...] = (),
    fillings: tuple[Filling, ...] = (),
) -> Breakdown:
    """Cycles of a call that computes so many rows in the middle of the output, as far as there are
    any, where the rows of every tensor lie one behind the other.

    `segments`: of its constants, encoded; by their share of all constants unless said.
    `fillings`: what it copies for its own use and for that of calls to come."""
    rows = min(rows, op.out_h)
    first = min(op.out_h - rows, -(-op.pad_top // op.stride_h))
    if op.weighted and not segments:
        segments = tuple(
            Segment(channels, 0, op.constant_bytes * channels // op.out_c) for channels in op.slices
        )
    places = [Place(TABLE, 0)]
    places += [Place(SCRATCH, 0)] if op.scratch_bytes else []
    places += [Place(FETCHED, 0)] if op.fetched else []
    fetches = tuple(
        ConstantsCopy(
            Place(TABLE, 0),
            Place(FETCHED if own else ELSEWHERE, 0),
            size,
        )
        for size, own in fillings
    )
    call = Call(op, tuple(places), segments, pieces, _one_behind_the_other(op, pieces), fetches)
    return cost_of(op, call.actions(first, first + rows))


def _one_behind_the_other(op: Operation, pieces: tuple[Piece, ...]) -> dict[int, RowsAt]:
    """Where the rows of every tensor of a call lie, each in a region of its own."""
    tensors = {RESULT: (op.out_h, op.out_row_bytes)}
    if op.second == BINARY:
        tensors[SECOND] = op.second_h, op.second_row_bytes
    if not pieces:
        tensors[FIRST] = op.in_h, op.in_row_bytes
    for k, (channels, packed) in enumerate(pieces):
        tensors[PIECES + k] = op.in_h, row_bytes(op.in_w, channels, bool(packed))
    return {
        tensor: RowsAt(TENSORS + tensor, 0, range(0, count * size, size))
        for tensor, (count, size) in tensors.items()
    }
