"""The page of an exploration as data: all that frontier.html shows."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.reports.command import CompileCommand
from penstock.reports.formats import kib, number, printable, striped
from penstock.reports.frontier import FrontierPoint, FrontierReport
from penstock.reports.goal import GOALS, goal_words
from penstock.reports.page.records import (
    FrontierData,
    KeyFigure,
    PageData,
    PointData,
    SeriesData,
)


def frontier_data(found: FrontierReport) -> PageData:
    """Return the data of an exploration."""
    command = found.command
    kind = "streamed" if found.stream_input else "an array in RAM"
    series = [_series(found, f"input {kind}", found.choices, command, found.chosen)]
    if found.streamed is not None:
        streamed = command.with_options("--stream-input")
        series.append(_series(found, "input streamed", found.streamed, streamed, None))
    goal = GOALS[found.optimize.value]
    return PageData(
        title=printable(found.model),
        subtitle=f"memory against cycles on {printable(found.target)}, by {found.compiler}",
        provenance=(f"selected: {goal_words(found)}",),
        warning="",
        command=printable(str(command)),
        figures=_figures(found),
        frontier=FrontierData(tuple(series), found.limit_bytes, goal),
        notes=(
            "RAM is the arena with inputs and outputs, the static bytes of other memories, and "
            f"{number(found.stack_bytes)} bytes of stack. Live: peak of the live bytes in the "
            "arena, below which no placement of this schedule lies.",
            "F: multiply-accumulates executed, relative to the model's "
            f"{number(found.macs)}. Bytes are those of the regions that kernels access. A cascade "
            "is written as layers × maximum rows per stripe; layers outside of cascades run whole.",
        ),
    )


def _series(
    found: FrontierReport,
    label: str,
    points: Sequence[FrontierPoint],
    command: CompileCommand,
    chosen: int | None,
) -> SeriesData:
    return SeriesData(
        label,
        tuple(
            PointData(
                point.ram_bytes,
                point.cycles,
                point.macs_executed,
                index == chosen,
                printable(str(command.selecting(point.ram_bytes))),
                point.arena_bytes,
                point.static_bytes,
                point.live_bytes,
                point.gap_bytes,
                point.calls,
                round(found.factor(point), 4),
                {
                    printable(moved.memory): (moved.read_bytes, moved.written_bytes)
                    for moved in point.moved
                },
                striped(point.cascades),
            )
            for index, point in enumerate(points)
        ),
    )


def _figures(found: FrontierReport) -> tuple[KeyFigure, ...]:
    first, last = found.choices[0], found.choices[-1]
    figures = [_figure("Least RAM", found, first), _figure("Fastest", found, last)]
    if found.chosen is None:
        note = f"budget {number(found.limit_bytes)} bytes"
        figures.insert(0, KeyFigure("Chosen", "none", "fits", (note,)))
    else:
        figures.insert(0, _figure("Chosen", found, found.choices[found.chosen]))
    if found.streamed:
        figures.append(_figure("Least RAM, input streamed", found, found.streamed[0]))
    return tuple(figures)


def _figure(label: str, found: FrontierReport, point: FrontierPoint) -> KeyFigure:
    above = f"{100 * found.slowdown(point):.3g} % above the fastest"
    notes = (kib(point.ram_bytes), above, f"{number(point.calls)} calls")
    return KeyFigure(label, number(point.ram_bytes), "bytes", notes)
