"""Memories over time as data of a page.

The axis of the memory figure shows steps, or cycles. On the axis of steps, each layer that runs
whole has one column. A cascade has at least one column per layer, whatever its number of calls; it
gets more if whole layers would otherwise take more than half of the figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise

import numpy as np

from penstock.reports.formats import printable, short_names
from penstock.reports.page.records import BlockData, MemoryData, StretchData
from penstock.reports.timeline import LivePiece, MemorySpan, Stretch, Timeline

MOST_COLUMNS = 4.0
"""Maximum number of columns per layer of a cascade."""
Area = tuple[int, int, int, int]
"""Lower and upper byte, first and end tick."""


def stretches(found: Sequence[Stretch]) -> tuple[StretchData, ...]:
    """Return the stretches with their layers and columns."""
    ends = list(accumulate((stretch.layers for stretch in found), initial=0))
    return tuple(
        StretchData(first, end, stretch.calls, stretch.cascade, round(columns, 4), stretch.words)
        for stretch, (first, end), columns in zip(
            found, pairwise(ends), column_widths(found), strict=True
        )
    )


def column_widths(found: Sequence[Stretch]) -> tuple[float, ...]:
    """Return the columns of each stretch."""
    striped = sum(stretch.layers for stretch in found if stretch.cascade is not None)
    whole = sum(stretch.layers for stretch in found) - striped
    each = min(MOST_COLUMNS, max(1.0, whole / max(1, striped)))
    return tuple(s.layers * (1.0 if s.cascade is None else each) for s in found)


def memory_data(
    timeline: Timeline, indices: Mapping[str, Sequence[int]], budget_bytes: int | None
) -> MemoryData:
    """Return a memory over time. `indices` are the indices of the layers of each name."""
    names = short_names(span.name for span in timeline.spans if span.kind != "scratch")
    return MemoryData(
        timeline.memory or "arena",
        timeline.ticks,
        timeline.height_bytes,
        timeline.peak_bytes,
        timeline.peak_tick,
        budget_bytes if timeline.memory is None else None,
        tuple(
            BlockData(
                names.get(span.name, "scratch"),
                printable(span.name),
                span.kind,
                _layers(span, timeline.stretches, indices),
                span.most_bytes,
                len(span.pieces) > 1,
                merged_areas(span.pieces),
            )
            for span in timeline.spans
        ),
        tuple(_changes(timeline)),
    )


def _layers(
    span: MemorySpan, found: Sequence[Stretch], indices: Mapping[str, Sequence[int]]
) -> tuple[int, ...]:
    """Return the layers that a block belongs to: those that write a tensor, or those of the cascade
    that uses a scratch buffer or a copied constant."""
    if span.layers or span.kind not in ("scratch", "constant"):
        return tuple(k for name in span.layers for k in indices.get(name, ()))
    tick = span.dead - 1  # a copy may begin in the cascade before
    calls = accumulate((stretch.calls for stretch in found), initial=1)
    layers = accumulate((stretch.layers for stretch in found), initial=0)
    for (begun, ended), (first, end) in zip(pairwise(calls), pairwise(layers), strict=True):
        if begun <= tick < ended:
            return tuple(range(first, end))
    return ()


def merged_areas(pieces: Iterable[LivePiece]) -> tuple[Area, ...]:
    """Return the area of pieces as few rectangles: pieces that follow each other at the same
    addresses are merged, then rectangles above each other with the same ticks."""
    over_time: list[Area] = []
    for piece in sorted(pieces, key=lambda p: (p.lower_byte, p.upper_byte, p.born)):
        area = (piece.lower_byte, piece.upper_byte, piece.born, piece.dead)
        if over_time and over_time[-1][:2] == area[:2] and over_time[-1][3] == area[2]:
            over_time[-1] = (*over_time[-1][:3], area[3])
        else:
            over_time.append(area)
    found: list[Area] = []
    for area in sorted(over_time, key=lambda a: (a[2], a[3], a[0])):
        if found and found[-1][2:] == area[2:] and found[-1][1] == area[0]:
            found[-1] = (found[-1][0], *area[1:])
        else:
            found.append(area)
    return tuple(found)


def _changes(timeline: Timeline) -> Iterable[tuple[int, int]]:
    live = timeline.live_bytes
    ticks = [0, *(np.flatnonzero(np.diff(live)) + 1).tolist()]
    return ((tick, int(live[tick])) for tick in ticks)
