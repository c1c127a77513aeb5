"""Page: what every example prints: the seed's figures beside penstock's, and what is absent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Absence:
    """Something that the seed has, or asks for, and penstock lacks.

    `holds` looks at the product and returns whether the sentence is still true; a test calls it."""

    sentence: str
    holds: Callable[[], bool]


def heading(words: str) -> None:
    """Print the heading of a table of `figure` lines."""
    print(f"\n{words:52} {'seed':>14} {'penstock':>14} {'ratio':>8}")


def figure(what: str, seed: float | None, ours: float, digits: int = 0) -> None:
    """Print a figure of the seed's, ours, and ours divided by it; None: the seed states none."""
    theirs, ratio = "-", "-"
    if seed is not None:
        theirs, ratio = f"{seed:,.{digits}f}", f"{ours / seed:.3f}"
    print(f"  {what:50} {theirs:>14} {f'{ours:,.{digits}f}':>14} {ratio:>8}")


def absences(some: Sequence[Absence]) -> None:
    """Print what is absent."""
    print("\nAbsent from penstock:")
    for absence in some:
        print(f"  - {absence.sentence}")
