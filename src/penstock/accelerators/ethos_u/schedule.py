"""schedule: selection of the order in which weights are encoded, and of the segments of constants.

The NPU reads weights again for each position of a block in rows and columns, from the memory that
holds constants. If the bandwidth of this memory limits the operation, the weights are first copied
to the memory that holds tensors, in segments of output channels: one segment is copied while the
previous one is used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from penstock.accelerators.ethos_u.call import EncodedOperation
from penstock.accelerators.ethos_u.configurations import BLOCK_CHANNELS
from penstock.accelerators.ethos_u.cost import contiguous_cost
from penstock.accelerators.ethos_u.operation import NpuFunction, Operation
from penstock.accelerators.ethos_u.segments import with_prefetched_segments

SEGMENTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Candidate numbers of segments."""
TOLERANCE = 1.01
"""Among the candidates whose cycles are within this factor of the minimum, the one with the least
scratch is selected."""
MOST_PREFETCH_CHOICES = 4
"""Maximum number of elements that `prefetch_choices` returns."""


@lru_cache(maxsize=4096)
def scheduled(plain: Operation, weights: int, *, buffered: bool) -> Operation:
    """Return the operation with the order of weights, block depth (output channels of a block) and
    division of its constants into segments that take the fewest cycles.

    plain: the operation without these choices.
    weights: size of the weights in bytes before encoding.
    buffered: permits copying segments into buffers before use. If this is not faster than reading
        them in place by more than a factor of `TOLERANCE`, the result has no buffers. Otherwise,
        the result needs the least scratch among candidates within this factor of the fewest
        cycles."""
    direct = min(_weight_orders(plain, weights, plain.out_c, 0), key=_cycles)
    if not buffered or plain.constants_in_sram:
        return direct
    tried = [
        op
        for step in sorted({_segment_channels(plain, count) for count in SEGMENTS})
        for op in _weight_orders(plain, weights, step, max(1, weights * step // plain.out_c))
    ]
    fewest = min(map(_cycles, tried), default=math.inf)
    if fewest * TOLERANCE >= _cycles(direct):
        return direct
    good = (op for op in tried if _cycles(op) <= fewest * TOLERANCE)
    return min(good, key=lambda op: (op.scratch_bytes, _cycles(op)))


@lru_cache(maxsize=4096)
def scheduled_for_prefetch(plain: Operation, weights: int) -> Operation:
    """Return the operation with the order of weights and the segments (ranges of output channels
    whose constants are stored together) that minimise the average cycles of two cases: no segment
    is prefetched, and all segments are.

    plain: the operation without these choices.
    weights: size of the weights in bytes before encoding."""
    tried = (
        op
        for step in sorted({_segment_channels(plain, count) for count in SEGMENTS})
        for op in _weight_orders(plain, weights, step, max(1, weights * step // plain.out_c))
    )
    return min(
        tried, key=lambda op: _cycles(op) + _cycles(with_prefetched_segments(op, len(op.slices)))
    )


def _weight_orders(plain: Operation, weights: int, step: int, buffer: int) -> Iterator[Operation]:
    """Yield the operation with each order of weights, and with the depth of the fastest block for
    that order. Orders for which no block fits the NPU's internal memory are omitted.

    The orders are depth first (by taps with many channels) and, only for convolutions that are not
    depthwise, part kernel first (by parts of the window with few channels).

    weights: size of the weights in bytes.
    step: output channels of a segment, whose constants are stored together.
    buffer: size of a buffer for segments in bytes; 0 for no buffers."""
    for order in (False, True) if plain.function is NpuFunction.CONVOLUTION else (False,):
        tried = replace(
            plain,
            part_kernel=order,
            slice_channels=step,
            constant_bytes=weights,
            buffer_bytes=buffer,
        )
        found = tried.fastest_block_and_cycles(tried.work(plain.out_h))
        if found is not None:
            (_, _, depth), _ = found
            yield replace(tried, block_depth=depth)


def _segment_channels(plain: Operation, count: int) -> int:
    """Return the number of output channels of a segment (channels whose constants are stored
    together) if a convolution is divided into about `count` segments: a multiple of
    `BLOCK_CHANNELS`, or all channels. Operations other than convolutions, and depthwise ones, have
    a single segment with all channels."""
    if plain.function is not NpuFunction.CONVOLUTION:
        return plain.out_c
    return min(plain.out_c, -(-plain.out_c // count // BLOCK_CHANNELS) * BLOCK_CHANNELS)


@lru_cache(maxsize=4096)
def _cycles(op: Operation) -> float:
    """Return the cycles of a call that computes the whole output."""
    return contiguous_cost(EncodedOperation(op), op.out_h).cycles
