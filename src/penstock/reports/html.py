"""HTML pages: one self-contained file with data, style and scripts, which loads nothing.

A page contains its data as JSON, and scripts that draw it (`page/assets/`). A content security
policy allows these scripts only, and no request. Equal data yields equal bytes.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files

from penstock.reports.engine_times import EngineTimes
from penstock.reports.frontier import FrontierReport
from penstock.reports.model_layer import ModelLayer
from penstock.reports.page.frontier_data import frontier_data
from penstock.reports.page.records import PageData
from penstock.reports.page.report_data import report_data
from penstock.reports.report import Report
from penstock.reports.row import Measured
from penstock.reports.timeline import Timeline

_ASSETS = files("penstock.reports.page") / "assets"
D3_MODULES = (
    *("array", "color", "format", "interpolate", "time", "time-format", "scale", "axis"),
    *("dispatch", "selection", "timer", "ease", "transition", "drag", "zoom"),
)
"""The modules of D3 that pages contain, each after those that it needs."""
_SCRIPTS = (
    *("elements", "numbers", "highlight", "scroll_frame", "table", "time_axis", "block_labels"),
    *("memory", "flow", "graph", "engines", "resources", "frontier", "layers", "detail", "page"),
)
"""The scripts of a page, in order."""
_STYLES = ("colors", "page", "figures")
"""The styles of a page, in order."""


def render_html(
    report: Report,
    layers: Sequence[ModelLayer],
    timelines: Sequence[Timeline],
    times: EngineTimes | None,
    measured: Sequence[Measured | None] | None = None,
    budget_bytes: int | None = None,
) -> bytes:
    """Return the page of a compilation; see `report_data` for the parameters."""
    return page(report_data(report, layers, timelines, times, measured, budget_bytes))


def render_frontier(found: FrontierReport) -> bytes:
    """Return the page of an exploration; see `frontier_data` for the parameters."""
    return page(frontier_data(found))


def page(data: PageData) -> bytes:
    """Return the page that shows `data`."""
    style, script = _style(), _script()
    policy = (
        f"default-src 'none'; script-src 'sha256-{_digest(script)}'; style-src 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'"
    )
    holes = {
        "title": escape(f"{data.title} – penstock"),
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


def embedded(data: PageData) -> str:
    """Return data as JSON that can stand inside of a script element."""
    text = json.dumps(_without_absent(dataclasses.asdict(data)), separators=(",", ":"))
    for character in "<>&":  # no text can end the element, or begin a comment
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _without_absent(value: object) -> object:
    """Remove fields that are None, False or empty; scripts treat absent ones alike."""
    if isinstance(value, dict):
        return {
            key: _without_absent(item)
            for key, item in value.items()
            if item is not None and item is not False and item not in ("", (), [], {})
        }
    if isinstance(value, (list, tuple)):
        return [_without_absent(item) for item in value]
    return value


@cache
def _style() -> str:
    return "".join(_without_indentation(f"{name}.css") for name in _STYLES)


@cache
def _script() -> str:
    """Return the modules of D3, with their licences, and the scripts of a page, as one script."""
    licences = (_ASSETS / "d3" / "LICENSES.txt").read_text("utf-8")
    d3 = [(_ASSETS / "d3" / f"d3-{name}.min.js").read_text("utf-8") for name in D3_MODULES]
    own = [_without_indentation(f"{name}.js") for name in _SCRIPTS]
    return "\n".join((f"/*\n{licences}*/", *d3, '(() => {\n"use strict";', *own, "})();\n"))


def _without_indentation(name: str) -> str:
    """Return an asset without indentation and whole lines of comments; none of its texts spans
    lines."""
    lines = (line.strip() for line in (_ASSETS / name).read_text("utf-8").splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//")) + "\n"


@cache
def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
