"""segments: prefetches and copies of an operation's segments of constants. A segment holds the
weights and biases of consecutive output channels."""

from __future__ import annotations

from dataclasses import replace

from penstock_ethos_u.operation import Operation


def with_prefetched_segments(op: Operation, count: int) -> Operation:
    """Return a variant of `op` whose first `count` segments are prefetched: an earlier call has
    copied them, and the operation reads the copies.

    The operation still copies the remaining segments itself, into its own buffers. If all segments
    are prefetched, it has no buffers."""
    buffer = op.buffer_bytes if count < len(op.segment_channels) else 0
    return replace(op, prefetched_segments=count, buffer_bytes=buffer)


def prefetch_choices(op: Operation) -> tuple[int, ...]:
    """Return the numbers of segments of `op` that a prefetch may contain: 1, a quarter, half and
    all of them, in ascending order without duplicates. For 8 segments, the result is (1, 2, 4,
    8)."""
    count = len(op.segment_channels)
    return tuple(sorted({1, max(1, count // 4), max(1, count // 2), count}))


def copied_before(op: Operation, segment: int) -> int:
    """Return when a call copies a segment into a buffer: the result is the index of the segment
    before whose operations the copy is issued.

    segment: index of the copied segment.

    There are two buffers. The first two copies are issued at the start of the call. Each later copy
    is issued as soon as the operations that read its buffer have been issued. If no segments are
    prefetched, the results for segments 0 to 4 are 0, 0, 1, 2 and 3: segments 0 and 1 are copied
    before the operations of segment 0, segment 2 before the operations of segment 1, and so on."""
    return 0 if segment <= op.prefetched_segments + 1 else segment - 1
