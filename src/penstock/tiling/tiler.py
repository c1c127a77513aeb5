"""Tiler: the protocol of strategies that tile a layer. Users can implement their own.

A tiler is a plain object. `choose` calls its methods in this order; `choose_sequence`
(`sequence.py`) also takes tilers that write the loops themselves:

    dims     the axes that may be tiled
    shapes   candidate tile shapes
    cut      the tile boundaries of each axis, which must partition it
    nest     the loop order, and the depth of each operand
    prefer   a sort key of tilings

`LeastTraffic` (`least_traffic.py`) is a tiler; docs/how-to/write-a-tiler.md develops another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Protocol

from penstock.errors import CapacityError, UsageError
from penstock.tiling.layer import Layer
from penstock.tiling.nest import Cut, TileShape, Tiling
from penstock.tiling.scratchpads import Scratchpads

Dims = frozenset[str]
"""Names of the axes that are tiled; if empty, the layer is a single tile."""
Nest = tuple[tuple[str, ...], tuple[int, ...]]
"""Names of axes, outermost loop first; and for each operand its depth, the number of outer loops
that index its tile."""
TILER_METHODS = ("dims", "shapes", "cut", "nest", "prefer")
"""The methods of a tiler, in the order in which `choose` calls them."""
Preference = tuple[int | Fraction, ...]
"""A sort key; the tiling with the least one is chosen."""


class Tiler(Protocol):
    """The methods of a tiler. Each method may rely on the results of the preceding ones."""

    def dims(self, layer: Layer, scratchpads: Scratchpads) -> Dims:
        """Return the axes that may be tiled."""
        ...

    def shapes(self, layer: Layer, scratchpads: Scratchpads, dims: Dims) -> Iterable[TileShape]:
        """Return candidate shapes, in points along each axis of the layer. Those that do not fit
        are skipped."""
        ...

    def cut(self, layer: Layer, shape: TileShape) -> tuple[Cut, ...]:
        """Return the tile boundaries of that shape for each axis of the layer."""
        ...

    def nest(self, layer: Layer, scratchpads: Scratchpads, cuts: Sequence[Cut]) -> Nest:
        """Return the loop order, and the depth of each operand."""
        ...

    def prefer(self, tiling: Tiling) -> Preference:
        """Return the sort key of a tiling. The least is chosen, and the first among equals."""
        ...


def choose(tiler: Tiler, layer: Layer, scratchpads: Scratchpads) -> Tiling:
    """Return the tiling that a tiler prefers among its candidates that fit.

    Raises CapacityError if none fits, UsageError if its tiles do not partition the layer, or if the
    tiler states visits (`TileSequencer`), which a tiling cannot express.
    """
    if callable(getattr(tiler, "visits", None)):
        raise UsageError(
            "tiling-010",
            f"the tiler {type(tiler).__name__} states visits, which `choose` would ignore",
            where=f'layer "{layer.name}"',
            why="`choose` returns a tiling: one loop for each axis",
            help="call `choose_sequence`, and execute the steps of the sequence that it returns",
        )
    best: tuple[Preference, Tiling] | None = None
    fault = "the tiler yields no shape"
    for shape in tiler.shapes(layer, scratchpads, tiler.dims(layer, scratchpads)):
        tiling = _tiling(tiler, layer, scratchpads, shape)
        if tiling.faults:
            fault = tiling.faults[0]
            continue
        preference = tiler.prefer(tiling)
        if best is None or preference < best[0]:
            best = (preference, tiling)
    if best is None:
        raise does_not_fit(layer, fault)
    return best[1]


def does_not_fit(layer: Layer, fault: str) -> CapacityError:
    """Return the error for a layer without a feasible tiling: a tiler refuses a layer by raising
    it."""
    return CapacityError(
        "tiling-003",
        f"no tile fits: {fault}",
        where=f'layer "{layer.name}"',
        why="the scratchpads must hold a tile of every tensor while the engine computes",
        help="use larger scratchpads, or let the tiler split more axes or into smaller tiles",
    )


def innermost_depths(layer: Layer, order: Sequence[str]) -> tuple[int, ...]:
    """Return depths for which all loops index every operand, so each tile is loaded when it is
    needed."""
    return (len(order),) * len(layer.operands)


def _tiling(tiler: Tiler, layer: Layer, scratchpads: Scratchpads, shape: TileShape) -> Tiling:
    cuts = tiler.cut(layer, shape)
    order, depths = tiler.nest(layer, scratchpads, cuts)
    check_tiles(tiler, layer, cuts, order, depths)
    return Tiling(layer, scratchpads, cuts, order, depths)


def check_tiles(
    tiler: Tiler, layer: Layer, cuts: Sequence[Cut], order: Sequence[str], depths: Sequence[int]
) -> None:
    """Raise UsageError if boundaries do not partition the axes of a layer, or if a loop order or
    depths are not those of its axes and operands."""
    for fault in _faults(layer, cuts, order, depths):
        raise UsageError(
            "tiling-004",
            f"the tiler {type(tiler).__name__} {fault}",
            where=f'layer "{layer.name}"',
            why="tiles must partition the layer: each point is in exactly one tile; and each axis "
            "has one loop",
            help="return the result of TileShape.cuts, and an order that contains every axis once",
        )


def _faults(
    layer: Layer, cuts: Sequence[Cut], order: Sequence[str], depths: Sequence[int]
) -> Iterable[str]:
    if len(cuts) != len(layer.axes):
        yield f"returns boundaries for {len(cuts)} axes, the layer has {len(layer.axes)}"
        return
    for axis, cut in zip(layer.axes, cuts, strict=True):
        rises = all(a < b for a, b in pairwise(cut))
        if not rises or cut[:1] != (0,) or cut[-1] != axis.extent or len(cut) < 2:
            yield f'splits axis "{axis.name}" of {axis.extent} points at {list(cut)}'
    if sorted(order) != sorted(axis.name for axis in layer.axes):
        yield f"orders the loops {', '.join(order)}"
    if len(depths) != len(layer.operands) or not all(0 <= d <= len(order) for d in depths):
        yield f"holds tensors at depths {list(depths)} of {len(order)} loops"
