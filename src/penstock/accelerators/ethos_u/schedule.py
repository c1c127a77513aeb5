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

import numpy as np

from penstock.accelerators.ethos_u.configurations import BRICK
from penstock.accelerators.ethos_u.operation import Function, Operation
from penstock.accelerators.ethos_u.performance import Cycles, copying_cycles, cycles
from penstock.uma import Breakdown

SEGMENTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Into how many segments constants may be cut."""
ALIKE = 1.01
"""What takes at most so much longer is as good, if it needs less working memory."""


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


def breakdown(op: Operation, rows: int) -> Breakdown:
    """Cycles of a call that computes so many rows: what each part of the NPU does, and in all."""
    slices = [_of(op, rows, channels) for channels in op.slices if op.buffer_bytes]
    if not slices:
        slices = [_of(op, rows, op.out_c)]
    total, copying = float(slices[0].total[0]), 0.0
    if op.buffer_bytes:
        chip = op.configuration
        sizes = [op.constant_bytes * channels // op.out_c for channels in op.slices]
        copies = [copying_cycles(chip, size) for size in sizes]
        copying = sum(copies)
        behind = zip(slices, [*sizes[1:], 0], [*copies[1:], 0.0], strict=True)
        written = chip.features.bytes_per_cycle
        total = copies[0] + sum(
            max(float(s.npu[0]), float(s.features[0]) + size / written, copy)
            for s, size, copy in behind
        )
    busy = {
        "multipliers": sum(float(s.multipliers[0]) for s in slices),
        "output": sum(float(s.output[0]) for s in slices),
        "commands": sum(float(s.commands[0]) for s in slices),
        "features": sum(float(s.features[0]) for s in slices),
        "constants": copying or sum(float(s.constants[0]) for s in slices),
    }
    macs = op.configuration.macs if op.weighted else None
    return Breakdown(math.ceil(total), busy, macs)


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
def _of(op: Operation, rows: int, channels: int) -> Cycles:
    """Of so many rows and channels."""
    block = op.block(rows, channels)
    assert block is not None
    return cycles(op.work(rows, channels), np.array([block]))
