"""picture: a matplotlib figure as a file: an SVG element for a page, or a PNG; the same bytes every
time, whatever settings of matplotlib the user has.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from penstock.reports.paint import INK, MUTED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
_SILENT: Mapping[str, None] = {"Date": None, "Creator": None, "Format": None, "Type": None}


def svg(draw: Callable[[], Figure]) -> str:
    """The figure as an SVG element."""
    text = _drawn(draw, "svg", _SILENT).decode()
    return text[text.index("<svg") :]


def png(draw: Callable[[], Figure]) -> bytes:
    """The figure as PNG."""
    return _drawn(draw, "png", {"Software": None})


def with_titles(svg: str, group: str, titles: Sequence[str], element: str = "path") -> str:
    """The picture with titles, which browsers show under the pointer: in the first elements of the
    group of that id, in their order."""
    opening = f'<g id="{group}">'
    if not titles or opening not in svg:
        return svg
    head, rest = svg.split(opening, 1)
    *pieces, tail = re.split(f"(<{element} [^>]*)/>", rest, maxsplit=len(titles))
    titled = (
        f"{before}{begun}><title>{escape(title)}</title></{element}>"
        for before, begun, title in zip(pieces[::2], pieces[1::2], titles, strict=True)
    )
    return f"{head}{opening}{''.join(titled)}{tail}"


def _drawn(draw: Callable[[], Figure], format: str, metadata: Mapping[str, None]) -> bytes:
    import matplotlib

    defaults = matplotlib.rcParamsDefault.items()
    settings: dict[Any, Any] = {k: v for k, v in defaults if k != "backend"}
    settings.update(_SETTINGS)
    stream = io.BytesIO()
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        # Text stays text, so it does not matter which letters the fonts of this machine lack.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        draw().savefig(stream, format=format, dpi=144, metadata=metadata)
    return stream.getvalue()
