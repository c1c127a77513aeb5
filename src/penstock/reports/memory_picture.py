"""The memory picture as a file: an SVG element for a page, or a PNG.

A pointer that rests on a block shows the tensor's whole name, its addresses and its life.
"""

from __future__ import annotations

from penstock.reports.formats import first_name, number
from penstock.reports.memory_figure import SPANS_ID, memory_figure
from penstock.reports.paint import PAINTS
from penstock.reports.picture import png, svg, with_titles
from penstock.reports.timeline import Span, Timeline


def memory_svg(timeline: Timeline, budget_bytes: int | None = None) -> str:
    """The arena over time as an SVG element.  `budget_bytes`: what the arena may take."""
    drawn = svg(lambda: memory_figure(timeline, budget_bytes))
    return with_titles(drawn, SPANS_ID, [_title(span, timeline) for span in timeline.spans])


def memory_png(timeline: Timeline, budget_bytes: int | None = None) -> bytes:
    """The same picture as PNG."""
    return png(lambda: memory_figure(timeline, budget_bytes))


def _title(span: Span, timeline: Timeline) -> str:
    places = f"[{number(span.lower_byte)}, {number(span.upper_byte)})"
    first, last = timeline.when(span.born), timeline.when(span.dead - 1)
    life = f"{first} to {last}"
    name, kind = first_name(span.name), PAINTS[span.kind].legend
    if len(span.pieces) == 1:
        return f"{name}: {number(span.most_bytes)} bytes {places}, {life}, {kind}"
    most = f"at most {number(span.most_bytes)} bytes at a time, in {places}"
    return f"{name}, row by row: {most}, {life}, {kind}"
