"""The memory figure as a file: an SVG element for a page, or a PNG.

Hovering over a block of the SVG shows the tensor's full name, its addresses and its live range.
"""

from __future__ import annotations

from penstock.reports.formats import first_name, number
from penstock.reports.memory_figure import SPANS_ID, memory_figure
from penstock.reports.paint import PAINTS
from penstock.reports.picture import png, svg, with_titles
from penstock.reports.timeline import MemorySpan, Timeline


def memory_svg(timeline: Timeline, budget_bytes: int | None = None) -> str:
    """Return a memory over time as an SVG element. `budget_bytes` is the maximum size of the
    arena."""
    drawn = svg(lambda: memory_figure(timeline, budget_bytes))
    return with_titles(drawn, SPANS_ID, [_title(span, timeline) for span in timeline.spans])


def memory_png(timeline: Timeline, budget_bytes: int | None = None) -> bytes:
    """Return the same figure as PNG."""
    return png(lambda: memory_figure(timeline, budget_bytes))


def _title(span: MemorySpan, timeline: Timeline) -> str:
    places = f"[{number(span.lower_byte)}, {number(span.upper_byte)})"
    first, last = timeline.when(span.born), timeline.when(span.dead - 1)
    life = f"{first} to {last}"
    name, kind = first_name(span.name), PAINTS[span.kind].legend
    if len(span.pieces) == 1:
        return f"{name}: {number(span.most_bytes)} bytes {places}, {life}, {kind}"
    most = f"at most {number(span.most_bytes)} bytes at a time, in {places}"
    return f"{name}, row by row: {most}, {life}, {kind}"
