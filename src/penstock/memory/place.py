"""Place: the front door; small problems go to the exact placer, rows to the row placer."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.memory.exact import ExactOptions
from penstock.memory.exact import place as place_exactly
from penstock.memory.problem import Placement, Problem
from penstock.memory.rows import RowOptions, place_rows


@dataclass(frozen=True, slots=True)
class PlaceOptions:
    """How much each placer may spend, and how much is left to which."""

    exact: ExactOptions = field(default_factory=ExactOptions)
    rows: RowOptions = field(default_factory=RowOptions)
    max_exact_buffers: int = 64  # more, or tied ones, are placed as rows


def place(problem: Problem, options: PlaceOptions | None = None) -> Placement:
    """The lowest placement found; `gap` says how far it may be from the best.

    Does not heed the capacity: compare `height_bytes` (fits) and `bound_bytes` (never fits) to it.
    """
    options = options or PlaceOptions()
    many = len(problem.buffers) > options.max_exact_buffers
    if many or any(buffer.tied for buffer in problem.buffers):
        return place_rows(problem, options.rows)
    return place_exactly(problem, options.exact)
