"""segments: which of an operation's constants are fetched before a call, which copied in it."""

from __future__ import annotations

from dataclasses import replace

from penstock.accelerators.ethos_u.operation import Operation


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
