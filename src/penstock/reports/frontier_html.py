"""frontier.html: a self-contained page with the figure and tables of the Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.reports import formats
from penstock.reports.frontier import FrontierPoint, FrontierReport
from penstock.reports.frontier_figure import frontier_svg
from penstock.reports.html import Figure, page


@dataclass(frozen=True, slots=True)
class Series:
    """A table of points with a heading. `chosen` is the index of the selected point."""

    heading: str
    choices: Sequence[FrontierPoint]
    chosen: int | None


def render_frontier(choices: FrontierReport) -> bytes:
    """Return the page."""
    return page(
        "frontier.html.j2",
        model=formats.printable(choices.model),
        target=formats.printable(choices.target),
        all=choices,
        figures=_figures(choices),
        picture=frontier_svg(choices),
        series=_series(choices),
        elsewhere=any(choice.static_bytes for choice in choices.choices),
        memories=[moved.memory for moved in choices.choices[0].moved],
        slowdown=choices.slowdown,
        factor=choices.factor,
        striped=formats.striped,
    )


def _series(choices: FrontierReport) -> list[Series]:
    kind = "streamed" if choices.stream_input else "an array in RAM"
    found = [Series(f"Points, input {kind}", choices.choices, choices.chosen)]
    if choices.streamed is not None:
        found.append(
            Series("Points, input streamed (scheduled separately)", choices.streamed, None)
        )
    return found


def _figures(choices: FrontierReport) -> tuple[Figure, ...]:
    first, last = choices.choices[0], choices.choices[-1]
    found = [_figure("Least RAM", choices, first), _figure("Fastest", choices, last)]
    if choices.chosen is None:
        note = f"budget {formats.number(choices.limit_bytes)} bytes"
        found.insert(0, Figure("Chosen", "none", "fits", (note,)))
    else:
        found.insert(0, _figure("Chosen", choices, choices.choices[choices.chosen]))
    if choices.streamed:
        found.append(_figure("Least RAM, input streamed", choices, choices.streamed[0]))
    return tuple(found)


def _figure(label: str, choices: FrontierReport, choice: FrontierPoint) -> Figure:
    above = f"{100 * choices.slowdown(choice):.3g} % above the fastest"
    calls = f"{formats.number(choice.calls)} calls"
    return Figure(label, formats.number(choice.ram_bytes), "bytes", (above, calls))
