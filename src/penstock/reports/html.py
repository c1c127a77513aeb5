"""HTML pages: one self-contained file with data, style and scripts, which loads nothing.

A page contains its data as JSON, and scripts that draw it (`page/assets/`). A content security
policy allows these scripts only, and no request. Equal data yields equal bytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from penstock.reports.codec import Json
from penstock.reports.formats import printable
from penstock.reports.page.data import Data, frontier_data, report_data
from penstock.reports.report import Report

if TYPE_CHECKING:
    from penstock.reports.frontier import FrontierReport  # takes long to import

_ASSETS = files("penstock.reports.page") / "assets"
# The modules of D3 that pages contain, each after those that it needs.
D3_MODULES = (
    *("array", "color", "format", "interpolate", "time", "time-format", "scale", "axis"),
    *("dispatch", "selection", "timer", "ease", "transition", "drag", "zoom"),
)
# The scripts of a page, in order.
_SCRIPTS = (
    *("elements", "numbers", "highlight", "scroll_frame", "table", "time_axis", "block_labels"),
    *("memory", "flow", "graph", "engines", "resources", "frontier", "layers", "detail", "page"),
)
_STYLES = ("colors", "page", "figures")  # The styles of a page, in order.


def render_html(report: Report) -> bytes:
    """Return the page of a report."""
    return page(report_data(report))


def render_frontier(found: FrontierReport) -> bytes:
    """Return the page of an exploration."""
    return page(frontier_data(found))


def page(data: Data) -> bytes:
    """Return the page that shows data, as `report_data` describes it."""
    style, script = _style(), _script()
    policy = (
        f"default-src 'none'; script-src 'sha256-{_digest(script)}'; style-src 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'"
    )
    holes = {
        "title": escape(printable(f"{data['title']} – penstock")),
        "policy": policy,
        "style": style,
        "data": embedded(data),
        "script": script,
    }
    pieces = (_ASSETS / "page.html").read_text("utf-8").split("@@")
    return "".join(
        holes[piece] if index % 2 else piece for index, piece in enumerate(pieces)
    ).encode()


def framed(page: bytes) -> str:
    """Return a page as an iframe element for notebooks, so that their styles do not interact."""
    style = "width:100%;height:40rem;border:1px solid #d8dde2"
    return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{escape(page.decode())}">' + (
        "</iframe>"
    )


def embedded(data: Data) -> str:
    """Return data as JSON that can stand inside of a script element."""
    text = json.dumps(_shown(data), separators=(",", ":"))
    for character in "<>&":  # no text can end the element, or begin a comment
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _shown(value: Json) -> Json:
    """Remove values that are None, False or empty, which scripts treat like absent ones, and escape
    control characters."""
    match value:
        case str():
            return printable(value)
        case Mapping():
            found = ((key, item) for key, item in value.items() if not _is_absent(item))
            return {printable(key): _shown(item) for key, item in found}
        case Sequence():
            return [_shown(item) for item in value]
        case _:
            return value


def _is_absent(value: Json) -> bool:
    return value is None or value is False or (not isinstance(value, int | float) and not value)


@cache
def _style() -> str:
    return "".join(_without_indentation(f"{name}.css") for name in _STYLES)


@cache
def _script() -> str:
    """The modules of D3, with their licences, and the scripts of a page, as one script."""
    licences = (_ASSETS / "d3" / "LICENSES.txt").read_text("utf-8")
    d3 = [(_ASSETS / "d3" / f"d3-{name}.min.js").read_text("utf-8") for name in D3_MODULES]
    own = [_without_indentation(f"{name}.js") for name in _SCRIPTS]
    return "\n".join((f"/*\n{licences}*/", *d3, '(() => {\n"use strict";', *own, "})();\n"))


def _without_indentation(name: str) -> str:
    """An asset without indentation and whole lines of comments; none of its texts spans
    lines."""
    lines = (line.strip() for line in (_ASSETS / name).read_text("utf-8").splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//")) + "\n"


@cache
def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
