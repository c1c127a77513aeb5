"""Memories over time as data of a page.

The axis of the memory figure shows steps, or cycles. On the axis of steps, each layer that runs
whole has one column. A cascade has at least one column per layer, whatever its number of calls; it
gets more if whole layers would otherwise take more than half of the figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

import numpy as np

from penstock.reports.formats import printable, short_names
from penstock.reports.model_layer import ModelLayer
from penstock.reports.page.records import BlockData, MemoryData, StretchData
from penstock.reports.timeline import LivePiece, MemorySpan, Stretch, Timeline

MOST_COLUMNS = 4.0
"""Maximum number of columns per layer of a cascade."""
Area = tuple[int, int, int, int]
"""Lower and upper byte, first and end tick."""


def stretches(found: Sequence[Stretch], layers: Sequence[ModelLayer]) -> tuple[StretchData, ...]:
    """Return the stretches with their layers and columns."""
    intervals = tuple(step_intervals(found))
    own = [stretch_layers(interval, layers) for interval in intervals]
    widths = column_widths([(len(some), one.cascade) for some, one in zip(own, found, strict=True)])
    return tuple(
        StretchData(
            some,
            one.calls,
            _kernel_calls(interval, layers),
            one.cascade,
            round(columns, 4),
            one.words,
        )
        for one, interval, some, columns in zip(found, intervals, own, widths, strict=True)
    )


def _kernel_calls(steps: range, layers: Sequence[ModelLayer]) -> int:
    """Return the calls of some steps; a layer may have further steps elsewhere."""
    counts = (zip(layer.indices, layer.steps, strict=True) for layer in layers)
    return sum(step.calls for pairs in counts for index, step in pairs if index in steps)


def step_intervals(found: Sequence[Stretch]) -> Iterator[range]:
    """Yield the indices of the steps of each stretch."""
    for first, end in pairwise(accumulate((one.layers for one in found), initial=0)):
        yield range(first, end)


def stretch_layers(steps: range, layers: Sequence[ModelLayer]) -> tuple[int, ...]:
    """Return the indices of the layers of some steps, in the order of their first steps."""
    own = [k for k, layer in enumerate(layers) if any(index in steps for index in layer.indices)]
    return tuple(sorted(own, key=lambda k: -1 if layers[k].step is None else layers[k].step or 0))


def column_widths(found: Sequence[tuple[int, int | None]]) -> tuple[float, ...]:
    """Return the columns of each stretch.

    found: for each stretch, the number of its layers and the index of its cascade, if it is one.
    """
    striped = sum(layers for layers, cascade in found if cascade is not None)
    whole = sum(layers for layers, _ in found) - striped
    each = min(MOST_COLUMNS, max(1.0, whole / max(1, striped)))
    return tuple(layers * (1.0 if cascade is None else each) for layers, cascade in found)


def memory_data(
    timeline: Timeline, layers: Sequence[ModelLayer], budget_bytes: int | None
) -> MemoryData:
    """Return a memory over time."""
    names = short_names(span.name for span in timeline.spans if span.kind != "scratch")
    indices: dict[str, list[int]] = {}
    for index, layer in enumerate(layers):
        for name in dict.fromkeys(step.name for step in layer.steps):
            indices.setdefault(name, []).append(index)
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
                _layers(span, timeline.stretches, indices, layers),
                span.most_bytes,
                len(span.pieces) > 1,
                merged_areas(span.pieces),
            )
            for span in timeline.spans
        ),
        tuple(_changes(timeline)),
    )


def _layers(
    span: MemorySpan,
    found: Sequence[Stretch],
    indices: Mapping[str, Sequence[int]],
    layers: Sequence[ModelLayer],
) -> tuple[int, ...]:
    """Return the layers that a block belongs to: those that write a tensor, or those of the cascade
    that uses a scratch buffer or a copied constant."""
    if span.layers or span.kind not in ("scratch", "constant"):
        return tuple(k for name in span.layers for k in indices.get(name, ()))
    tick = span.dead - 1  # a copy may begin in the cascade before
    calls = accumulate((stretch.calls for stretch in found), initial=1)
    for (begun, ended), steps in zip(pairwise(calls), step_intervals(found), strict=True):
        if begun <= tick < ended:
            return stretch_layers(steps, layers)
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
