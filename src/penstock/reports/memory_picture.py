"""The memory picture as a file: an SVG element for a page, or a PNG; the same bytes every time.

A pointer that rests on a block shows the buffer's whole name, its addresses and its steps.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping
from html import escape
from typing import Any

from penstock.reports.formats import first_name, number
from penstock.reports.memory_figure import SPANS_ID, memory_figure
from penstock.reports.paint import INK, MUTED, PAINTS
from penstock.reports.report import Span

_SETTINGS = {
    "svg.hashsalt": "penstock",  # else ids are random
    "svg.fonttype": "none",  # text stays text
    "text.parse_math": False,  # a dollar in a name is a dollar
    "font.size": 8.5,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
}


def memory_svg(spans: tuple[Span, ...], steps: int, budget_bytes: int | None = None) -> str:
    """The arena over `steps` steps as an SVG element.  `budget_bytes`: what the arena may take."""
    silent: dict[str, None] = {"Date": None, "Creator": None, "Format": None, "Type": None}
    text = _drawn(spans, steps, budget_bytes, "svg", silent).decode()
    return _with_titles(text[text.index("<svg") :], spans, steps)


def memory_png(spans: tuple[Span, ...], steps: int, budget_bytes: int | None = None) -> bytes:
    """The same picture as PNG."""
    return _drawn(spans, steps, budget_bytes, "png", {"Software": None})


def _drawn(
    spans: tuple[Span, ...],
    steps: int,
    budget_bytes: int | None,
    format: str,
    metadata: Mapping[str, None],
) -> bytes:
    """The file of the figure, whatever settings of matplotlib the user has."""
    import matplotlib

    defaults = matplotlib.rcParamsDefault.items()
    settings: dict[Any, Any] = {k: v for k, v in defaults if k != "backend"}
    settings.update(_SETTINGS)
    stream = io.BytesIO()
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        # Text stays text, so it does not matter which letters the fonts of this machine lack.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure = memory_figure(spans, steps, budget_bytes)
        figure.savefig(stream, format=format, dpi=144, metadata=metadata)
    return stream.getvalue()


def _with_titles(svg: str, spans: tuple[Span, ...], steps: int) -> str:
    """The picture with a title in each block, which browsers show under the pointer.

    The blocks are the paths of one group, in the order of the spans."""
    opening = f'<g id="{SPANS_ID}">'
    if not spans or opening not in svg:
        return svg
    head, rest = svg.split(opening, 1)
    group, tail = rest.split("</g>", 1)
    *paths, end = group.split("/>")
    titled = (
        f"{path}><title>{escape(_title(span, steps))}</title></path>"
        for path, span in zip(paths, spans, strict=True)
    )
    return f"{head}{opening}{''.join(titled)}{end}</g>{tail}"


def _title(span: Span, steps: int) -> str:
    size = number(span.upper_byte - span.lower_byte)
    first = "in" if span.first_step < 0 else str(span.first_step)
    last = "out" if span.last_step >= steps else str(span.last_step)
    return (
        f"{first_name(span.name)}: {size} bytes [{number(span.lower_byte)}, "
        f"{number(span.upper_byte)}), steps {first} to {last}, {PAINTS[span.kind].legend}"
    )
