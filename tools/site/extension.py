"""Extension of Sphinx: drawings become part of the page, and docstrings reStructuredText."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes

from tools.drawings.svg import DARK, LIGHT
from tools.site.docstrings import as_rst, names_of

FUNCTION = re.compile(r"<function (\w+)>")


def setup(app: Any) -> dict[str, bool]:
    """Register the extension."""
    app.connect("autodoc-process-docstring", _convert_docstring)
    app.connect("autodoc-process-signature", _name_defaults)
    app.connect("autodoc-skip-member", _skip_member)
    app.connect("doctree-resolved", _inline_drawings)
    app.connect("html-page-context", _add_colours)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _convert_docstring(
    app: Any, kind: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    lines[:] = as_rst(lines, names_of(thing))


def _name_defaults(
    app: Any,
    kind: str,
    name: str,
    thing: object,
    options: object,
    signature: str | None,
    result: Any,
) -> tuple[str | None, Any]:
    """Write functions that are defaults of parameters as their names."""
    return signature and FUNCTION.sub(r"\1", signature), result


def _skip_member(
    app: Any, kind: str, name: str, thing: object, skip: bool, options: object
) -> bool | None:
    """Keep the methods with which a backend registers its parts, although their names are private
    in Python.
    """
    return False if name.startswith("_register_") else None


def _inline_drawings(app: Any, doctree: nodes.document, page: str) -> None:
    """Replace images of SVG files by their elements, so that the style of the page applies."""
    for image in list(doctree.findall(nodes.image)):
        if image["uri"].endswith(".svg"):
            svg = (Path(app.srcdir) / image["uri"]).read_text("utf-8")
            html = f'<figure class="drawing-frame">{svg}</figure>'
            image.parent.replace(image, nodes.raw("", html, format="html"))


def _add_colours(
    app: Any, page: str, template: str, context: dict[str, Any], doctree: object
) -> None:
    """Add the colours of drawings for the switch of the page."""
    light, dark = (
        " ".join(f"--{name}: {colour};" for name, colour in colours.items())
        for colours in (LIGHT, DARK)
    )
    context["metatags"] = (context.get("metatags") or "") + (
        "<style>"
        f"body .drawing {{ {light} }} "
        f'body[data-theme="dark"] .drawing {{ {dark} }} '
        "@media (prefers-color-scheme: dark) { "
        f'body:not([data-theme="light"]) .drawing {{ {dark} }} }}'
        "</style>"
    )
