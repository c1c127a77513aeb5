"""LeastTraffic: the tiling that moves the fewest bytes and, among those, takes the fewest cycles.

The search space contains all tilings of the model in `tiling.py` whose boundaries are those of a
`TileShape`: every extent in `Axis.extents`, with the first and last tile grown by at most
`Layer.growth`; every loop order; every depth of every operand. The search prunes only candidates
that cannot improve the result:

1. Per axis, boundaries dominated by others in number of tiles, length read of each operand, largest
  tile and number of lane groups (`axis_table.py`).
2. Loop orders and depths that cause the same traffic as others (`plans.py`).
3. By branch and bound over the axes (`branch_and_bound.py`): partial choices whose lower bound does
  not fit or exceeds the best cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.errors import InternalError
from penstock.tiling.cuts import Cut, TileShape
from penstock.tiling.layer import Layer
from penstock.tiling.scratchpads import Scratchpads
from penstock.tiling.search import SearchResult, search
from penstock.tiling.tiler import Dims, Nest, Preference, does_not_fit
from penstock.tiling.tiling import Tiling


@dataclass(frozen=True, slots=True)
class LeastTraffic:
    """The default tiler. `only` restricts the axes that it may tile; None means all."""

    only: Dims | None = None

    def tile(self, layer: Layer, scratchpads: Scratchpads) -> Tiling:
        """Return the best tiling with a single search; `choose` finds the same. Raises
        CapacityError."""
        found = self._search(layer, scratchpads, self.dims(layer, scratchpads))
        cuts = self.cut(layer, found.shape)
        tiling = Tiling(layer, scratchpads, cuts, found.order, found.depths)
        if tiling.faults or (tiling.bytes, tiling.cycles) != (found.bytes, found.cycles):
            raise InternalError(
                "tiling-005", f"search and tiling disagree on the cost: {found}, {tiling}"
            )
        return tiling

    def dims(self, layer: Layer, scratchpads: Scratchpads) -> Dims:
        """Return all axes, or those in `only`."""
        names = frozenset(axis.name for axis in layer.axes)
        return names if self.only is None else names & self.only

    def shapes(self, layer: Layer, scratchpads: Scratchpads, dims: Dims) -> tuple[TileShape, ...]:
        """Return the best shape. Raises CapacityError."""
        return (self._search(layer, scratchpads, dims).shape,)

    def cut(self, layer: Layer, shape: TileShape) -> tuple[Cut, ...]:
        """Return tiles of that shape; the last one may be smaller."""
        return shape.cuts([axis.extent for axis in layer.axes])

    def nest(self, layer: Layer, scratchpads: Scratchpads, cuts: Sequence[Cut]) -> Nest:
        """Return the best order and depths for given tile boundaries. Raises CapacityError."""
        found = search(layer, scratchpads, self.dims(layer, scratchpads), cuts)
        if found is None:
            raise does_not_fit(layer, "the tiles are too large in every loop order")
        return found.order, found.depths

    def prefer(self, tiling: Tiling) -> Preference:
        """Return bytes moved, then cycles."""
        return (tiling.bytes, tiling.cycles)

    def _search(self, layer: Layer, scratchpads: Scratchpads, dims: Dims) -> SearchResult:
        found = search(layer, scratchpads, dims)
        if found is None:
            raise does_not_fit(
                layer, f"not even the smallest, split along {', '.join(sorted(dims)) or 'no axis'}"
            )
        return found
