"""The cascade figure: the layers from top to bottom, with cascades as boxes.

      o  0  Conv2D  conv1    +--- cascade 0: 224 calls, 2 rows or fewer at a time -----+
    / o  1  Conv2D  conv2    |   ###======                            1,024 of 16,384  |
    \\ o  2  Add     add      |   ##=======                              512 of 16,384  |
      o  3  Mean    mean     +---------------------------------------------------------+

A dot is a layer. A line connects it with the next layer if that layer reads it; arcs lead to later
readers. A bar is a layer's output; its dark part is the maximum that is live at a time. With
several engines, a column names the engine, and squares in its colour replace the dots of an
accelerator's layers. matplotlib is imported only when a figure is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import sqrt
from typing import TYPE_CHECKING

from penstock.reports.bars import Bar, draw_bars, draw_uprights
from penstock.reports.formats import cut, number, printable, short_names
from penstock.reports.paint import (
    CASCADE,
    CASCADE_EDGE,
    INK,
    MUTED,
    PAINTS,
    PROCESSOR,
    accelerator_colors,
)
from penstock.reports.picture import png, svg
from penstock.reports.report import LayerReport
from penstock.reports.timeline import MemorySpan, Timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Horizontal positions, widths and heights, in points.
_ARCS, _STEP, _KIND, _NAME, _CALLS, _BAR, _BYTES, _WIDTH = 84, 112, 120, 215, 395, 410, 700, 800
_PITCH, _MARGIN, _BAR_HEIGHT = 13.0, 10.0, 7.0
_KIND_LETTERS, _NAME_LETTERS, _ENGINE_LETTERS = 18, 30, 13
_ENGINE, _ENGINE_WIDTH = 372, 78  # position of the engine column; shift of the columns after it
_DARK = PAINTS["arena"].edge


def graph_svg(layers: Sequence[LayerReport], timelines: Sequence[Timeline]) -> str:
    """Return the figure as an SVG element."""
    return svg(lambda: graph_figure(layers, timelines))


def graph_png(layers: Sequence[LayerReport], timelines: Sequence[Timeline]) -> bytes:
    """Return the same figure as PNG."""
    return png(lambda: graph_figure(layers, timelines))


def graph_figure(layers: Sequence[LayerReport], timelines: Sequence[Timeline]) -> Figure:
    """Draw the layers in order. `timelines` of all memories provide the live part of each
    output."""
    from matplotlib.figure import Figure

    several = has_engines(layers)
    shift = _ENGINE_WIDTH if several else 0
    height = 2 * _MARGIN + _PITCH * (len(layers) + 2 * len(_cascades(layers)) + 1)
    figure = Figure(figsize=((_WIDTH + shift) / 72, height / 72))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, _WIDTH + shift)
    axes.set_ylim(height, 0)
    axes.set_axis_off()
    heights = _heights(layers)
    _draw_heads(axes, shift)
    _draw_cascades(axes, layers, heights, shift)
    _draw_layers(axes, layers, heights, shift)
    if several:
        _draw_engines(axes, layers, heights)
    _draw_edges(axes, layers, heights)
    spans = {span.name: span for timeline in timelines for span in timeline.spans}
    _draw_bars(axes, layers, heights, spans, shift)
    return figure


def has_engines(layers: Sequence[LayerReport]) -> bool:
    """Return whether an accelerator runs any of the layers."""
    return any(layer.offloaded for layer in layers)


def _cascades(layers: Sequence[LayerReport]) -> list[list[int]]:
    """Return the indices of the layers of each cascade."""
    groups = groupby(range(len(layers)), key=lambda place: layers[place].cascade)
    return [list(places) for cascade, places in groups if cascade is not None]


def _heights(layers: Sequence[LayerReport]) -> list[float]:
    """Return the vertical position of each layer. A cascade has space for a title above it and half
    a line below it."""
    found: list[float] = []
    at, before = _MARGIN + 1.5 * _PITCH, None
    for layer in layers:
        if layer.cascade != before:
            at += 0.5 * _PITCH * (before is not None) + 1.5 * _PITCH * (layer.cascade is not None)
        found.append(at)
        at, before = at + _PITCH, layer.cascade
    return found


def _draw_heads(axes: Axes, shift: float) -> None:
    y = _MARGIN + 0.3 * _PITCH
    for x, words, side in (
        (_STEP, "step", "right"),
        (_KIND, "operator", "left"),
        (_NAME, "name", "left"),
        *(((_ENGINE, "engine", "left"),) if shift else ()),
        (_CALLS + shift, "calls", "right"),
        (_BAR + shift, "output: live bytes at most, of total", "left"),
    ):
        axes.text(x, y, words, ha=side, va="center", color=MUTED)


def _draw_cascades(
    axes: Axes, layers: Sequence[LayerReport], heights: list[float], shift: float
) -> None:
    from matplotlib.patches import FancyBboxPatch

    left, right = _ARCS - 10, _WIDTH + shift - _MARGIN
    for places in _cascades(layers):
        top, bottom = heights[places[0]] - 1.9 * _PITCH, heights[places[-1]] + 0.7 * _PITCH
        box = FancyBboxPatch(
            (left, top),
            right - left,
            bottom - top,
            boxstyle="round,pad=0,rounding_size=5",
            facecolor=CASCADE,
            edgecolor=CASCADE_EDGE,
            linewidth=0.9,
            zorder=0,
        )
        axes.add_patch(box)
        words = _title([layers[place] for place in places])
        axes.text(_KIND, top + 0.7 * _PITCH, words, va="center", fontweight="bold", fontsize=8)


def _title(layers: Sequence[LayerReport]) -> str:
    rows = max(layer.rows or 1 for layer in layers)
    calls = sum(layer.calls for layer in layers)
    height = "row by row" if rows == 1 else f"stripes of at most {rows} rows"
    return f"cascade {layers[0].cascade}: {height}, {number(calls)} calls"


def _draw_layers(
    axes: Axes, layers: Sequence[LayerReport], heights: list[float], shift: float
) -> None:
    names = short_names(layer.name for layer in layers)
    for layer, y in zip(layers, heights, strict=True):
        step = "–" if layer.step is None else str(layer.step)
        axes.text(_STEP, y, step, ha="right", va="center")
        axes.text(_KIND, y, cut(printable(layer.kind), _KIND_LETTERS), va="center")
        axes.text(_NAME, y, cut(names[layer.name], _NAME_LETTERS), va="center")
        axes.text(_CALLS + shift, y, number(layer.calls), ha="right", va="center")
    axes.plot([_ARCS] * len(layers), heights, "o", color=INK, markersize=3.5, zorder=3)


def _draw_engines(axes: Axes, layers: Sequence[LayerReport], heights: list[float]) -> None:
    """Write the engine of each layer, and draw squares over the dots of accelerators' layers."""
    colors = accelerator_colors(layer.engine for layer in layers if layer.offloaded)
    squares: dict[str, list[float]] = {}
    for layer, y in zip(layers, heights, strict=True):
        name = cut(printable(layer.engine), _ENGINE_LETTERS)
        color = colors.get(layer.engine, PROCESSOR)
        axes.text(_ENGINE, y, name, va="center", color=color)
        if layer.offloaded:
            squares.setdefault(color, []).append(y)
    for color, at in squares.items():
        axes.plot([_ARCS] * len(at), at, "s", color=color, markersize=6.0, zorder=4)


def _draw_edges(axes: Axes, layers: Sequence[LayerReport], heights: list[float]) -> None:
    """Draw a line to the next layer and arcs to later ones. Inputs of the caller come from
    above."""
    straight: list[tuple[float, float, float]] = []
    for place, layer in enumerate(layers):
        for source in layer.reads:
            above = heights[source] if source >= 0 else _MARGIN + 0.3 * _PITCH
            if place - source == 1:
                straight.append((_ARCS, above, heights[place]))
            else:
                _draw_arc(axes, above, heights[place])
    draw_uprights(axes, straight, color=INK, linewidth=1.0)


def _draw_arc(axes: Axes, above: float, below: float) -> None:
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    left = _ARCS - min(_ARCS - _MARGIN, 5.0 * sqrt(below - above) - 10.0)
    curve = [(_ARCS, above), (left, above), (left, below), (_ARCS - 2.5, below)]
    codes = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
    arrow = FancyArrowPatch(
        path=Path(curve, codes),
        arrowstyle="-|>,head_length=3,head_width=1.6",
        color=_DARK,
        linewidth=1.0,
        zorder=2,
    )
    axes.add_patch(arrow)


def _draw_bars(
    axes: Axes,
    layers: Sequence[LayerReport],
    heights: list[float],
    spans: dict[str, MemorySpan],
    shift: float,
) -> None:
    """Draw a bar for each output; the dark part is the maximum that is live at a time. An update
    writes a state, which is always live."""
    left = _BAR + shift
    totals = [layer.written_bytes for layer in layers]
    points = (_BYTES - _BAR - 14) / max(totals, default=1)
    bars: list[Bar] = []
    for layer, y, total in zip(layers, heights, totals, strict=True):
        live = spans[layer.name].most_bytes if layer.name in spans else total
        for size, color in ((total, PAINTS["arena"].face), (live, _DARK)):
            bars.append(Bar(left, y - _BAR_HEIGHT / 2, points * size, _BAR_HEIGHT, color))
        words = number(total) if live == total else _live_share(live, total)
        axes.text(left + points * total + 4, y, words, va="center", color=INK, fontsize=7.5)
    draw_bars(axes, bars)


def _live_share(live: int, total: int) -> str:
    return f"{number(live)} of {number(total)}"
