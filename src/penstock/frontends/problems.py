"""Combination of several errors into one."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import PenstockError


def collected(problems: Sequence[PenstockError]) -> PenstockError:
    """One error: the first problem, with the others listed in its reason."""
    first, rest = problems[0], problems[1:]
    if not rest:
        return first
    shown = "".join(f"\n       {e.what} ({e.where})" for e in rest[:9])
    more = f"\n       and {len(rest) - 9} more" if len(rest) > 9 else ""
    also = f"{len(rest)} more nodes are not taken:{shown}{more}"
    why = f"{first.why}; {also}" if first.why else also
    return type(first)(first.code, first.what, where=first.where, why=why, help=first.help)
