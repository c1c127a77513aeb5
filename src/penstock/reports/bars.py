"""Rectangles and lines drawn as collections, because drawing each one separately is slow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Bar(NamedTuple):
    """A rectangle in data coordinates, given by its corner of least coordinates and its size."""

    x: float
    y: float
    width: float
    height: float
    color: str


def draw_bars(axes: Axes, bars: Sequence[Bar], zorder: float = 1) -> None:
    """Draw rectangles; later ones cover earlier ones."""
    from matplotlib.collections import PolyCollection

    corners = [
        [(b.x, b.y), (b.x + b.width, b.y), (b.x + b.width, b.y + b.height), (b.x, b.y + b.height)]
        for b in bars
    ]
    colors = [b.color for b in bars]
    axes.add_collection(PolyCollection(corners, color=colors, zorder=zorder), autolim=False)


def draw_uprights(axes: Axes, lines: Sequence[tuple[float, float, float]], **style: object) -> None:
    """Draw vertical lines, each given by x, lower y and upper y."""
    from matplotlib.collections import LineCollection

    ends = [[(x, y), (x, below)] for x, y, below in lines]
    axes.add_collection(LineCollection(ends, **style), autolim=False)  # pyright: ignore[reportArgumentType]
