"""The memory figure: blocks, the curve of live bytes, and levels.

    bytes ^   +-------+                      block: a tensor, its width is the live range, its
          |   |   b   +--------+             height the bytes; in a cascade it is the area of
          | +-+---+   |   c    |             the live rows; curve: the sum of live bytes, whose
          | |  a  |   +--------+             maximum is the peak
          +-+-----+------------+--> columns

The x axis (`TimeAxis`) has a column for each layer, one before them in which the caller writes the
input, and one after them in which it reads the output. The calls of a cascade share the columns of
its layers. matplotlib is imported only when a figure is drawn.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from penstock.reports.block_label import PlotScale, Rectangle, block_label
from penstock.reports.engine_lanes import draw_lanes, lanes_points
from penstock.reports.formats import number, short_names
from penstock.reports.paint import (
    BUDGET,
    CASCADE,
    CASCADE_EDGE,
    INK,
    MUTED,
    PAINTS,
    PEAK,
    SHADES,
)
from penstock.reports.time_axis import TimeAxis
from penstock.reports.timeline import LivePiece, MemorySpan, Stretch, Timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.path import Path

SPANS_ID = "spans"
# Margins of the axes and total height, in points (1/72 inch).
_LEFT, _RIGHT, _BOTTOM, _TOP = 58.0, 26.0, 38.0, 42.0
_HEIGHT = 414.0
_NARROWEST, _WIDEST, _COLUMN = 480.0, 940.0, 74.0
_STRIP = 12.0  # height in points of the strip that names the cascades
_ABOVE = 15.0  # distance in points from the axes to the engine lanes and the legend
_MOST_LABELLED_LAYERS = 150
_WORDS = {False: "step", True: "step; the calls of a cascade share the columns of its steps"}


def memory_figure(timeline: Timeline, budget_bytes: int | None = None) -> Figure:
    """Draw a memory over time. `budget_bytes` is the maximum size of the arena."""
    from matplotlib.figure import Figure

    axis = TimeAxis(timeline)
    width = min(_WIDEST, max(_NARROWEST, _LEFT + _RIGHT + _COLUMN * axis.columns))
    inner_width, inner_height = width - _LEFT - _RIGHT, _HEIGHT - _BOTTOM - _TOP
    height = _HEIGHT + lanes_points(timeline)
    figure = Figure(figsize=(width / 72, height / 72))
    axes = figure.add_axes(
        (_LEFT / width, _BOTTOM / height, inner_width / width, inner_height / height)
    )
    top = _top_bytes(timeline, budget_bytes)
    scale = PlotScale(inner_width / axis.columns, inner_height / top)
    _draw_axes(axes, axis, top)
    _draw_cascades(axes, axis, scale)
    _draw_blocks(axes, axis, scale)
    if timeline.layers <= _MOST_LABELLED_LAYERS:
        _draw_labels(axes, axis, scale)
    _draw_curve(axes, axis, scale)
    _draw_levels(axes, axis, budget_bytes)
    draw_lanes(axes, axis, 1.0 + _ABOVE / inner_height, 1.0 / inner_height)
    legend_points = _ABOVE + lanes_points(timeline)
    _draw_legend(axes, timeline.spans, 1.0 + legend_points / inner_height)
    return figure


def _top_bytes(timeline: Timeline, budget_bytes: int | None) -> float:
    """Return the upper end of the y axis: above the arena, and above the budget if that is
    close."""
    highest = max(1, timeline.height_bytes)
    if budget_bytes is not None and budget_bytes <= 1.5 * highest:
        highest = max(highest, budget_bytes)
    return 1.1 * highest


def _draw_axes(axes: Axes, axis: TimeAxis, top: float) -> None:
    axes.set_xlim(-1, axis.columns - 1)
    axes.set_ylim(0, top)
    _draw_steps(axes, axis)
    unit = _byte_unit(top)
    ticks = range(0, int(top) + 1, unit)
    divisor, name = (1024, "KiB") if unit >= 1024 else (1, "bytes")
    axes.set_yticks(list(ticks), [number(tick // divisor) for tick in ticks])
    axes.set_ylabel(f"address in {axis.timeline.memory or 'the arena'}, {name}", labelpad=4)
    axes.tick_params(length=3, width=0.7)
    axes.grid(axis="y", color="#e3e7eb", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_steps(axes: Axes, axis: TimeAxis) -> None:
    """Write step numbers below the columns, as many as are readable, between "in" and "out"."""
    layers, middles = axis.timeline.layers, axis.middles
    stride = _stride(round(axis.columns))
    first = 0 if stride <= 2 else stride
    numbers = _column_steps(axis.timeline.stretches)
    shown = [k for k in range(first, layers, stride) if k == 0 or k + 0.6 * stride <= layers]
    at = [-0.5, *(middles[k] for k in shown), axis.columns - 1.5]
    axes.set_xticks(at, ["in", *(numbers[k] for k in shown), "out"])
    axes.set_xlabel(_WORDS[any(s.cascade is not None for s in axis.timeline.stretches)], labelpad=2)
    if stride > 1:  # narrow columns: place these labels outside, clear of the numbers
        labels = axes.get_xticklabels()
        labels[0].set_horizontalalignment("right")
        labels[-1].set_horizontalalignment("left")


def _column_steps(stretches: tuple[Stretch, ...]) -> list[str]:
    """Return the label of each column: the number of a step."""
    found: list[str] = []
    for stretch in stretches:
        count = 0 if stretch.steps is None else stretch.steps[1] - stretch.steps[0] + 1
        first = 0 if stretch.steps is None else stretch.steps[0]
        found += ["pull"] * (stretch.layers - count)
        found += map(str, range(first, first + count))
    return found


def _stride(steps: int) -> int:
    """Return the distance between labelled steps: 1, 2 or 5 times a power of ten."""
    return next(
        digit * 10**power
        for power in range(steps + 1)
        for digit in (1, 2, 5)
        if steps <= 36 * digit * 10**power
    )


def _byte_unit(top: float) -> int:
    """Return the distance between labels of the y axis: a power of two bytes."""
    unit = 1
    while top / unit > 9:
        unit *= 2
    return unit


def _draw_cascades(axes: Axes, axis: TimeAxis, scale: PlotScale) -> None:
    """Draw a background for each cascade, and a strip above it with its number."""
    from matplotlib.patches import Rectangle as Patch

    bounds = axis.bounds
    for stretch, left, right in zip(axis.timeline.stretches, bounds, bounds[1:], strict=False):
        if stretch.cascade is None:
            continue
        axes.axvspan(left, right, color=CASCADE, linewidth=0, zorder=0)
        height = _STRIP / (scale.byte_points * axes.get_ylim()[1])
        strip = Patch(
            (left, 1.0),
            right - left,
            height,
            transform=axes.get_xaxis_transform(),
            facecolor=CASCADE,
            edgecolor=CASCADE_EDGE,
            linewidth=0.7,
            clip_on=False,
            zorder=1,
        )
        axes.add_patch(strip)
        room = (right - left) * scale.column_points
        words = _cascade_words(stretch, room)
        axes.annotate(
            words,
            ((left + right) / 2, 1.0 + height / 2),
            xycoords=axes.get_xaxis_transform(),
            ha="center",
            va="center",
            fontsize=7,
            annotation_clip=False,
        )


def _cascade_words(stretch: Stretch, room_points: float) -> str:
    """Return the longest description of a cascade that fits."""
    full = f"cascade {stretch.cascade}: {number(stretch.calls)} calls"
    choices = (full, f"cascade {stretch.cascade}", f"{stretch.cascade}")
    return next((words for words in choices if 4.5 * len(words) + 3 <= room_points), "")


def _draw_blocks(axes: Axes, axis: TimeAxis, scale: PlotScale) -> None:
    """Draw each span once, in order, as one collection; one object per span would be much
    slower."""
    from matplotlib.collections import PathCollection

    spans = axis.timeline.spans
    width = min(0.8, 0.08 * scale.column_points)
    blocks = PathCollection(
        [_outline(span, axis) for span in spans],
        facecolors=[_face(span, k) for k, span in enumerate(spans)],
        edgecolors=["none" if len(s.pieces) > 1 else PAINTS[s.kind].edge for s in spans],
        # Two equal widths; with a single one, matplotlib writes a lone block as a marker.
        linewidths=[width, width],
        clip_on=False,
        zorder=2,
        antialiaseds=[True, True],  # two entries, for the same reason
    )
    blocks.set_gid(SPANS_ID)
    axes.add_collection(blocks, autolim=False)


def _face(span: MemorySpan, k: int) -> str:
    """Return the face colour of the k-th span."""
    rows = span.kind == "arena" and len(span.pieces) > 1
    return SHADES[k % len(SHADES)] if rows else PAINTS[span.kind].face


def _outline(span: MemorySpan, axis: TimeAxis) -> Path:
    """Return the rectangles of a span's pieces as a path."""
    from matplotlib.path import Path

    corners: list[tuple[float, float]] = []
    for piece in span.pieces:
        left, right = axis.interval(piece)
        lower, upper = piece.lower_byte, piece.upper_byte
        corners += [(left, lower), (right, lower), (right, upper), (left, upper), (left, lower)]
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
    return Path(corners, codes * len(span.pieces))


def _draw_labels(axes: Axes, axis: TimeAxis, scale: PlotScale) -> None:
    """Draw short names in blocks that are large enough, with a background where they cannot avoid
    the curve."""
    spans = axis.timeline.spans
    names = short_names(span.name for span in spans if span.kind != "scratch")
    for k, span in enumerate(spans):
        name = names.get(span.name, "scratch")
        largest = max(span.pieces, key=lambda piece: _area(piece, axis))
        note = number(largest.size_bytes) if len(span.pieces) == 1 else ""
        block = Rectangle(*axis.interval(largest), largest.lower_byte, largest.upper_byte)
        label = block_label(block, name, note, scale, axis)
        if label is None:
            continue
        face = _face(span, k)
        axes.text(
            label.x,
            label.y,
            label.text,
            fontsize=label.points,
            rotation=90 if label.upwards else 0,
            ha="center",
            va="center",
            linespacing=1.15,
            bbox=None if label.clear else {"facecolor": face, "edgecolor": "none", "pad": 0.5},
            zorder=5,
        )


def _area(piece: LivePiece, axis: TimeAxis) -> float:
    left, right = axis.interval(piece)
    return (right - left) * piece.size_bytes


def _draw_curve(axes: Axes, axis: TimeAxis, scale: PlotScale) -> None:
    """Draw the live bytes of each tick, dark with a light outline; the line is thinner if there are
    many calls."""
    live = axis.timeline.live_bytes.tolist()
    live.append(live[-1])
    ends = np.cumsum([0, 1, *(stretch.calls for stretch in axis.timeline.stretches), 1]).tolist()
    for color, wider, order in (("#ffffff", 2.4, 3), (INK, 1.0, 4)):
        for first, end in pairwise(ends):
            xs, ys = axis.places[first : end + 1], live[first : end + 1]
            call_points = scale.column_points * (xs[-1] - xs[0]) / (end - first)
            width = wider * min(1.5, max(0.5, call_points / 6))
            axes.plot(xs, ys, color=color, linewidth=width, drawstyle="steps-post", zorder=order)


def _draw_levels(axes: Axes, axis: TimeAxis, budget_bytes: int | None) -> None:
    """Draw the peak of live bytes and its tick, the arena if it is higher, and the budget."""
    use = axis.timeline
    peak, tick = use.peak_bytes, use.peak_tick
    words = f"peak {number(peak)} bytes, {use.when(tick)}"
    if use.height_bytes > peak:
        words += f"; {use.memory or 'arena'} {number(use.height_bytes)} bytes"
        axes.axhline(use.height_bytes, color=MUTED, linewidth=0.8, zorder=4)
    axes.axhline(peak, color=PEAK, linewidth=1.0, linestyle=(0, (5, 2.5)), zorder=4.5)
    middle = float(axis.places[tick : tick + 2].mean())
    axes.plot([middle], [peak], "o", color=PEAK, markersize=5, zorder=6, clip_on=False)
    _write(axes, words, 1.0, max(peak, use.height_bytes), PEAK)
    if budget_bytes is not None:
        _draw_budget(axes, budget_bytes)


def _draw_budget(axes: Axes, budget_bytes: int) -> None:
    top = axes.get_ylim()[1]
    words = f"budget {number(budget_bytes)} bytes"
    if budget_bytes > top:
        _write(axes, f"{words}, above this figure", 0.0, 0.95 * top, BUDGET)
        return
    axes.axhline(
        budget_bytes, color=BUDGET, linewidth=1.2, linestyle=(0, (7, 2, 1.5, 2)), zorder=4.5
    )
    _write(axes, words, 0.0, budget_bytes, BUDGET)


def _write(axes: Axes, words: str, x: float, y_bytes: float, color: str) -> None:
    """Write text on a level, at the left (x = 0) or right (x = 1) end of the axes."""
    axes.annotate(
        words,
        (x, y_bytes),
        xycoords=axes.get_yaxis_transform(),
        xytext=(4 if x == 0 else -4, 3),
        textcoords="offset points",
        ha="left" if x == 0 else "right",
        va="bottom",
        color=color,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.8},
        zorder=7,
    )


def _draw_legend(axes: Axes, spans: tuple[MemorySpan, ...], bottom: float) -> None:
    """Draw one line at the top: the kinds of buffers that occur, and the curve. `bottom` is a
    fraction of the axes' height."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    kinds = {span.kind for span in spans}
    patches = [
        Patch(facecolor=paint.face, edgecolor=paint.edge, linewidth=0.8, label=paint.legend)
        for kind, paint in PAINTS.items()
        if kind in kinds
    ]
    curve = Line2D([], [], color=INK, linewidth=1.5, label="live bytes")
    axes.legend(
        handles=[*patches, curve],
        loc="lower left",
        bbox_to_anchor=(0.0, bottom),
        borderaxespad=0.0,
        borderpad=0.0,
        handlelength=1.4,
        columnspacing=1.6,
        ncols=len(patches) + 1,
        frameon=False,
    )
