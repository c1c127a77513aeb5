"""Engine lanes: one lane per engine above the memory figure, filled while the engine runs.

npu     ######    ######          a turn is a run of consecutive calls on one engine;
cpu ####      ########            where engines alternate row by row, both lanes are hatched
    +-+-----+------------+--> columns
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.reports.formats import cut, printable
from penstock.reports.paint import INK, PROCESSOR, accelerator_colors
from penstock.reports.time_axis import TimeAxis
from penstock.reports.timeline import Timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PITCH, _HEIGHT, _LETTERS = 10.0, 7.5, 12  # points, points, maximum letters of a name
_GAP = 4.0  # points above the lanes
_GROUND = "#eef1f4"


def lanes(timeline: Timeline) -> tuple[str, ...]:
    """Return the engines that have lanes, bottom to top: the processor, then accelerators."""
    every = dict.fromkeys((turn.offloaded, turn.engine) for turn in timeline.turns)
    return tuple(engine for _, engine in sorted(every))


def lanes_points(timeline: Timeline) -> float:
    """Return the total height of the lanes in points."""
    count = len(lanes(timeline))
    return count * _PITCH + _GAP if count else 0.0


def draw_lanes(axes: Axes, axis: TimeAxis, bottom: float, point: float) -> None:
    """Draw the lanes from `bottom` upwards. Heights are fractions of the axes' height; `point` is
    the fraction of one point."""
    turns = axis.timeline.turns
    colors = accelerator_colors(turn.engine for turn in turns if turn.offloaded)
    transform = axes.get_xaxis_transform()
    for k, engine in enumerate(lanes(axis.timeline)):
        y, height = bottom + k * _PITCH * point, _HEIGHT * point
        mine = [(axis.places[t.begun], axis.places[t.ended]) for t in turns if t.engine == engine]
        for bars, color in (
            ([(-1.0, axis.columns)], _GROUND),
            ([(left, right - left) for left, right in mine], colors.get(engine, PROCESSOR)),
        ):
            axes.broken_barh(
                bars, (y, height), transform=transform, color=color, linewidth=0, clip_on=False
            )
        axes.annotate(
            cut(printable(engine), _LETTERS),
            (0, y + height / 2),
            xycoords="axes fraction",
            xytext=(-4, 0),
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize=7,
            color=INK,
            annotation_clip=False,
        )
