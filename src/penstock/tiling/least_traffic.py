"""LeastTraffic: the tiling that moves the fewest bytes, and of those takes the fewest cycles.

Of all tilings of the model in `tiling.py` whose cuts are those of a `TileShape`: every extent that
`Axis.extents` allows, first and last tiles grown by at most `Layer.growth`; every order of the
loops; every depth of every operand.  The search leaves out only what cannot be better:

1. By axis: a cut than which another is as good in everything that counts: how many tiles there are,
   how much of each operand they read together, how large the largest is, how many groups of lanes
   they make (`axis_table.py`).
2. By order and depths: what another moves in the same way (`plans.py`).
3. By branch and bound over the axes (`search.py`): a tile that is too large or moves too much
   already where all axes not yet cut were at their best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.errors import InternalError
from penstock.tiling.cuts import Cut, TileShape
from penstock.tiling.layer import Layer
from penstock.tiling.scratchpads import Scratchpads
from penstock.tiling.search import Found, search
from penstock.tiling.tiler import Dims, Nest, Preference, does_not_fit
from penstock.tiling.tiling import Tiling


@dataclass(frozen=True, slots=True)
class LeastTraffic:
    """The default tiler.  `only`: the axes along which it may cut; None: along all."""

    only: Dims | None = None

    def tile(self, layer: Layer, scratchpads: Scratchpads) -> Tiling:
        """The best tiling; what `choose` finds, with one search.  Raises CapacityError."""
        found = self._search(layer, scratchpads, self.dims(layer, scratchpads))
        cuts = self.cut(layer, found.shape)
        tiling = Tiling(layer, scratchpads, cuts, found.order, found.depths)
        if tiling.faults or (tiling.bytes, tiling.cycles) != (found.bytes, found.cycles):
            raise InternalError("tiling-005", f"the search counts otherwise: {found}, {tiling}")
        return tiling

    def dims(self, layer: Layer, scratchpads: Scratchpads) -> Dims:
        """All axes, or those that it was given."""
        names = frozenset(axis.name for axis in layer.axes)
        return names if self.only is None else names & self.only

    def shapes(self, layer: Layer, scratchpads: Scratchpads, dims: Dims) -> tuple[TileShape, ...]:
        """The best one.  Raises CapacityError."""
        return (self._search(layer, scratchpads, dims).shape,)

    def cut(self, layer: Layer, shape: TileShape) -> tuple[Cut, ...]:
        """Tiles of that shape, the last smaller."""
        return shape.cuts([axis.extent for axis in layer.axes])

    def nest(self, layer: Layer, scratchpads: Scratchpads, cuts: Sequence[Cut]) -> Nest:
        """The best order and depths for those cuts.  Raises CapacityError."""
        found = search(layer, scratchpads, self.dims(layer, scratchpads), cuts)
        if found is None:
            raise does_not_fit(layer, "the tiles are too large in every order of the loops")
        return found.order, found.depths

    def prefer(self, tiling: Tiling) -> Preference:
        """Bytes moved, then cycles."""
        return (tiling.bytes, tiling.cycles)

    def _search(self, layer: Layer, scratchpads: Scratchpads, dims: Dims) -> Found:
        found = search(layer, scratchpads, dims)
        if found is None:
            raise does_not_fit(
                layer, f"not even the least, cut along {', '.join(sorted(dims)) or 'no axis'}"
            )
        return found
