"""cost: cycles of a call of a kernel, and the bytes that it moves, from its tiling.

    engine   output pixels * taps * groups of output channels * groups of input channels, as in
             SMAUG's loops; plus tiles * taps * groups of output channels * groups of input
             channels, to load the weight registers
    copies   100 cycles per copy, 2 per run of contiguous bytes, 1 per 8 bytes

A group of output channels has a channel for each processing element, 8 by default.  A group of
input channels has a channel for each multiplier of a processing element, 32 by default.  These two
numbers and the bytes that are copied per cycle are attributes of the accelerator.

Without double buffering, a call takes the sum of these two times.  With double buffering, copies
overlap with computation.  A call then takes the longer time, plus the shorter time divided by the
number of tiles, because there is no overlap for the first tile: it is copied, and only then
computed.

Several engines take intervals of the rows, or of the images of a batch, in turns
(`shared_cycles`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from penstock.uma import (
    Breakdown,
    Offloaded,
    TileCopy,
    TileSequence,
    Tiling,
    runs_of,
)
from penstock_smv.clocks import EngineClocks
from penstock_smv.tiling import (
    engine_count,
    has_weights,
    images_at_once,
    rows_at_once,
    tiled_rows,
    tiling_of,
)


def cycles(offloaded: Offloaded, rows: int) -> Breakdown:
    """Return the cycles of a call that computes `rows` output rows, in total and by resource.

    If the tiler finds no tiling for all rows, the call computes them in several intervals.  The
    result is then the sum over the intervals."""
    attrs = offloaded.target.attrs
    peak = int(attrs["processing_elements"]) * int(attrs["multipliers"])
    found = Breakdown(0, macs_per_cycle=peak if offloaded.macs(rows) else None)
    engines = engine_count(offloaded.target)
    if engines > 1:
        return found + shared_cycles(tuple(_tilings(offloaded, rows)), engines)
    for tiling, turns in _tilings(offloaded, rows):
        resources = {
            "engine": turns * engine_cycles(tiling),
            "copies": turns * float(tiling.copy_cycles),
        }
        found += Breakdown(turns * tile_cycles(tiling), resources)
    return found


def shared_cycles(
    intervals: Sequence[tuple[Tiling | TileSequence, int]], engines: int
) -> Breakdown:
    """Return the cycles of engines that take the intervals of a call in turns, with one port to
    memory.

    intervals: tilings, and the number of intervals that have each.

    With double buffering, the result is the larger of the time of the busiest engine, without
    waiting for the port, and the time of all copies."""
    clocks, computed = EngineClocks(engines), [0.0] * engines
    turns = [tiling for tiling, count in intervals for _ in range(count)]
    copied = float(sum(tiling.copy_cycles for tiling in turns))
    for k, tiling in enumerate(turns):
        engine = k % engines
        computed[engine] += engine_cycles(tiling)
        if tiling.scratchpads.double_buffered:
            clocks.compute(engine, tile_cycles(tiling))
            continue
        for loads, computation, stores in step_cycles(tiling):
            clocks.copy(engine, loads)
            clocks.compute(engine, computation)
            clocks.copy(engine, stores)
    return Breakdown(max(clocks.end, copied), {"engine": max(computed), "copies": copied})


@lru_cache(maxsize=256)
def step_cycles(tiling: Tiling | TileSequence) -> tuple[tuple[float, float, float], ...]:
    """Return the cycles of each tile of a tiling: (loads, computation, stores)."""
    steps = tiling.steps if isinstance(tiling, TileSequence) else tuple(tiling.steps())
    computation = engine_cycles(tiling) / len(steps)
    scale = tiling.scratchpads.copies

    def copies(some: Sequence[TileCopy]) -> float:
        return sum(
            scale.per_copy
            + scale.per_run * runs_of(copy.operand, copy.region)
            + copy.region.elements * copy.operand.element_bytes / scale.bytes_per_cycle
            for copy in some
        )

    return tuple((copies(step.loads), computation, copies(step.stores)) for step in steps)


def traffic(offloaded: Offloaded, first: int, end: int) -> Mapping[str, int]:
    """Return the bytes that a call for output rows [first, end) copies between memory and each
    scratchpad: a mapping with the keys "input", "weights", "output" and "parameters".

    The result depends only on the number of rows, because all intervals of `end - first` rows have
    the same tiling."""
    found: Counter[str] = Counter()
    for tiling, turns in _tilings(offloaded, end - first):
        for moved in tiling.moved:
            found[moved.operand.role] += turns * moved.bytes
    return found


def tile_cycles(tiling: Tiling | TileSequence) -> float:
    """Return the cycles to copy and compute all tiles of a tiling.

    Without double buffering, this is the sum of the cycles of copies and of the engine.  With
    double buffering, it is the larger of the two plus the smaller divided by the number of tiles,
    because the first tile must be copied before anything is computed.  For example, 4 tiles with
    1000 cycles of copies and 400 of the engine take 1000 + 400 / 4 = 1100 cycles."""
    engine = engine_cycles(tiling)
    copies = float(tiling.copy_cycles)
    if not tiling.scratchpads.double_buffered:
        return engine + copies
    return max(engine, copies) + min(engine, copies) / tiling.count


def engine_cycles(tiling: Tiling | TileSequence) -> int:
    """Return the cycles of the engine for all tiles of a tiling: those to compute, and those to
    load its weight registers."""
    return tiling.engine_cycles + register_loads(tiling)


def _tilings(offloaded: Offloaded, rows: int) -> Iterator[tuple[Tiling | TileSequence, int]]:
    """Divide `rows` output rows into intervals for which there is a tiling.  Yield (tiling, count)
    for each length of intervals: `count` intervals have this length and this tiling.

    For example, if the tiler finds tilings for up to 4 rows, 10 rows are divided into intervals of
    4, 4 and 2 rows: the function yields (tiling of 4 rows, 2) and (tiling of 2 rows, 1).  The
    images of a batch that several engines share are divided likewise."""
    if (images := images_at_once(offloaded)) is not None:
        turns, rest = divmod(offloaded.output.shape[0], images)
        yield tiling_of(offloaded, images=images), turns
        if rest:
            yield tiling_of(offloaded, images=rest), 1
        return
    size = rows_at_once(offloaded, rows)
    while rows:
        turns, rows = divmod(rows, size)
        yield tiling_of(offloaded, size), turns
        size = tiled_rows(offloaded, rows)


def register_loads(tiling: Tiling | TileSequence) -> int:
    """Return how often the engine loads its weight registers during all tiles of a tiling.

    In each tile, it loads them once for each combination of image, tap, group of output channels
    and group of input channels.  The result is 0 for layers without weights."""
    if not has_weights(tiling.layer):
        return 0
    layer, found = tiling.layer, tiling.layer.cycles_per_point
    grouped = {layer.output.dimensions[-1].axis, *(axis.name for axis in layer.reduced)}
    if len(layer.output.dimensions) == 4:
        grouped.add(layer.axes[0].name)
    for axis in layer.axes:
        tiles = tiling.tiles[axis.name]
        groups = sum(-(-(b - a) // axis.lanes) for a, b in tiles)
        found *= groups if axis.name in grouped else len(tiles)
    return found
