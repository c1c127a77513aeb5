"""schedule: the order in which the weights of an operation are encoded, and their segments.

The NPU reads weights again for each column of blocks, at the bandwidth of the memory of constants.
If that limits the operation, weights are first copied to the memory of tensors, in segments of
output channels; one segment is copied while the previous one is used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from penstock.accelerators.ethos_u.call import EncodedOperation
from penstock.accelerators.ethos_u.configurations import BLOCK_CHANNELS
from penstock.accelerators.ethos_u.cost import assumed
from penstock.accelerators.ethos_u.operation import NpuFunction, Operation
from penstock.accelerators.ethos_u.segments import with_prefetched_segments

SEGMENTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Candidate numbers of segments."""
TOLERANCE = 1.01
"""Candidates within this factor of the fewest cycles compete by scratch."""
MOST_PREFETCH_CHOICES = 4
"""The most choices that `prefetch_choices` returns."""


@lru_cache(maxsize=4096)
def scheduled(plain: Operation, weights: int, *, buffered: bool) -> Operation:
    """The operation with the order of weights, block depth and segments of the fewest cycles.

    `weights` is the size of the weights in bytes before they are encoded.  If `buffered`, segments
    may be copied into buffers before use; where that does not help, the result has no buffers."""
    direct = min(_orders(plain, weights, plain.out_c, 0), key=_cycles)
    if not buffered or plain.constants_in_sram:
        return direct
    tried = [
        op
        for step in sorted({_step(plain, count) for count in SEGMENTS})
        for op in _orders(plain, weights, step, max(1, weights * step // plain.out_c))
    ]
    soonest = min(map(_cycles, tried), default=math.inf)
    if soonest * TOLERANCE >= _cycles(direct):
        return direct
    good = (op for op in tried if _cycles(op) <= soonest * TOLERANCE)
    return min(good, key=lambda op: (op.scratch_bytes, _cycles(op)))


@lru_cache(maxsize=4096)
def scheduled_for_prefetch(plain: Operation, weights: int) -> Operation:
    """The operation with the order of weights and the segments that take the fewest cycles on
    average of two cases: no segment is prefetched, and all segments are."""
    tried = (
        op
        for step in sorted({_step(plain, count) for count in SEGMENTS})
        for op in _orders(plain, weights, step, max(1, weights * step // plain.out_c))
    )
    return min(
        tried, key=lambda op: _cycles(op) + _cycles(with_prefetched_segments(op, len(op.slices)))
    )


def _orders(plain: Operation, weights: int, step: int, buffer: int) -> Iterator[Operation]:
    """The operation with each order of weights, in segments of `step` channels and with buffers of
    `buffer` bytes; only those that fit the NPU's memory."""
    for order in (False, True) if plain.function is NpuFunction.CONVOLUTION else (False,):
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
    """Channels of a segment if there are `count` segments; a depthwise convolution has only one."""
    if plain.function is not NpuFunction.CONVOLUTION:
        return plain.out_c
    return min(plain.out_c, -(-plain.out_c // count // BLOCK_CHANNELS) * BLOCK_CHANNELS)


@lru_cache(maxsize=4096)
def _cycles(op: Operation) -> float:
    """Cycles of the whole operation."""
    return assumed(EncodedOperation(op), op.out_h).cycles
