"""The memory figure: blocks, curve and levels of the memory picture, drawn with matplotlib.

    bytes ^   +-------+                      a block is a buffer: as wide as the steps in which it
          |   |   b   +--------+             lives, as high as its bytes; the curve is the sum of
          | +-+---+   |   c    |             what lives at a step, and its highest point the peak
          | |  a  |   +--------+
          +-+-----+------------+--> steps

The x axis has a column for every step, one before them in which the caller writes the input, and
one behind them in which it reads the output.  matplotlib is imported only when a figure is drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.reports.block_label import Scale, block_label
from penstock.reports.formats import number, short_names
from penstock.reports.occupancy import Occupancy, occupancy
from penstock.reports.paint import BUDGET, INK, MUTED, PAINTS, PEAK
from penstock.reports.report import Span

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SPANS_ID = "spans"
# Margins of the axes and height of the whole, in points (1/72 inch).
_LEFT, _RIGHT, _BOTTOM, _TOP = 58.0, 26.0, 38.0, 28.0
_HEIGHT = 400.0
_NARROWEST, _WIDEST, _COLUMN = 480.0, 940.0, 74.0
_MOST_LABELLED_STEPS = 150


def memory_figure(spans: tuple[Span, ...], steps: int, budget_bytes: int | None = None) -> Figure:
    """The arena over `steps` steps.  `budget_bytes`: what the arena may take."""
    from matplotlib.figure import Figure

    use = occupancy(spans, steps)
    columns = steps + 2
    width = min(_WIDEST, max(_NARROWEST, _LEFT + _RIGHT + _COLUMN * columns))
    inner_width, inner_height = width - _LEFT - _RIGHT, _HEIGHT - _BOTTOM - _TOP
    figure = Figure(figsize=(width / 72, _HEIGHT / 72))
    axes = figure.add_axes(
        (_LEFT / width, _BOTTOM / _HEIGHT, inner_width / width, inner_height / _HEIGHT)
    )
    top = _top_bytes(use, budget_bytes)
    _draw_axes(axes, steps, top)
    _draw_blocks(axes, spans, inner_width / columns)
    if steps <= _MOST_LABELLED_STEPS:
        scale = Scale(inner_width / columns, inner_height / top)
        _draw_labels(axes, spans, scale, use)
    _draw_curve(axes, use, inner_width / columns)
    _draw_levels(axes, use, steps, budget_bytes)
    _draw_legend(axes, spans)
    return figure


def _top_bytes(use: Occupancy, budget_bytes: int | None) -> float:
    """Where the y axis ends: above the arena, and above the budget if that is near."""
    highest = max(1, use.height_bytes)
    if budget_bytes is not None and budget_bytes <= 1.5 * highest:
        highest = max(highest, budget_bytes)
    return 1.1 * highest


def _draw_axes(axes: Axes, steps: int, top: float) -> None:
    axes.set_xlim(-1, steps + 1)
    axes.set_ylim(0, top)
    _draw_steps(axes, steps)
    unit = _byte_unit(top)
    ticks = range(0, int(top) + 1, unit)
    divisor, name = (1024, "KiB") if unit >= 1024 else (1, "bytes")
    axes.set_yticks(list(ticks), [number(tick // divisor) for tick in ticks])
    axes.set_ylabel(f"address in the arena, {name}", labelpad=4)
    axes.tick_params(length=3, width=0.7)
    axes.grid(axis="y", color="#e3e7eb", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_steps(axes: Axes, steps: int) -> None:
    """Numbers below the columns, as many as are readable, between "in" and "out"."""
    stride = _stride(steps)
    first = 0 if stride <= 2 else stride
    shown = [k for k in range(first, steps, stride) if k == 0 or k + 0.6 * stride <= steps]
    at = [-0.5, *(k + 0.5 for k in shown), steps + 0.5]
    axes.set_xticks(at, ["in", *map(str, shown), "out"])
    axes.set_xlabel("step", labelpad=2)
    if stride > 1:  # narrow columns: the words stand outside, clear of the numbers
        labels = axes.get_xticklabels()
        labels[0].set_horizontalalignment("right")
        labels[-1].set_horizontalalignment("left")


def _stride(steps: int) -> int:
    """Steps from one number of the x axis to the next: 1, 2 or 5 times a power of ten."""
    return next(
        digit * 10**power
        for power in range(steps + 1)
        for digit in (1, 2, 5)
        if steps <= 36 * digit * 10**power
    )


def _byte_unit(top: float) -> int:
    """Bytes from one number of the y axis to the next: a power of two."""
    unit = 1
    while top / unit > 9:
        unit *= 2
    return unit


def _draw_blocks(axes: Axes, spans: tuple[Span, ...], column_points: float) -> None:
    """Every span once, in order, as one collection: an object for each would cost much more."""
    from matplotlib.collections import PolyCollection

    paints = [PAINTS[span.kind] for span in spans]
    width = min(0.8, 0.08 * column_points)
    blocks = PolyCollection(
        [_corners(span) for span in spans],
        facecolors=[paint.face for paint in paints],
        edgecolors=[paint.edge for paint in paints],
        # Two widths, equal as they are: else a single block would be written as a marker.
        linewidths=[width, width],
        clip_on=False,
        zorder=2,
        antialiaseds=[True, True],  # with one entry, a single block would be drawn as a marker
    )
    blocks.set_gid(SPANS_ID)
    axes.add_collection(blocks, autolim=False)


def _corners(span: Span) -> list[tuple[float, float]]:
    left, right = span.first_step, span.last_step + 1
    lower, upper = span.lower_byte, span.upper_byte
    return [(left, lower), (right, lower), (right, upper), (left, upper)]


def _draw_labels(axes: Axes, spans: tuple[Span, ...], scale: Scale, use: Occupancy) -> None:
    """Short names in the blocks that are large enough; on a plate where the curve cannot be
    avoided."""
    names = short_names(span.name for span in spans if span.kind != "scratch")
    for span in spans:
        name = names.get(span.name, "scratch")
        note = number(span.upper_byte - span.lower_byte)
        label = block_label(span, name, note, scale, use)
        if label is None:
            continue
        face = PAINTS[span.kind].face
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


def _draw_curve(axes: Axes, use: Occupancy, column_points: float) -> None:
    """Live bytes at each step, dark on a light seam so that it stands out from the blocks."""
    xs = range(-1, len(use.live_bytes))
    ys = (*use.live_bytes, use.live_bytes[-1])
    width = min(1.5, max(0.6, column_points / 6))
    for color, points, order in (("#ffffff", 2.4 * width, 3), (INK, width, 4)):
        axes.plot(xs, ys, color=color, linewidth=points, drawstyle="steps-post", zorder=order)


def _draw_levels(axes: Axes, use: Occupancy, steps: int, budget_bytes: int | None) -> None:
    """The peak of live bytes with its step; the arena where it is higher; the budget."""
    peak, step = use.peak_bytes, use.peak_step
    words = f"peak {number(peak)} bytes, {_where(step, steps)}"
    if use.height_bytes > peak:
        words += f"; arena {number(use.height_bytes)} bytes"
        axes.axhline(use.height_bytes, color=MUTED, linewidth=0.8, zorder=4)
    axes.axhline(peak, color=PEAK, linewidth=1.0, linestyle=(0, (5, 2.5)), zorder=4.5)
    axes.plot([step + 0.5], [peak], "o", color=PEAK, markersize=5, zorder=6, clip_on=False)
    _write(axes, words, 1.0, max(peak, use.height_bytes), PEAK)
    if budget_bytes is not None:
        _draw_budget(axes, budget_bytes)


def _where(step: int, steps: int) -> str:
    return "before the run" if step < 0 else "after the run" if step == steps else f"step {step}"


def _draw_budget(axes: Axes, budget_bytes: int) -> None:
    top = axes.get_ylim()[1]
    words = f"budget {number(budget_bytes)} bytes"
    if budget_bytes > top:
        _write(axes, f"{words}, above this picture", 0.0, 0.95 * top, BUDGET)
        return
    axes.axhline(
        budget_bytes, color=BUDGET, linewidth=1.2, linestyle=(0, (7, 2, 1.5, 2)), zorder=4.5
    )
    _write(axes, words, 0.0, budget_bytes, BUDGET)


def _write(axes: Axes, words: str, x: float, y_bytes: float, color: str) -> None:
    """Words on a level, at the left (x = 0) or right (x = 1) end of the axes."""
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


def _draw_legend(axes: Axes, spans: tuple[Span, ...]) -> None:
    """One line above the axes: the kinds that occur, and the curve."""
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
        bbox_to_anchor=(0.0, 1.01),
        borderaxespad=0.0,
        borderpad=0.0,
        handlelength=1.4,
        columnspacing=1.6,
        ncols=len(patches) + 1,
        frameon=False,
    )
