"""matplotlib figures as SVG elements or PNG, reproducible whatever the user's matplotlib
settings."""

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
    "svg.hashsalt": "penstock",  # otherwise ids are random
    "svg.fonttype": "none",  # keep text as text
    "text.parse_math": False,  # do not interpret dollar signs
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
    """Return the figure as an SVG element."""
    text = _drawn(draw, "svg", _SILENT).decode()
    return text[text.index("<svg") :]


def png(draw: Callable[[], Figure]) -> bytes:
    """Return the figure as PNG."""
    return _drawn(draw, "png", {"Software": None})


def with_titles(svg: str, group: str, titles: Sequence[str], element: str = "path") -> str:
    """Add titles, which browsers show as tooltips, to the first elements of the SVG group `group`,
    in order."""
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
        # Text remains text, so glyphs missing from the local fonts do not matter.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        draw().savefig(stream, format=format, dpi=144, metadata=metadata)
    return stream.getvalue()
