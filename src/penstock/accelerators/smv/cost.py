"""cost: cycles of a call of a kernel, from its tiling.

    engine   output positions * taps * groups of 8 outputs * groups of 32 channels, as in SMAUG's
             loops; plus tiles * taps * groups of 8 outputs * groups of 32 channels, to load the
             weight registers
    copies   100 cycles per copy, 2 per run of contiguous bytes, 1 per 8 bytes

Without double buffering, a call takes the sum of engine and copies.  With double buffering, copies
overlap with computation.  A call then takes the larger of the two, plus the smaller divided by the
number of tiles, because the first tile cannot overlap.
"""

from __future__ import annotations

from penstock.accelerators.smv.layers import has_weights
from penstock.accelerators.smv.tiling import rows_at_once, tiling_of
from penstock.uma import Offloaded, Tiling


def cycles(offloaded: Offloaded, rows: int) -> float:
    """Return the cycles of a call that computes `rows` output rows.

    If the tiler finds no tiling for all rows, the call computes them in several intervals.  The
    result is then the sum over the intervals."""
    turns, rest = divmod(rows, rows_at_once(offloaded, rows))
    found = turns * tile_cycles(tiling_of(offloaded, rows_at_once(offloaded, rows)))
    return found + (cycles(offloaded, rest) if rest else 0)


def tile_cycles(tiling: Tiling) -> float:
    """Return the cycles to copy and compute all tiles of a tiling.

    With double buffering, copies overlap with computation, except in the first tile."""
    engine = tiling.engine_cycles + register_loads(tiling)
    copies = float(tiling.copy_cycles)
    if not tiling.scratchpads.double_buffered:
        return engine + copies
    return max(engine, copies) + min(engine, copies) / tiling.count


def register_loads(tiling: Tiling) -> int:
    """Return how often the engine loads its weight registers.

    In each tile, it loads them for each image, tap, group of 8 output channels and group of 32
    input channels.  The result is 0 for layers without weights."""
    if not has_weights(tiling.layer):
        return 0
    found = tiling.layer.cycles_per_point
    images = tiling.layer.axes[0] if len(tiling.layer.output.dimensions) == 4 else None
    for axis in tiling.layer.axes:
        tiles = tiling.tiles[axis.name]
        by_group = axis.lanes > 1 or axis is images
        found *= sum(-(-(b - a) // axis.lanes) for a, b in tiles) if by_group else len(tiles)
    return found
