"""Place: selects the exact placer for small problems, the row placer for large or tied ones."""

from __future__ import annotations

from dataclasses import field, replace

from penstock.frozen import frozen
from penstock.memory.exact import ExactOptions
from penstock.memory.exact import place as place_exactly
from penstock.memory.problem import Placement, PlacementProblem
from penstock.memory.rows import RowOptions, place_rows


@frozen
class PlaceOptions:
    """Options of the placers.

    max_exact_buffers: problems with more buffers, or with tied ones, go to the row placer.
    """

    exact: ExactOptions = field(default_factory=ExactOptions)
    rows: RowOptions = field(default_factory=RowOptions)
    max_exact_buffers: int = 64

    @property
    def quick(self) -> PlaceOptions:
        """The options with the first round of the row placer alone."""
        return replace(self, rows=replace(self.rows, rounds=self.rows.rounds[:1]))

    @property
    def unimproved(self) -> PlaceOptions:
        """The options without improvement of the row placer's orders."""
        return replace(self, rows=replace(self.rows, rounds=()))

    def is_exact(self, problem: PlacementProblem) -> bool:
        """Return whether the exact placer places a problem."""
        few = len(problem.buffers) <= self.max_exact_buffers
        return few and not any(buffer.tied for buffer in problem.buffers)


def place(problem: PlacementProblem, options: PlaceOptions | None = None) -> Placement:
    """Return the lowest placement found; `Placement.gap` is its optimality gap.

    Ignores the capacity.  Compare it with `height_bytes` (fits) and `bound_bytes` (can never fit).
    """
    options = options or PlaceOptions()
    if options.is_exact(problem):
        return place_exactly(problem, options.exact)
    return place_rows(problem, options.rows)


def placed_further(problem: PlacementProblem, found: Placement, options: PlaceOptions) -> Placement:
    """Return a placement that is no higher than one found with `options.quick`."""
    done = found.optimal or options.is_exact(problem) or options.quick == options
    return found if done else place_rows(problem, options.rows)
