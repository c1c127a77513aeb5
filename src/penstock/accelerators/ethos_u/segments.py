"""segments: which segments of an operation's constants an earlier call copies."""

from __future__ import annotations

from dataclasses import replace

from penstock.accelerators.ethos_u.operation import Operation


def with_prefetched_segments(op: Operation, count: int) -> Operation:
    """The operation with its first `count` segments copied by an earlier call."""
    buffer = op.buffer_bytes if count < len(op.slices) else 0
    return replace(op, prefetched_segments=count, buffer_bytes=buffer)


def prefetch_choices(op: Operation) -> tuple[int, ...]:
    """The numbers of segments that may be prefetched: one, a quarter, half of them, and all."""
    count = len(op.slices)
    return tuple(sorted({1, max(1, count // 4), max(1, count // 2), count}))


def copied_before(op: Operation, segment: int) -> int:
    """The segment before whose operations the copy of `segment` is issued.

    The first copies are issued at once, one into each of the two buffers; each later copy as soon
    as its buffer is free."""
    return 0 if segment <= op.prefetched_segments + 1 else segment - 1
