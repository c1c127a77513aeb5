"""schedule: selection of the order in which weights are encoded, and of the segments of constants.
A segment holds the weights and biases of consecutive output channels.

The NPU computes the output in blocks. If blocks divide the output into r intervals of rows and c
intervals of columns, the NPU reads the weights r * c times. If the bandwidth of the memory that
holds constants limits the operation, the weights are first copied to the memory that holds tensors,
segment by segment: one segment is copied while the previous one is used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from penstock_ethos_u.call import EncodedOperation
from penstock_ethos_u.configurations import BLOCK_CHANNELS
from penstock_ethos_u.cost import contiguous_cost
from penstock_ethos_u.operation import NpuFunction, Operation, with_prefetched_segments

SEGMENTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # Candidate numbers of segments.
# Among the candidates whose cycles are within this factor of the minimum, the one with the least
# scratch is selected.
TOLERANCE = 1.01
MOST_PREFETCH_CHOICES = 4  # Maximum number of elements that `prefetch_choices` returns.


@lru_cache(maxsize=4096)
def scheduled(plain: Operation, weights: int, *, buffered: bool) -> Operation:
    """Return the operation with the choices that minimise its cycles: the order of weights, the
    block depth (output channels computed at a time), and the segments.

    plain: the operation before these choices.
    weights: size of the weights in bytes before encoding.
    buffered: whether the call may copy segments into buffers in scratch before use. The result uses
        buffers only if constants are not in SRAM, and if buffers reduce the cycles by a factor of
        more than `TOLERANCE` (1.01). Among the choices with buffers that take at most 1.01 times
        the fewest cycles, the result is the one with the least scratch."""
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
    """Return the operation with the choices that suit calls for which some segments may have been
    prefetched: the order of weights, the block depth (output channels computed at a time), and the
    segments.

    plain: the operation before these choices.
    weights: size of the weights in bytes before encoding."""
    # A segment is prefetched if an earlier call copies it.  The choices minimise the average cycles
    # of two cases: no segment is prefetched, and all segments are.  The latter counts twice, since
    # in most schedules, nothing waits for the segments that are not prefetched.
    tried = (
        op
        for step in sorted({_segment_channels(plain, count) for count in SEGMENTS})
        for op in _weight_orders(plain, weights, step, max(1, weights * step // plain.out_c))
    )
    return min(
        tried,
        key=lambda op: (
            _cycles(op) + 2 * _cycles(with_prefetched_segments(op, len(op.segment_channels)))
        ),
    )


def _weight_orders(plain: Operation, weights: int, step: int, buffer: int) -> Iterator[Operation]:
    """A variant of the operation for each order of weights: depth first (one tap of many
    channels at a time) and, for convolutions that are not depthwise, part kernel first (several
    taps of few channels at a time)."""
    # For each order, `block_depth` is set to the number of channels of the fastest block size.  An
    # order is omitted if no block size fits the NPU's internal memory.
    for order in (False, True) if plain.function is NpuFunction.CONVOLUTION else (False,):
        tried = replace(
            plain,
            part_kernel=order,
            channels_per_segment=step,
            constant_bytes=weights,
            buffer_bytes=buffer,
        )
        found = tried.fastest_block_and_cycles(tried.work(plain.out_h))
        if found is not None:
            (_, _, depth), _ = found
            yield replace(tried, block_depth=depth)


def _segment_channels(op: Operation, count: int) -> int:
    """The number of output channels of a segment if the constants of an operation are
    divided into about `count` segments."""
    # For a convolution, this is a multiple of 16 and of a micro block, or all channels.  The
    # constants of other operations, including depthwise convolutions, are not divided: the result
    # is all channels.
    if op.function is not NpuFunction.CONVOLUTION:
        return op.out_c
    step = max(BLOCK_CHANNELS, op.configuration.micro_block.depth)
    return min(op.out_c, -(-op.out_c // count // step) * step)


@lru_cache(maxsize=4096)
def _cycles(op: Operation) -> float:
    return contiguous_cost(EncodedOperation(op), op.out_h).cycles
