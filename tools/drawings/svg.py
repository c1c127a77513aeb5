"""Drawing: a list of shapes that becomes an SVG file, legible on light and on dark backgrounds.

Colours are names of roles, which the style sheet in the file defines for both backgrounds.  A page
that includes the SVG inline can define them again, for example to follow its own switch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape

FONT_PX = 14
LIGHT: Mapping[str, str] = {
    "ink": "#1f2328",
    "soft": "#59636e",
    "line": "#c3cad2",
    "empty": "#eef1f4",
    "blue": "#9ccaf7",
    "orange": "#f7bf85",
    "green": "#a5d9ab",
}
DARK: Mapping[str, str] = {
    "ink": "#e6edf3",
    "soft": "#9aa4af",
    "line": "#4a525c",
    "empty": "#20262d",
    "blue": "#23639f",
    "orange": "#9a5c18",
    "green": "#2f7039",
}


@dataclass(frozen=True, slots=True)
class Drawing:
    """Shapes on a canvas, later ones in front.

    title: what the drawing shows, for readers who do not see it.
    width, height: extent of the canvas in pixels.
    shapes: SVG elements.
    """

    title: str
    width: int
    height: int
    shapes: tuple[str, ...]

    def svg(self) -> str:
        """Return the text of the file."""
        style = (
            f".drawing {{ {_variables(LIGHT)} }}\n"
            f"@media (prefers-color-scheme: dark) {{ .drawing {{ {_variables(DARK)} }} }}\n"
            f".drawing text {{ font: {FONT_PX}px sans-serif; fill: var(--ink); }}"
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="drawing" role="img" '
            f'viewBox="0 0 {self.width} {self.height}" width="{self.width}">\n'
            f"<title>{escape(self.title)}</title>\n<style>\n{style}\n</style>\n"
            + "\n".join(self.shapes)
            + "\n</svg>\n"
        )


def _variables(colours: Mapping[str, str]) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())


def box(
    x: float, y: float, width: float, height: float, fill: str = "empty", stroke: str = "line"
) -> str:
    """Return a rectangle."""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="2" '
        f'style="fill: var(--{fill}); stroke: var(--{stroke})"/>'
    )


def text(x: float, y: float, words: str, anchor: str = "start", soft: bool = False) -> str:
    """Return a line of text; `y` is its base line, `soft` a less important one."""
    colour = ' style="fill: var(--soft)"' if soft else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{colour}>{escape(words)}</text>'


def code(x: float, y: float, words: str, anchor: str = "start") -> str:
    """Return a line of code."""
    style = f"font: {FONT_PX - 1}px monospace"
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" style="{style}">{escape(words)}</text>'
    )


def path(points: Iterable[tuple[float, float]], colour: str = "ink", width: float = 1.5) -> str:
    """Return straight lines through points."""
    joined = " ".join(f"{x:g},{y:g}" for x, y in points)
    style = f"fill: none; stroke: var(--{colour}); stroke-width: {width:g}"
    return f'<polyline points="{joined}" style="{style}"/>'


def dot(x: float, y: float, colour: str = "ink", radius: float = 3) -> str:
    """Return a filled circle."""
    return f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" style="fill: var(--{colour})"/>'


def arrow(x0: float, y0: float, x1: float, y1: float) -> str:
    """Return a horizontal or vertical line with a head at its second end."""
    dx, dy = _sign(x1 - x0), _sign(y1 - y0)
    head = (
        (x1 - 7 * dx - 4 * dy, y1 - 7 * dy - 4 * dx),
        (x1, y1),
        (x1 - 7 * dx + 4 * dy, y1 - 7 * dy + 4 * dx),
    )
    return path([(x0, y0), (x1, y1)], "soft") + path(head, "soft")


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)
