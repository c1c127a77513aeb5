"""LoopOrder: a tiler whose user states the order of the loops.

Another tiler chooses the tile shape.  Each operand is held for as long as the loops allow: its tile
is loaded in the innermost loop that indexes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.errors import UsageError
from penstock.tiling.cuts import Cut, TileShape
from penstock.tiling.layer import Layer
from penstock.tiling.least_traffic import LeastTraffic
from penstock.tiling.scratchpads import Scratchpads
from penstock.tiling.tiler import Dims, Nest, Preference, Tiler
from penstock.tiling.tiling import Tiling

_LEAST_TRAFFIC = LeastTraffic()


@dataclass(frozen=True, slots=True)
class LoopOrder:
    """Tiles as another tiler does, in a stated order of the loops.

    axes: names of axes, outermost loop first; the loops over other axes are outside of these.
    base: the tiler that chooses the tile shape."""

    axes: tuple[str, ...]
    base: Tiler = _LEAST_TRAFFIC

    def dims(self, layer: Layer, scratchpads: Scratchpads) -> Dims:
        """Return the axes that the other tiler may tile."""
        return self.base.dims(layer, scratchpads)

    def shapes(self, layer: Layer, scratchpads: Scratchpads, dims: Dims) -> Iterable[TileShape]:
        """Return the shapes of the other tiler."""
        return self.base.shapes(layer, scratchpads, dims)

    def cut(self, layer: Layer, shape: TileShape) -> tuple[Cut, ...]:
        """Return the tile boundaries of the other tiler."""
        return self.base.cut(layer, shape)

    def nest(self, layer: Layer, scratchpads: Scratchpads, cuts: Sequence[Cut]) -> Nest:
        """Return the stated order.  Raises UsageError if it names an axis that does not exist."""
        del scratchpads
        names = [axis.name for axis in layer.axes]
        unknown = [name for name in self.axes if name not in names]
        if unknown or len(set(self.axes)) < len(self.axes):
            raise UsageError(
                "tiling-007",
                f"the loop order is {', '.join(self.axes)}",
                where=f'layer "{layer.name}"',
                why=f'there is no axis "{unknown[0]}"' if unknown else "an axis stands in it twice",
                help=f"the axes of the layer are {', '.join(names)}",
            )
        order = (*(name for name in names if name not in self.axes), *self.axes)
        tiled = {a.name for a, cut in zip(layer.axes, cuts, strict=True) if len(cut) > 2}
        loops = [(k, name) for k, name in enumerate(order, 1) if name in tiled]
        depths = (max((k for k, a in loops if o.follows(a)), default=0) for o in layer.operands)
        return order, tuple(depths)

    def prefer(self, tiling: Tiling) -> Preference:
        """Return the sort key of the other tiler."""
        return self.base.prefer(tiling)
