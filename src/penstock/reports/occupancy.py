"""Occupancy: bytes of the arena in use at each step; the curve of the memory picture.

column   0      1       2     ..   steps      steps + 1
step    -1      0       1     ..   steps - 1  steps
        caller  first   second     last       caller
        writes  step    step       step       reads
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.reports.report import Span


@dataclass(frozen=True, slots=True)
class Occupancy:
    """By column, bytes that at least one buffer holds; and how high the buffers reach."""

    live_bytes: tuple[int, ...]
    height_bytes: int

    @property
    def peak_bytes(self) -> int:
        return max(self.live_bytes)

    @property
    def peak_step(self) -> int:
        """The first step of greatest need; -1 is the caller before the run."""
        return self.live_bytes.index(self.peak_bytes) - 1


def occupancy(spans: tuple[Span, ...], steps: int) -> Occupancy:
    """Bytes in use at each step; bytes that buffers share, in place, count once."""
    alive: list[list[tuple[int, int]]] = [[] for _ in range(steps + 2)]
    for span in spans:
        for step in range(span.first_step, span.last_step + 1):
            alive[step + 1].append((span.lower_byte, span.upper_byte))
    height = max((span.upper_byte for span in spans), default=0)
    return Occupancy(tuple(_union(intervals) for intervals in alive), height)


def _union(intervals: list[tuple[int, int]]) -> int:
    """Size of the union of half-open intervals."""
    total, end = 0, 0
    for lower, upper in sorted(intervals):
        total += max(0, upper - max(lower, end))
        end = max(end, upper)
    return total
