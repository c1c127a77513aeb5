"""Counts how often each section of the kernel `exchange_axes` is executed, if it runs in place.

Exchanging rows and columns permutes the pixels of an image.  A permutation consists of cycles, in
each of which every pixel moves to the index of the next one.  The kernel visits all indices, and
moves the pixels of a cycle when it visits the least index of this cycle.  To find out whether an
index is the least of its cycle, the kernel follows the cycle from this index until it reaches a
lower index, or returns to the index itself."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from penstock.compiled import compiled
from penstock.ir.op import Site


@compiled
def _steps_and_swaps(rows: int, columns: int) -> tuple[int, int]:
    steps, swaps = 0, 0
    for first in range(rows * columns):
        k, moved = first % rows * columns + first // rows, 0
        while k > first:
            k = k % rows * columns + k // rows
            moved += 1
        steps += moved + 1
        if k == first:
            steps += moved + 1
            swaps += moved
    return steps, swaps


@lru_cache(maxsize=256)
def steps_and_swaps(rows: int, columns: int) -> tuple[int, int]:
    """Return (steps, swaps) for an image of `rows` x `columns` pixels.

    steps: how often the kernel computes the next index on a cycle of the permutation, to find the
        least index of the cycle or to move its pixels.
    swaps: how often the kernel swaps two pixels.

    With a single row, each pixel is a cycle of its own.  It takes no swap and two steps: one finds
    that the index is the least of its cycle, the other that the cycle has no further pixel.

    >>> steps_and_swaps(1, 5), steps_and_swaps(2, 2)
    ((10, 0), (9, 1))
    """
    steps, swaps = _steps_and_swaps(rows, columns)
    return int(steps), int(swaps)


def exchange_counts(p: Mapping[str, int], site: Site) -> Mapping[str, float]:
    """Return how often each section of the kernel `exchange_axes` runs, by the section's name.

    "step": computes the next index on a cycle of the permutation (`steps_and_swaps`).
    "swap": swaps two pixels, first eight bytes at a time ("eight"), then the remaining bytes one by
        one ("byte").

    p: parameters of the kernel, by name."""
    steps, swaps = steps_and_swaps(p["rows"], p["columns"])
    eights, rest = divmod(p["pixel_bytes"], 8)
    return {"step": steps, "swap": swaps, "eight": swaps * eights, "byte": swaps * rest}
