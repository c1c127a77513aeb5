"""Tiler: who chooses how a layer is cut.  A public protocol: users write tilers of their own.

A tiler is a plain object that answers five questions, in this order; `choose` asks them:

    dims     along which axes may the layer be cut at all?
    shapes   which tiles are worth considering?
    cut      where does each tile begin and end?  (The tiles of an axis must join to all of it.)
    nest     in which order do the loops stand, and around which is each tensor held?
    prefer   which of two tilings is better?

`LeastTraffic` (`least_traffic.py`) and `Smaug` (`smaug.py`) are tilers;
docs/how-to/write-a-tiler.md writes another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Protocol

from penstock.errors import CapacityError, UsageError
from penstock.tiling.cuts import Cut, TileShape
from penstock.tiling.layer import Layer
from penstock.tiling.scratchpads import Scratchpads
from penstock.tiling.tiling import Tiling

Dims = frozenset[str]
"""Names of axes along which a layer is cut; none: it is one tile."""
Nest = tuple[tuple[str, ...], tuple[int, ...]]
"""Names of axes, outermost loop first; by operand, how many loops its tile follows (its depth)."""
Preference = tuple[int | Fraction, ...]
"""Compared as a tuple; the least is best."""


class Tiler(Protocol):
    """What a tiler must be able to say.  Each method may rely on what those above it answered."""

    def dims(self, layer: Layer, scratchpads: Scratchpads) -> Dims:
        """The axes along which the layer may be cut."""
        ...

    def shapes(self, layer: Layer, scratchpads: Scratchpads, dims: Dims) -> Iterable[TileShape]:
        """Candidates, points along each axis of the layer; they need not fit."""
        ...

    def cut(self, layer: Layer, shape: TileShape) -> tuple[Cut, ...]:
        """Where the tiles of that shape end, by axis of the layer."""
        ...

    def nest(self, layer: Layer, scratchpads: Scratchpads, cuts: Sequence[Cut]) -> Nest:
        """Order of the loops, and the depth at which each operand is held."""
        ...

    def prefer(self, tiling: Tiling) -> Preference:
        """What makes a tiling good: the least is chosen, the first of equals."""
        ...


def choose(tiler: Tiler, layer: Layer, scratchpads: Scratchpads) -> Tiling:
    """The tiling that a tiler prefers among its candidates that fit.

    Raises CapacityError where none fits, UsageError where its tiles do not join to the layer."""
    best: tuple[Preference, Tiling] | None = None
    fault = "the tiler names no shape"
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
    """What a tiler says that finds nothing."""
    return CapacityError(
        "tiling-003",
        f"no tile fits: {fault}",
        where=f'layer "{layer.name}"',
        why="at least one tile of every tensor lies in a scratchpad while the engine computes",
        help="give larger scratchpads, let it cut more axes, or let it cut them smaller",
    )


def innermost_depths(layer: Layer, order: Sequence[str]) -> tuple[int, ...]:
    """The depths of operands that follow every loop: nothing is held longer than a tile."""
    return (len(order),) * len(layer.operands)


def _tiling(tiler: Tiler, layer: Layer, scratchpads: Scratchpads, shape: TileShape) -> Tiling:
    cuts = tiler.cut(layer, shape)
    order, depths = tiler.nest(layer, scratchpads, cuts)
    for fault in _faults(layer, cuts, order, depths):
        raise UsageError(
            "tiling-004",
            f"the tiler {type(tiler).__name__} {fault}",
            where=f'layer "{layer.name}"',
            why="tiles must join to the whole layer, each point in exactly one of them; and each "
            "axis has one loop",
            help="return what TileShape.cuts returns, and every axis once in the order",
        )
    return Tiling(layer, scratchpads, cuts, order, depths)


def _faults(
    layer: Layer, cuts: Sequence[Cut], order: Sequence[str], depths: Sequence[int]
) -> Iterable[str]:
    if len(cuts) != len(layer.axes):
        yield f"cuts {len(cuts)} axes, the layer has {len(layer.axes)}"
        return
    for axis, cut in zip(layer.axes, cuts, strict=True):
        rises = all(a < b for a, b in pairwise(cut))
        if not rises or cut[:1] != (0,) or cut[-1] != axis.extent or len(cut) < 2:
            yield f'cuts axis "{axis.name}" of {axis.extent} points at {list(cut)}'
    if sorted(order) != sorted(axis.name for axis in layer.axes):
        yield f"orders the loops {', '.join(order)}"
    if len(depths) != len(layer.operands) or not all(0 <= d <= len(order) for d in depths):
        yield f"holds tensors at depths {list(depths)} of {len(order)} loops"
