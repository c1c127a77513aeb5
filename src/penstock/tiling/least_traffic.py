"""LeastTraffic: the tiling that moves the fewest bytes and, among those, takes the fewest cycles.

The search space contains all tilings of the model in `nest.py` whose boundaries are those of a
`TileShape`: every extent in `Axis.extents`, with the first and last tile grown by at most
`Layer.growth`; every loop order; every depth of every operand. The search prunes only candidates
that cannot improve the result:

1. Per axis, boundaries dominated by others in number of tiles, length read of each operand, largest
  tile and number of lane groups (`axis_table`).
2. Loop orders and depths that cause the same traffic as others (`loop_plans`).
3. By branch and bound over the axes (`branch_and_bound.py`): partial choices whose lower bound does
  not fit or exceeds the best cost.

`LoopOrder` is a tiler whose user states the order of the loops.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import chain, combinations, permutations, product

import numpy as np

from penstock.compiled import UNBOUNDED
from penstock.errors import InternalError, UsageError
from penstock.frozen import frozen
from penstock.pareto import efficient_rows
from penstock.tiling.branch_and_bound import (
    AxisArrays,
    CostArrays,
    Flags,
    Numbers,
    PlanArrays,
    branch_and_bound,
    measured_shapes,
)
from penstock.tiling.layer import Axis, Dimension, Layer, LayerOperand, Scratchpads
from penstock.tiling.nest import (
    Cut,
    Dims,
    Nest,
    Preference,
    Tiler,
    TileShape,
    Tiling,
    does_not_fit,
    intervals,
)

Axes = tuple[int, ...]
"""Indices of axes."""


@frozen
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


_LEAST_TRAFFIC = LeastTraffic()


@frozen
class LoopOrder:
    """Tiles as another tiler does, in a stated order of the loops.  Each operand is held for as
    long as the loops allow: its tile is loaded in the innermost loop that indexes it.

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


@frozen
class SearchResult:
    """The best tiling, with bytes and cycles as the search counts them."""

    shape: TileShape
    order: tuple[str, ...]
    depths: tuple[int, ...]
    bytes: int
    cycles: Fraction


def search(
    layer: Layer,
    scratchpads: Scratchpads,
    dims: frozenset[str],
    cuts: Sequence[Cut] | None = None,
) -> SearchResult | None:
    """Return the best tiling that splits only axes of `dims`, or the best one with given tile
    boundaries. Return None if no tiling fits."""
    if cuts is None:
        tables = [axis_table(layer, scratchpads, axis) for axis in layer.axes]
    else:
        pairs = zip(layer.axes, cuts, strict=True)
        tables = [table_of_cut(layer, scratchpads, axis, cut) for axis, cut in pairs]
    cuttable = tuple(k for k, axis in enumerate(layer.axes) if tables[k].rows and axis.name in dims)
    followed = tuple(
        tuple(k for k, axis in enumerate(layer.axes) if operand.follows(axis.name))
        for operand in layer.operands
    )
    every = loop_plans(
        followed, cuttable, scratchpads.spills, axes=len(layer.axes), all_cut=cuts is not None
    )
    if not every.plans:
        return None
    arrays = _plan_arrays(layer, scratchpads, every, [table.rows for table in tables])
    best = branch_and_bound(_axis_arrays(tables), arrays, _costs(layer, scratchpads))
    if best is None:
        return None
    plan, rows = every.plans[best.plan], best.rows.tolist()
    # Loops with a single tile are outermost.
    extents = [axis.extent for axis in layer.axes]
    grown = [(0, 0)] * len(extents)
    for axis in plan.order:
        extents[axis], *more = tables[axis].shapes[rows[axis]].tolist()
        grown[axis] = more[0], more[1]
    whole = [k for k in range(len(extents)) if k not in plan.order]
    return SearchResult(
        TileShape(tuple(extents), tuple(grown) if any(map(any, grown)) else ()),
        tuple(layer.axes[k].name for k in (*whole, *plan.order)),
        tuple(len(whole) + depth for depth in plan.depths),
        best.bytes,
        Fraction(best.cycle_fractions, scratchpads.copies.bytes_per_cycle),
    )


@frozen
class AxisTable:
    """Candidate tilings of an axis, one per row.

    shapes: extent, growth of the first tile and growth of the last.
    measured: the number of tiles; the number of lane groups, summed over tiles; and for each
        operand, the sum over tiles of the elements that a tile reads along the axis, and their
        aligned maximum. What an operand that the axis does not index has there is not used.
    """

    shapes: Numbers
    measured: Numbers

    @property
    def rows(self) -> int:
        return len(self.measured)


def axis_table(layer: Layer, scratchpads: Scratchpads, axis: Axis) -> AxisTable:
    """Return the Pareto-optimal tilings of an axis with more than one tile."""
    first, last = layer.growth(axis.name)
    grown = product(range(first + 1), range(last + 1))  # those without growth first
    shapes = [(extent, a, b) for a, b in grown for extent in axis.extents[:-1]]
    array = np.array(shapes, np.int64).reshape(-1, 3)
    reads = _reads(layer, scratchpads, axis)
    forms = np.array([_form(d, alignment) for d, alignment in reads], np.int64)
    measured = measured_shapes(axis.extent, axis.lanes, array, forms)
    several = measured[:, 0] > 1
    array, measured = array[several], measured[several]
    kept = efficient_rows(measured)
    return AxisTable(array[kept], measured[kept])


def table_of_cut(layer: Layer, scratchpads: Scratchpads, axis: Axis, cut: Cut) -> AxisTable:
    """Return the table of given tile boundaries; it is empty if there is a single tile."""
    tiles = intervals(cut)
    row = [len(tiles), sum(-(-(upper - lower) // axis.lanes) for lower, upper in tiles)]
    for d, alignment in _reads(layer, scratchpads, axis):
        lengths = [upper - lower for lower, upper in map(d.needs, tiles)]
        row += [sum(lengths), -(-max(lengths) // alignment) * alignment]
    measured = np.array([row], np.int64)[: len(tiles) - 1]
    return AxisTable(np.zeros((len(measured), 3), np.int64), measured)


def _reads(layer: Layer, scratchpads: Scratchpads, axis: Axis) -> Iterator[tuple[Dimension, int]]:
    """Yield, for each operand, the dimension that the axis indexes and its alignment."""
    for operand in layer.operands:
        found = next((d for d in operand.dimensions if d.axis == axis.name), Dimension(1))
        innermost = found is operand.dimensions[-1] if operand.dimensions else False
        yield found, scratchpads.of(operand.role).alignment if innermost else 1


def _form(d: Dimension, alignment: int) -> Sequence[int]:
    """Return factor, offset and offset + extra as integers over their common denominator, followed
    by the denominator, the size and the alignment."""
    factor = d.factor if d.axis is not None else 0
    extra = d.extra if d.axis is not None else d.size
    numbers = [Fraction(n) for n in (factor, d.offset, d.offset + extra)]
    denominator = math.lcm(*(n.denominator for n in numbers))
    return (*(int(n * denominator) for n in numbers), denominator, d.size, alignment)


@frozen
class Residency:
    """How long tiles of an operand stay in the scratchpad: the split axes that index its tile, and
    the split axes whose loops repeat its transfers."""

    follows: Axes
    repeats: Axes


@frozen
class LoopPlan:
    """The split axes in loop order, outermost first, and for each operand its depth and
    residency."""

    order: Axes
    depths: tuple[int, ...]
    held: tuple[Residency, ...]


@dataclass(frozen=True)
class LoopPlans:
    """Loop plans. `is_cut` marks the split axes of each, `follows` and `repeats` mark, for each
    operand, the axes of its residency."""

    plans: tuple[LoopPlan, ...]
    is_cut: Flags
    follows: Flags
    repeats: Flags


@cache
def loop_plans(
    followed: tuple[Axes, ...], cuttable: Axes, spills: bool, *, axes: int, all_cut: bool = False
) -> LoopPlans:
    """Return the plans over subsets of the cuttable axes (over all of them if `all_cut`), one for
    each distinct traffic.

    `followed` contains, for each operand, the axes that index it; the last operand is the output.
    """
    found: dict[tuple[Axes, tuple[Residency, ...]], LoopPlan] = {}
    least = len(cuttable) if all_cut else 0
    sizes = range(least, len(cuttable) + 1)
    for cut in chain.from_iterable(combinations(cuttable, k) for k in sizes):
        for order in permutations(cut):
            for choice in product(*(_residencies(order, one).items() for one in followed)):
                held = tuple(residency for residency, _ in choice)
                if spills or not held[-1].repeats:
                    depths = tuple(depth for _, depth in choice)
                    found.setdefault((cut, held), LoopPlan(order, depths, held))
    plans = tuple(found.values())
    is_cut = np.zeros((len(plans), axes), np.bool_)
    follows = np.zeros((len(plans), len(followed), axes), np.bool_)
    repeats = np.zeros_like(follows)
    for p, plan in enumerate(plans):
        is_cut[p, list(plan.order)] = True
        for o, residency in enumerate(plan.held):
            follows[p, o, list(residency.follows)] = True
            repeats[p, o, list(residency.repeats)] = True
    return LoopPlans(plans, is_cut, follows, repeats)


def _residencies(order: Axes, followed: Axes) -> dict[Residency, int]:
    """Return the least depth for each distinct residency of an operand."""
    found: dict[Residency, int] = {}
    for depth in range(len(order) + 1):
        changing = [axis for axis in order[:depth] if axis in followed]
        around = order[: order.index(changing[-1])] if changing else ()
        repeats = tuple(sorted(axis for axis in around if axis not in followed))
        found.setdefault(Residency(tuple(sorted(changing)), repeats), depth)
    return found


def _axis_arrays(tables: Sequence[AxisTable]) -> AxisArrays:
    rows = np.array([table.rows for table in tables], np.int64)
    width, columns = int(rows.max()), tables[0].measured.shape[1]
    every = np.full((len(tables), width + 1, columns), UNBOUNDED, np.int64)
    for k, table in enumerate(tables):
        every[k, : table.rows] = table.measured
    every[:, -1] = every.min(axis=1)
    columns_first = np.ascontiguousarray(np.moveaxis(every, -1, 0))
    counts, groups = columns_first[:2]
    return AxisArrays(rows, counts, groups, columns_first[2::2], columns_first[3::2])


def _costs(layer: Layer, scratchpads: Scratchpads) -> CostArrays:
    memories = scratchpads.scratchpads
    copies, operands = scratchpads.copies, layer.operands
    return CostArrays(
        np.array([o.element_bytes for o in operands], np.int64),
        np.array([o.unfinished_bytes for o in operands], np.int64),
        np.array([memories.index(scratchpads.of(o.role)) for o in operands], np.int64),
        np.array([memory.size_bytes for memory in memories], np.int64),
        copies.per_copy * copies.bytes_per_cycle,
        copies.per_run * copies.bytes_per_cycle,
        layer.cycles_per_point * copies.bytes_per_cycle,
        scratchpads.double_buffered,
    )


def _plan_arrays(
    layer: Layer, scratchpads: Scratchpads, every: LoopPlans, rows: Sequence[int]
) -> PlanArrays:
    """rows: number of candidates of each axis."""
    groups = np.array([-(-axis.extent // axis.lanes) for axis in layer.axes], np.int64)
    reduced = [layer.axes.index(axis) for axis in layer.reduced]
    summing = np.any(every.is_cut[:, reduced], axis=1, keepdims=True)[:, 0]
    shape = every.follows.shape
    elements, held, runs = (np.ones(shape[:2], np.int64) for _ in range(3))
    stretches = np.zeros(shape, np.bool_)
    bits = 1 << np.arange(shape[2], dtype=np.int64)
    for o, operand in enumerate(layer.operands):
        # Plans of which the operand follows the same axes have the same invariants.
        keys = 2 * (every.follows[:, o] @ bits) + summing
        _, first, same = np.unique(keys, return_index=True, return_inverse=True)
        unsplit = [
            _unsplit(layer, scratchpads, operand, every.plans[p].held[o].follows, bool(summing[p]))
            for p in first.tolist()
        ]
        elements[:, o] = np.array([one.elements for one in unsplit])[same]
        held[:, o] = np.array([one.bytes_held for one in unsplit])[same]
        runs[:, o] = np.array([one.runs for one in unsplit])[same]
        marks = [[k in one.run_axes for k in range(shape[2])] for one in unsplit]
        stretches[:, o] = np.array(marks, np.bool_)[same]
    return PlanArrays(
        every.is_cut.sum(axis=1),
        np.argsort(np.where(every.is_cut, -np.array(rows), 1), axis=1, kind="stable"),
        np.where(every.is_cut, 1, groups).prod(axis=1),
        elements,
        held,
        runs,
        every.follows,
        every.repeats,
        stretches,
    )


@frozen
class _Unsplit:
    """Elements, bytes held and runs of the dimensions of an operand that no split changes, and the
    split axes whose lengths multiply the runs."""

    elements: int
    bytes_held: int
    runs: int
    run_axes: frozenset[int]


def _unsplit(
    layer: Layer, scratchpads: Scratchpads, operand: LayerOperand, follows: Axes, summing: bool
) -> _Unsplit:
    cut = {layer.axes[k].name: k for k in follows}
    lengths = [_length(layer, d) for d in operand.dimensions]
    fixed = [d.axis not in cut for d in operand.dimensions]
    breaks = [k for k, d in enumerate(operand.dimensions) if not fixed[k] or lengths[k] < d.size]
    last = breaks[-1] if breaks else 0
    rooms = scratchpads.room(operand, lengths)
    unfinished = operand is layer.output and summing
    size = operand.unfinished_bytes if unfinished else operand.element_bytes
    copies = 2 if scratchpads.double_buffered and cut else 1
    whole = [k for k, is_fixed in enumerate(fixed) if is_fixed]
    return _Unsplit(
        math.prod(lengths[k] for k in whole),
        size * copies * math.prod(rooms[k] for k in whole),
        math.prod(lengths[k] for k in whole if k < last),
        frozenset(cut[d.axis] for d in operand.dimensions[:last] if d.axis in cut),
    )


def _length(layer: Layer, d: Dimension) -> int:
    """Return the number of elements along a dimension that the whole layer reads."""
    if d.axis is None:
        return d.size
    lower, upper = d.needs((0, layer.axis(d.axis).extent))
    return upper - lower
