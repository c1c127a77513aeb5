"""schedule: in which order the constants of an operation come, and what it takes with them.

Weights that several columns of blocks read are fetched again for each, at the rate of the memory of
constants.  Where that takes longer than all else, they are copied first: in segments of output
channels, of which one is copied while the one before is used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from penstock.accelerators.ethos_u.configurations import BRICK
from penstock.accelerators.ethos_u.operation import Function, Operation
from penstock.accelerators.ethos_u.performance import Cycles, copying_cycles
from penstock.uma import Breakdown

SEGMENTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Into how many segments constants may be cut."""
ALIKE = 1.01
"""What takes at most so much longer is as good, if it needs less working memory."""
FETCHING = 4
"""So many choices there are at most of what is fetched before an operation."""


@lru_cache(maxsize=4096)
def scheduled(plain: Operation, weights: int, *, buffered: bool) -> Operation:
    """The operation with the order of weights and the depth of blocks that take least; weights are
    taken to be as long as they are before they are encoded.  As it is best without buffers, where
    these do no good."""
    direct = min(_orders(plain, weights, plain.out_c, 0), key=_taken)
    if not buffered or plain.sram_only:
        return direct
    tried = [
        op
        for step in sorted({_step(plain, count) for count in SEGMENTS})
        for op in _orders(plain, weights, step, max(1, weights * step // plain.out_c))
    ]
    soonest = min(map(_taken, tried), default=math.inf)
    if soonest * ALIKE >= _taken(direct):
        return direct
    good = (op for op in tried if _taken(op) <= soonest * ALIKE)
    return min(good, key=lambda op: (op.scratch_bytes, _taken(op)))


@lru_cache(maxsize=4096)
def scheduled_to_be_fetched(plain: Operation, weights: int) -> Operation:
    """The operation with the order of weights and the segments that take least, in the mean of two
    cases: the first one is waited for, or all have been fetched."""
    tried = (
        op
        for step in sorted({_step(plain, count) for count in SEGMENTS})
        for op in _orders(plain, weights, step, max(1, weights * step // plain.out_c))
    )
    return min(tried, key=lambda op: _taken(op) + _taken(fetching(op, len(op.slices))))


def fetching(op: Operation, ahead: int) -> Operation:
    """The operation with so many of its segments fetched before: the same constants."""
    return replace(op, ahead=ahead, buffer_bytes=op.buffer_bytes if ahead < len(op.slices) else 0)


def fetched_segments(op: Operation) -> tuple[int, ...]:
    """How many segments may be fetched before a call: one, a quarter, half of them, and all."""
    count = len(op.slices)
    return tuple(sorted({1, max(1, count // 4), max(1, count // 2), count}))


def copied_before(op: Operation, segment: int) -> int:
    """Before which segment of a call the copy of another one's constants begins: two are copied at
    once where both buffers are free, then each as soon as the one before the last is used."""
    return 0 if segment <= op.ahead + 1 else segment - 1


def breakdown(op: Operation, rows: int) -> Breakdown:
    """Cycles of a call that computes so many rows: what each part of the NPU does, and in all.

    A segment begins when the one before is done and its constants are there; beside it, the
    constants of others are written where features are."""
    chip = op.configuration
    segments = [_of(op, rows, k) for k in range(len(op.slices))]
    sizes = [op.constant_bytes * channels // op.out_c for channels in op.slices]
    now = copied = copying = 0.0
    there = dict.fromkeys(range(len(segments)), 0.0)
    for k, of in enumerate(segments):
        begun = [i for i in op.buffered if copied_before(op, i) == k]
        for i in begun:
            taken = copying_cycles(chip, sizes[i])
            there[i] = copied = max(copied, now) + taken
            copying += taken
        beside = sum(sizes[i] for i in begun if i > k) / chip.features.bytes_per_cycle
        taken = max(float(of.npu[0]), float(of.features[0]) + beside, float(of.constants[0]))
        now = max(now, there[k]) + taken
    busy = {
        "multipliers": sum(float(s.multipliers[0]) for s in segments),
        "output": sum(float(s.output[0]) for s in segments),
        "commands": sum(float(s.commands[0]) for s in segments),
        "features": sum(float(s.features[0]) for s in segments),
        "constants": copying or sum(float(s.constants[0]) for s in segments),
    }
    macs = op.configuration.macs if op.weighted else None
    return Breakdown(math.ceil(now), busy, macs)


def _orders(plain: Operation, weights: int, step: int, buffer: int) -> Iterator[Operation]:
    """With each order of weights, in segments of so many channels."""
    for order in (0, 1) if plain.function == Function.CONVOLUTION else (0,):
        tried = replace(
            plain,
            part_kernel=order,
            slice_channels=step,
            constant_bytes=weights,
            buffer_bytes=buffer,
        )
        block = tried.block(plain.out_h)
        if block is not None:
            yield replace(tried, block_depth=block[2])


def _step(plain: Operation, count: int) -> int:
    """Channels of a segment where there are so many segments; a depthwise convolution has one."""
    if plain.function != Function.CONVOLUTION:
        return plain.out_c
    return min(plain.out_c, -(-plain.out_c // count // BRICK) * BRICK)


@lru_cache(maxsize=4096)
def _taken(op: Operation) -> float:
    return breakdown(op, op.out_h).cycles


@lru_cache(maxsize=65536)
def _of(op: Operation, rows: int, segment: int) -> Cycles:
    """Of so many rows of a segment."""
    found = op.soonest(rows, segment)
    assert found is not None
    return found[1]
