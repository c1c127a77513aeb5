"""Place: selects the exact placer for small problems, the row placer for large or tied ones."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.memory.exact import ExactOptions
from penstock.memory.exact import place as place_exactly
from penstock.memory.problem import Placement, PlacementProblem
from penstock.memory.rows import RowOptions, place_rows


@dataclass(frozen=True, slots=True)
class PlaceOptions:
    """Options of the placers.

    max_exact_buffers: problems with more buffers, or with tied ones, go to the row placer.
    """

    exact: ExactOptions = field(default_factory=ExactOptions)
    rows: RowOptions = field(default_factory=RowOptions)
    max_exact_buffers: int = 64


def place(problem: PlacementProblem, options: PlaceOptions | None = None) -> Placement:
    """Return the lowest placement found; `Placement.gap` is its optimality gap.

    Ignores the capacity.  Compare it with `height_bytes` (fits) and `bound_bytes` (can never fit).
    """
    options = options or PlaceOptions()
    many = len(problem.buffers) > options.max_exact_buffers
    if many or any(buffer.tied for buffer in problem.buffers):
        return place_rows(problem, options.rows)
    return place_exactly(problem, options.exact)
