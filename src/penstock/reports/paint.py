"""Paint: the colours of the pictures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

INK, MUTED = "#1b2733", "#5b6773"
PEAK, BUDGET = "#b3261e", "#1b6e46"


@dataclass(frozen=True, slots=True)
class Paint:
    """How a kind of buffer is shown: in the legend, and in which colours."""

    legend: str
    face: str
    edge: str


# Tell apart by lightness too: seen in grey or with any colour blindness they stay different.
PAINTS = {
    "io": Paint("input, output", "#f1bd6c", "#9a6510"),
    "arena": Paint("activations", "#cbe0f3", "#34699a"),
    "scratch": Paint("scratch", "#989da4", "#4c535b"),
    "constant": Paint("copied constants", "#eef3d2", "#7a8a2a"),
    "state": Paint("state", "#c4a5dd", "#6f4a92"),
}

SHADES = ("#cbe0f3", "#9fc4e6", "#d5e8df", "#b0d0d4", "#d6d9f0", "#b4c3ec")
"""Faces of activations that lie row by row, in turn: no edges tell their pieces apart."""

CASCADE, CASCADE_EDGE = "#f6efe2", "#b98a3c"
"""What stands behind the layers of a cascade."""

RESOURCES = ("#34699a", "#d08a1d", "#16794c", "#b3261e", "#6f4a92", "#6b7683", "#0e8a8a", "#a11d5b")
"""What layers need of an accelerator, in turn."""
WHOLE = "#e8edf2"
"""All the cycles of a layer, behind those for which it needs a resource."""

PROCESSOR = "#5b6773"
ACCELERATORS = ("#16794c", "#8a3ffc", "#b8500f", "#0b6bb5", "#a11d5b")
"""What accelerators run, in turn; pictures name the engines, too."""


def accelerator_colors(names: Iterable[str]) -> Mapping[str, str]:
    """By name of an accelerator, its colour, the same in every picture of a model."""
    ordered = enumerate(sorted(set(names)))
    return {name: ACCELERATORS[k % len(ACCELERATORS)] for k, name in ordered}
