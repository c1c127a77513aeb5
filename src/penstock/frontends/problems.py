"""Combination of several errors into one."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import PenstockError

MOST_SHOWN = 9
"""Number of causes, and of remedies, that are listed below the first one."""
MOST_NAMED = 4
"""Number of causes that are named before their common remedy."""


def collected(problems: Sequence[PenstockError]) -> PenstockError:
    """One error for the first cause, with the others listed in its reason, and the remedies of all.

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
        help=_remedies([cause[0] for cause in causes.values()]),
        combined=tuple(problems),
    )


def _remedies(causes: Sequence[PenstockError]) -> str:
    """The remedy that all causes share; or else a line for each, with the causes that it helps."""
    by_help: dict[str, list[str]] = {}
    for one in causes:
        named = by_help.setdefault(one.help, [])
        name = one.cause or one.what
        if name not in named:
            named.append(name)
    if len(by_help) == 1:
        return causes[0].help
    lines = [f"{_listed(names)}: {help}" for help, names in by_help.items() if help]
    if len(lines) > MOST_SHOWN:
        lines[MOST_SHOWN:] = [f"and {len(lines) - MOST_SHOWN} more remedies"]
    return "\n        ".join(lines)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _places(cause: Sequence[PenstockError]) -> str:
    """The first node with a problem, and how many others have it."""
    others = len(cause) - 1
    more = f" and {others} more node{'s' * (others > 1)}" if others else ""
    return f"{cause[0].where}{more}"
