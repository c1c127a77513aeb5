"""Rotation: where the rows of a queue's ring are, which depends on the number of runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rotation:
    """The rotation of a ring: row r is in slot (first + c + r) % ring, where c is the number in the
    buffer `counter`."""

    counter: str
    first: int
