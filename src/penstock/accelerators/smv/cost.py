"""Cost: cycles of a call, by its tiling.

    engine   SMAUG's loops: taps for every 8 outputs, 32 channels and position; and for each tile a
             cycle for every such group to load the registers of the weights
    copies   100 cycles to begin a copy, 2 a run, 8 bytes a cycle

They add up; where scratchpads are double-buffered, the longer counts, and of the shorter what is
done before there is another tile: the first one's share.
"""

from __future__ import annotations

from penstock.accelerators.smv.tiles import rows_at_once, tiling_of
from penstock.uma import Offloaded, Tiling


def cycles(offloaded: Offloaded, rows: int) -> float:
    """Cycles of a call that computes so many rows of the output."""
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
    """How often weights are loaded into registers: once a tile for each tap and group of outputs
    and channels; of layers without weights, never."""
    if not tiling.layer.reduced:
        return 0
    found = tiling.layer.cycles_per_point
    for axis in tiling.layer.axes:
        tiles = tiling.tiles[axis.name]
        grouped = axis.lanes > 1
        found *= sum(-(-(b - a) // axis.lanes) for a, b in tiles) if grouped else len(tiles)
    return found
