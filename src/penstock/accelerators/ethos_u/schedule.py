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
from penstock.accelerators.ethos_u.cost import assumed
from penstock.accelerators.ethos_u.operation import Function, Operation
from penstock.accelerators.ethos_u.segments import fetching

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
        found = tried.soonest(tried.work(plain.out_h))
        if found is not None:
            (_, _, depth), _ = found
            yield replace(tried, block_depth=depth)


def _step(plain: Operation, count: int) -> int:
    """Channels of a segment where there are so many segments; a depthwise convolution has one."""
    if plain.function != Function.CONVOLUTION:
        return plain.out_c
    return min(plain.out_c, -(-plain.out_c // count // BRICK) * BRICK)


@lru_cache(maxsize=4096)
def _taken(op: Operation) -> float:
    return assumed(op, op.out_h).cycles
