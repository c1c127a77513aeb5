"""cost: cycles of a call, from its tiling.

    engine   one cycle for every tap, 8 outputs, 32 channels and position, as in SMAUG's loops; and
             for each tile one cycle for every such group, to load the registers of the weights
    copies   100 cycles to start a copy, 2 for each run, 8 bytes a cycle

The total is their sum.  With double buffering it is the longer of both, plus the share of the
shorter that cannot overlap: that of the first tile.
"""

from __future__ import annotations

from penstock.accelerators.smv.tiles import rows_at_once, tiling_of
from penstock.uma import Offloaded, Tiling


def cycles(offloaded: Offloaded, rows: int) -> float:
    """Cycles of a call that computes `rows` rows of the output."""
    turns, rest = divmod(rows, rows_at_once(offloaded, rows))
    found = turns * tile_cycles(tiling_of(offloaded, rows_at_once(offloaded, rows)))
    return found + (cycles(offloaded, rest) if rest else 0)


def tile_cycles(tiling: Tiling) -> float:
    """Cycles of all tiles of a tiling."""
    engine = tiling.engine_cycles + register_loads(tiling)
    copies = float(tiling.copy_cycles)
    if not tiling.scratchpads.double_buffered:
        return engine + copies
    return max(engine, copies) + min(engine, copies) / tiling.count


def register_loads(tiling: Tiling) -> int:
    """The number of register loads of weights: one for each tile, tap and group of outputs and
    channels; 0 for layers without weights."""
    if not tiling.layer.reduced:
        return 0
    found = tiling.layer.cycles_per_point
    for axis in tiling.layer.axes:
        tiles = tiling.tiles[axis.name]
        grouped = axis.lanes > 1
        found *= sum(-(-(b - a) // axis.lanes) for a, b in tiles) if grouped else len(tiles)
    return found
