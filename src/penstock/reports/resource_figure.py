"""The resource figure: the cycles for which each layer uses each resource of an accelerator.

    step operator  name    cycles   0         5,000        10,000               multipliers used
       3 conv2d    conv1   10,416   #################       multipliers 9,216             11.1 %
                                    -----
                                    --
       5 add       sum      3,248   ###   windows 2,048                                        –

A group of bars is a layer. The thick bar is the limiting resource; a pale bar in the background
shows the total cycles. matplotlib is imported only when a figure is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.ir.breakdown import Breakdown
from penstock.reports.bars import Bar, draw_bars
from penstock.reports.formats import cut, number, printable, share_or_none, short_names
from penstock.reports.paint import MUTED, RESOURCES, WHOLE
from penstock.reports.picture import png, svg
from penstock.reports.report import LayerReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Horizontal positions, widths and heights, in points.
_STEP, _KIND, _NAME, _CYCLES, _BARS, _BARS_END, _USED, _WIDTH = 30, 38, 145, 330, 345, 620, 790, 800
_MARGIN, _LEGEND, _HEADS, _GAP = 10.0, 16.0, 22.0, 6.0
_THICK, _THIN = 7.0, 3.0
_KIND_LETTERS, _NAME_LETTERS = 20, 26
_TICKS = 5


def resource_svg(layers: Sequence[LayerReport]) -> str | None:
    """Return the figure as an SVG element, or None if no backend states a breakdown."""
    return svg(lambda: resource_figure(layers)) if _broken_down(layers) else None


def resource_png(layers: Sequence[LayerReport]) -> bytes | None:
    """Return the same figure as PNG."""
    return png(lambda: resource_figure(layers)) if _broken_down(layers) else None


def resource_figure(layers: Sequence[LayerReport]) -> Figure:
    """Draw the layers whose resources are known, in order."""
    from matplotlib.figure import Figure

    found = _broken_down(layers)
    colors = _colors([breakdown for _, breakdown in found])
    pitch = max(_height(breakdown) for _, breakdown in found) + _GAP
    top = _MARGIN + _LEGEND + _HEADS
    height = top + pitch * len(found) + _MARGIN
    figure = Figure(figsize=(_WIDTH / 72, height / 72))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, _WIDTH)
    axes.set_ylim(height, 0)
    axes.set_axis_off()
    most = max(breakdown.cycles for _, breakdown in found)
    scale = (_BARS_END - _BARS) / max(1, most)
    _draw_legend(axes, colors)
    _draw_heads(axes, most, scale, height - _MARGIN)
    names = short_names(layer.name for layer, _ in found)
    bars: list[Bar] = []
    for k, (layer, breakdown) in enumerate(found):
        at = top + k * pitch
        _draw_words(axes, layer, names[layer.name], at + _height(breakdown) / 2)
        _draw_limit(axes, breakdown, at, scale)
        bars += _bars(breakdown, colors, at, scale)
    draw_bars(axes, bars)
    return figure


def _broken_down(layers: Sequence[LayerReport]) -> list[tuple[LayerReport, Breakdown]]:
    """Return the layers for which the backend states a breakdown, with the breakdown."""
    found = ((layer, layer.breakdown) for layer in layers)
    return [(layer, needs) for layer, needs in found if needs is not None and needs.by_resource]


def _colors(needs: Sequence[Breakdown]) -> Mapping[str, str]:
    """Return the colour of each resource, by name."""
    names = sorted({name for breakdown in needs for name in breakdown.by_resource})
    return {name: RESOURCES[k % len(RESOURCES)] for k, name in enumerate(names)}


def _height(breakdown: Breakdown) -> float:
    """Return the height of a layer's group of bars."""
    return _THICK + _THIN * (len(breakdown.by_resource) - 1)


def _draw_legend(axes: Axes, colors: Mapping[str, str]) -> None:
    """Draw one line with a square and a name for each resource."""
    y, x = _MARGIN + _THICK / 2, float(_KIND)
    squares: list[Bar] = []
    for name, color in (*colors.items(), ("all cycles", WHOLE)):
        words = cut(printable(name), _KIND_LETTERS)
        squares.append(Bar(x, _MARGIN, _THICK, _THICK, color))
        axes.text(x + _THICK + 4, y, words, va="center")
        x += _THICK + 18 + 5.2 * len(words)
    draw_bars(axes, squares)


def _draw_heads(axes: Axes, most: float, scale: float, bottom: float) -> None:
    """Draw the column headings, and vertical lines at round numbers of cycles."""
    y = _MARGIN + _LEGEND + 0.4 * _HEADS
    for x, words, side in (
        (_STEP, "step", "right"),
        (_KIND, "operator", "left"),
        (_NAME, "name", "left"),
        (_CYCLES, "cycles", "right"),
        (_USED, "multipliers used", "right"),
    ):
        axes.text(x, y, words, ha=side, va="center", color=MUTED)
    for tick in _ticks(most):
        x = _BARS + tick * scale
        axes.plot([x, x], [y + 7, bottom], color=WHOLE, linewidth=0.6, zorder=0)
        axes.text(x, y, number(tick), ha="center", va="center", color=MUTED)


def _ticks(most: float) -> list[int]:
    """Return a few round numbers of cycles up to `most`.

    >>> _ticks(10416), _ticks(3)
    ([0, 2500, 5000, 7500, 10000], [0, 1, 2, 3])
    """
    steps = (digit * 10**power // 10 for power in range(15) for digit in (10, 20, 25, 50))
    step = next(step for step in steps if most / step <= _TICKS)
    return list(range(0, int(most) + 1, step))


def _draw_words(axes: Axes, layer: LayerReport, name: str, y: float) -> None:
    step = "–" if layer.step is None else str(layer.step)
    axes.text(_STEP, y, step, ha="right", va="center")
    axes.text(_KIND, y, cut(printable(layer.kind), _KIND_LETTERS), va="center")
    axes.text(_NAME, y, cut(name, _NAME_LETTERS), va="center")
    axes.text(_CYCLES, y, number(layer.cycles), ha="right", va="center")
    axes.text(_USED, y, share_or_none(layer.utilisation), ha="right", va="center")


def _draw_limit(axes: Axes, breakdown: Breakdown, top: float, scale: float) -> None:
    """Draw the limiting resource and its cycles to the right of a layer's bars."""
    limit, x = breakdown.limit, _BARS + breakdown.cycles * scale + 5
    assert limit is not None
    words = f"{cut(printable(limit), _KIND_LETTERS)} {number(round(breakdown.by_resource[limit]))}"
    axes.text(x, top + _height(breakdown) / 2, words, va="center", fontsize=7.5)


def _bars(
    breakdown: Breakdown, colors: Mapping[str, str], top: float, scale: float
) -> Iterator[Bar]:
    """Yield the bars of a layer: the total cycles, the limiting resource, then the others in
    order."""
    limit = breakdown.limit
    others = [name for name in breakdown.by_resource if name != limit]
    yield Bar(_BARS, top - 1, breakdown.cycles * scale, _height(breakdown) + 2, WHOLE)
    for k, name in enumerate((limit, *others)):
        assert name is not None
        lower = top + (_THICK + (k - 1) * _THIN if k else 0)
        height = _THICK if name == limit else _THIN - 0.6
        yield Bar(_BARS, lower, breakdown.by_resource[name] * scale, height, colors[name])
