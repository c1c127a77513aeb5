"""Combination of several errors into one."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import PenstockError

MOST_SHOWN = 9
"""Number of causes that are listed below the first one."""


def collected(problems: Sequence[PenstockError]) -> PenstockError:
    """One error for the first cause, with the others listed in its reason.

    Problems whose texts agree have one cause; it is listed once, with the number of its nodes."""
    causes: dict[str, list[PenstockError]] = {}
    for problem in problems:
        causes.setdefault(problem.what, []).append(problem)
    mine, *others = causes.values()
    first = mine[0]
    lines = [f"{cause[0].what} ({_places(cause)})" for cause in others]
    if len(lines) > MOST_SHOWN:
        lines[MOST_SHOWN:] = [f"and {len(lines) - MOST_SHOWN} more"]
    also = f"{len(others)} more cause{'s' * (len(others) > 1)}:" if others else ""
    listed = "\n       ".join((also, *lines))
    why = "; ".join(filter(None, (first.why, listed)))
    return type(first)(
        first.code,
        first.what,
        where=_places(mine),
        why=why,
        help=first.help,
        combined=tuple(problems),
    )


def _places(cause: Sequence[PenstockError]) -> str:
    """The first node with a problem, and how many others have it."""
    others = len(cause) - 1
    more = f" and {others} more node{'s' * (others > 1)}" if others else ""
    return f"{cause[0].where}{more}"
