"""Paint: the colours of the memory picture."""

from __future__ import annotations

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
    "arena": Paint("activation", "#cbe0f3", "#34699a"),
    "scratch": Paint("scratch", "#989da4", "#4c535b"),
    "state": Paint("state", "#c4a5dd", "#6f4a92"),
}
