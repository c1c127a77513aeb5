"""Output functions shared by the examples: comparison tables and lists of absent features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Absence:
    """A feature that the seed has or requests and penstock lacks.

    `holds` inspects penstock and returns whether the feature is still absent; a test calls it."""

    sentence: str
    holds: Callable[[], bool]


def heading(words: str) -> None:
    """Print the heading of a table of `figure` lines."""
    print(f"\n{words:52} {'seed':>14} {'penstock':>14} {'ratio':>8}")


def figure(what: str, seed: float | None, ours: float, digits: int = 0) -> None:
    """Print the seed's figure (None if it states none), penstock's, and their ratio."""
    theirs, ratio = "-", "-"
    if seed is not None:
        theirs, ratio = f"{seed:,.{digits}f}", f"{ours / seed:.3f}"
    print(f"  {what:50} {theirs:>14} {f'{ours:,.{digits}f}':>14} {ratio:>8}")


def absences(some: Sequence[Absence]) -> None:
    """Print the list of absent features."""
    print("\nAbsent from penstock:")
    for absence in some:
        print(f"  - {absence.sentence}")
