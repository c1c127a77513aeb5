"""The frontier figure: cycles against memory.

    cycles ^  o                       dot: a point; step function: the cycles for a budget;
           |  +--o                    whisker to the left of a dot: overhead of placement;
           |     +----(o)             ring: the selected point
           |          +-----------o
           +------------|-----------> RAM
                      budget

matplotlib is imported only when a figure is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.reports.formats import number, striped
from penstock.reports.frontier import FrontierPoint, FrontierReport
from penstock.reports.paint import BUDGET, INK, MUTED, PAINTS, PEAK
from penstock.reports.picture import png, svg, with_titles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CHOICES_ID, STREAMED_ID = "choices", "streamed"
_WIDTH, _HEIGHT = 800.0, 430.0
_LEFT, _RIGHT, _BOTTOM, _TOP = 66.0, 20.0, 40.0, 30.0
_STREAMED = PAINTS["io"].edge
_ARRAY = PAINTS["arena"].edge
_KIB = 1024
_RING: Mapping[str, Any] = {
    "markersize": 10,
    "markeredgecolor": PEAK,
    "markerfacecolor": "none",
    "markeredgewidth": 1.6,
}
_LOGARITHMIC_FROM = 3.0
"""The memory axis is logarithmic if the largest value is at least this multiple of the smallest."""


def frontier_svg(choices: FrontierReport) -> str:
    """Return the frontier as an SVG element. Hovering over a dot shows its figures."""
    drawn = svg(lambda: frontier_figure(choices))
    for group, series in ((CHOICES_ID, choices.choices), (STREAMED_ID, choices.streamed or ())):
        titles = [_title(choices, choice) for choice in series]
        drawn = with_titles(drawn, group, titles, element="use")
    return drawn


def frontier_png(choices: FrontierReport) -> bytes:
    """Return the same figure as PNG."""
    return png(lambda: frontier_figure(choices))


def frontier_figure(choices: FrontierReport) -> Figure:
    """Draw cycles against memory."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH / 72, _HEIGHT / 72))
    axes = figure.add_axes(
        (
            _LEFT / _WIDTH,
            _BOTTOM / _HEIGHT,
            (_WIDTH - _LEFT - _RIGHT) / _WIDTH,
            (_HEIGHT - _BOTTOM - _TOP) / _HEIGHT,
        )
    )
    _draw_axes(axes, choices)
    if choices.streamed:
        _draw_series(axes, choices, choices.streamed, _STREAMED, STREAMED_ID)
    _draw_series(axes, choices, choices.choices, _ARRAY, CHOICES_ID)
    _draw_limit(axes, choices)
    _draw_words(axes, choices)
    _draw_legend(axes, choices)
    return figure


def _every(choices: FrontierReport) -> tuple[FrontierPoint, ...]:
    return (*choices.choices, *(choices.streamed or ()))


def _draw_axes(axes: Axes, choices: FrontierReport) -> None:
    """Set up the axes: RAM, and cycles relative to the fastest point, since differences may be
    small."""
    every = _every(choices)
    least, most = min(c.ram_bytes for c in every), max(c.ram_bytes for c in every)
    if most >= _LOGARITHMIC_FROM * least:
        axes.set_xscale("log", base=2)
        axes.set_xlim(least / 1.15, most * 1.25)
    else:
        margin = max(_KIB / 8, most - least) / 10
        axes.set_xlim(least - margin, most + margin)
    ticks = _ticks(*axes.get_xlim())
    axes.set_xticks(ticks, [number(tick // _KIB) for tick in ticks])
    axes.set_xticks([], minor=True)
    logarithmic = " (logarithmic)" if axes.get_xscale() == "log" else ""
    axes.set_xlabel(f"RAM in KiB: arena and stack{logarithmic}")
    lowest, highest = (100 * pick(map(choices.slowdown, every)) for pick in (min, max))
    height = max(highest - lowest, 1e-5)
    axes.set_ylim(lowest - 0.08 * height, lowest + 1.14 * height)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.4g} %")
    fastest = number(choices.fastest_cycles)
    axes.set_ylabel(f"estimated cycles above those of the fastest, {fastest}")
    axes.tick_params(length=3, width=0.7)
    axes.grid(color="#e3e7eb", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _ticks(least: float, most: float) -> list[int]:
    """Return a few round numbers between two sizes: 1 and 1.5 times powers of two on a logarithmic
    axis, or else multiples of a power of two KiB."""
    if most >= _LOGARITHMIC_FROM * least:
        powers = [_KIB << k for k in range(24)]
        found = sorted({*powers, *(power * 3 // 2 for power in powers[1:])})
        shown = [tick for tick in found if least <= tick <= most]
        return shown if len(shown) <= 12 else [tick for tick in powers if least <= tick <= most]
    unit = next(_KIB << k for k in range(24) if (most - least) / (_KIB << k) <= 10)
    return list(range(-(-int(least) // unit) * unit, int(most) + 1, unit))


def _draw_series(
    axes: Axes, choices: FrontierReport, series: Sequence[FrontierPoint], color: str, group: str
) -> None:
    """Draw the dots of a series with their whiskers, and the step function of cycles for a
    budget."""
    from matplotlib.collections import LineCollection

    points = [_point(choices, choice) for choice in series]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    end = axes.get_xlim()[1]
    axes.plot(
        [*xs, end], [*ys, ys[-1]], color=color, linewidth=1.0, drawstyle="steps-post", zorder=2
    )
    gaps = [choice.gap_bytes for choice in series]
    whiskers = [[(x - gap, y), (x, y)] for (x, y), gap in zip(points, gaps, strict=True)]
    axes.add_collection(
        LineCollection(whiskers, colors=color, linewidths=3.0, alpha=0.35, zorder=1.5)
    )
    dots = axes.scatter(xs, ys, s=24, color=color, zorder=3, edgecolors="white", linewidths=0.6)
    dots.set_gid(group)


def _point(choices: FrontierReport, choice: FrontierPoint) -> tuple[float, float]:
    """Return the coordinates of a point: bytes of RAM, and per cent above the fastest."""
    return choice.ram_bytes, 100 * choices.slowdown(choice)


def _draw_limit(axes: Axes, choices: FrontierReport) -> None:
    """Draw the budget, if it is in the range of the axis, and a ring around the selected point."""
    least, most = axes.get_xlim()
    limit = choices.limit_bytes
    words = f"budget {number(limit)} bytes"
    if limit > most:
        _note(axes, most, f"{words}, to the right of this figure", "right")
    elif limit < least:
        _note(axes, least, f"{words}: nothing fits", "left")
    else:
        axes.axvline(limit, color=BUDGET, linewidth=1.2, linestyle=(0, (7, 2, 1.5, 2)), zorder=1)
        _note(axes, limit, words, "left" if limit < (least * most) ** 0.5 else "right")
    if choices.chosen is not None:
        x, y = _point(choices, choices.choices[choices.chosen])
        axes.plot([x], [y], "o", zorder=4, **_RING)


def _note(axes: Axes, x: float, words: str, side: str) -> None:
    """Draw text at the top, with its left or right `side` at x."""
    axes.annotate(
        words,
        (x, 1.0),
        xycoords=axes.get_xaxis_transform(),
        xytext=(5 if side == "left" else -5, -9),
        textcoords="offset points",
        ha=side,
        color=BUDGET,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.8},
        zorder=6,
    )


def _draw_words(axes: Axes, choices: FrontierReport) -> None:
    """Label the points of least memory, the fastest and the selected one with their bytes."""
    first, last = choices.choices[0], choices.choices[-1]
    streamed = choices.streamed or ()
    beside = bool(streamed) and streamed[0].ram_bytes > 0.8 * first.ram_bytes
    if streamed:
        _label(axes, choices, streamed[0], "least, input streamed", _STREAMED, (8, 4))
    if choices.chosen is not None and 0 < choices.chosen < len(choices.choices) - 1:
        _label(axes, choices, choices.choices[choices.chosen], "chosen", PEAK, (8, 8))
    _label(axes, choices, first, "least", INK, (8, -13) if beside else (8, 4))
    if last is not first:
        _label(axes, choices, last, "fastest", INK, (4, -15), side="right")


def _label(
    axes: Axes,
    choices: FrontierReport,
    choice: FrontierPoint,
    what: str,
    color: str,
    offset: tuple[int, int],
    *,
    side: str = "left",
) -> None:
    axes.annotate(
        f"{what}: {number(choice.ram_bytes)} bytes",
        _point(choices, choice),
        xytext=offset,
        textcoords="offset points",
        ha=side,
        color=color,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.8},
        zorder=5,
    )


def _draw_legend(axes: Axes, choices: FrontierReport) -> None:
    """Draw one line above the axes: the series, and the meaning of whiskers."""
    from matplotlib.lines import Line2D

    def dot(color: str, words: str) -> Line2D:
        return Line2D([], [], color=color, marker="o", markersize=5, linewidth=1.0, label=words)

    name = "input streamed" if choices.stream_input else "input an array in RAM"
    handles = [dot(_ARRAY, name)]
    if choices.streamed:
        handles.append(dot(_STREAMED, "input streamed"))
    handles.append(
        Line2D([], [], color=_ARRAY, linewidth=3.0, alpha=0.35, label="added by placement")
    )
    if choices.chosen is not None:
        handles.append(Line2D([], [], linestyle="none", marker="o", label="chosen", **_RING))
    axes.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.01),
        borderaxespad=0.0,
        borderpad=0.0,
        handlelength=1.6,
        columnspacing=1.6,
        ncols=len(handles),
        frameon=False,
        labelcolor=MUTED,
    )


def _title(choices: FrontierReport, choice: FrontierPoint) -> str:
    return (
        f"RAM {number(choice.ram_bytes)} bytes, arena {number(choice.arena_bytes)} "
        f"(live {number(choice.live_bytes)}), {number(choice.cycles)} cycles "
        f"({100 * choices.slowdown(choice):+.4f} %), {number(choice.calls)} calls, "
        f"cascades {striped(choice.cascades)}"
    )
