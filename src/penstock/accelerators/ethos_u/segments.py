"""segments: which segments of an operation's constants are prefetched, and when the others are
copied."""

from __future__ import annotations

from dataclasses import replace

from penstock.accelerators.ethos_u.operation import Operation


def with_prefetched_segments(op: Operation, count: int) -> Operation:
    """Return a variant of `op` whose first `count` segments of constants have been copied by an
    earlier call."""
    buffer = op.buffer_bytes if count < len(op.slices) else 0
    return replace(op, prefetched_segments=count, buffer_bytes=buffer)


def prefetch_choices(op: Operation) -> tuple[int, ...]:
    """Return the candidates for the number of prefetched segments: one, a quarter, half, and
    all."""
    count = len(op.slices)
    return tuple(sorted({1, max(1, count // 4), max(1, count // 2), count}))


def copied_before(op: Operation, segment: int) -> int:
    """Return the index k such that the copy of `segment` into a buffer is issued just before the
    operations that compute segment k.

    There are two buffers. The first two copies are issued at the start of the call; each later one
    is issued as soon as the operations that read its buffer have been issued."""
    return 0 if segment <= op.prefetched_segments + 1 else segment - 1
