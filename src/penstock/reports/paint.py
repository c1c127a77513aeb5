"""Colours of the figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

INK, MUTED = "#1b2733", "#5b6773"
PEAK, BUDGET = "#b3261e", "#1b6e46"


@dataclass(frozen=True, slots=True)
class Paint:
    """Legend text and colours of a kind of buffer."""

    legend: str
    face: str
    edge: str


# The colours also differ in lightness, so they remain distinct in greyscale and with any colour
# vision deficiency.
PAINTS = {
    "io": Paint("input, output", "#f1bd6c", "#9a6510"),
    "arena": Paint("activations", "#cbe0f3", "#34699a"),
    "scratch": Paint("scratch", "#989da4", "#4c535b"),
    "constant": Paint("copied constants", "#eef3d2", "#7a8a2a"),
    "state": Paint("state", "#c4a5dd", "#6f4a92"),
}

SHADES = ("#cbe0f3", "#9fc4e6", "#d5e8df", "#b0d0d4", "#d6d9f0", "#b4c3ec")
"""Face colours, used cyclically, of activations that consist of rows; such blocks have no edges."""

CASCADE, CASCADE_EDGE = "#f6efe2", "#b98a3c"
"""Background of the layers of a cascade."""

RESOURCES = ("#34699a", "#d08a1d", "#16794c", "#b3261e", "#6f4a92", "#6b7683", "#0e8a8a", "#a11d5b")
"""Colours of an accelerator's resources, used cyclically."""
WHOLE = "#e8edf2"
"""The total cycles of a layer, drawn behind the cycles per resource."""

PROCESSOR = "#5b6773"
ACCELERATORS = ("#16794c", "#8a3ffc", "#b8500f", "#0b6bb5", "#a11d5b")
"""Colours of accelerators, used cyclically. The figures also name the engines."""


def accelerator_colors(names: Iterable[str]) -> Mapping[str, str]:
    """Return the colour of each accelerator, by name; it is the same in all figures of a model."""
    ordered = enumerate(sorted(set(names)))
    return {name: ACCELERATORS[k % len(ACCELERATORS)] for k, name in ordered}
