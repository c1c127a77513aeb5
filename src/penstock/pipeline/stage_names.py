"""Names of the stages, in order; a module of its own, which help texts import quickly."""

from __future__ import annotations

from typing import Final

READ: Final = "read"
SIMPLIFY: Final = "simplify"
ASSIGN: Final = "assign"
SCHEDULE: Final = "schedule"
PLACE: Final = "place"
LOWER: Final = "lower"
WRITE: Final = "write"
STAGE_NAMES = (READ, SIMPLIFY, ASSIGN, SCHEDULE, PLACE, LOWER, WRITE)
