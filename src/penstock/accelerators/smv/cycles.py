"""cycles: the cycles that each function of the smv driver takes, from its arguments."""

from __future__ import annotations

from penstock.accelerators.smv.operations import (
    AddTiles,
    ConnectTile,
    ConvolveTile,
    LoadTile,
    PoolTile,
    StoreTile,
)
from penstock.accelerators.smv.tiling import CHANNELS_AT_ONCE, COPIES, OUTPUTS_AT_ONCE
from penstock.uma import Array


def load_cycles(op: LoadTile[int, Array]) -> float:
    """Return the cycles of a load."""
    return _copy_cycles(op.runs, op.run_bytes, op.source_pitch, chained=bool(op.chained))


def store_cycles(op: StoreTile[int, Array]) -> float:
    """Return the cycles of a store."""
    return _copy_cycles(op.runs, op.run_bytes, op.target_pitch, chained=bool(op.chained))


def _copy_cycles(runs: int, run_bytes: int, pitch: int, *, chained: bool) -> float:
    """Return the cycles of a copy of `runs` runs of `run_bytes` bytes that are `pitch` bytes apart
    in memory; adjacent runs count as one.  A chained copy, which continues the DMA transfer of the
    previous one, has no set-up cycles."""
    apart = 1 if pitch == run_bytes else runs
    set_up = 0 if chained else COPIES.per_copy
    return set_up + COPIES.per_run * apart + runs * run_bytes / COPIES.bytes_per_cycle


def _sum_cycles(positions: int, taps: int, depth: int, outputs: int) -> float:
    """Return the cycles of sums of products.  Each combination of a tap, a group of 8 outputs and a
    group of 32 channels takes one cycle per output position, and one to load the weight
    registers."""
    return -(-outputs // OUTPUTS_AT_ONCE) * taps * -(-depth // CHANNELS_AT_ONCE) * (positions + 1)


def convolution_cycles(op: ConvolveTile[int]) -> float:
    """Return the cycles of a tile of a convolution."""
    return _sum_cycles(op.out_h * op.out_w, op.kernel_h * op.kernel_w, op.depth, op.outputs)


def connection_cycles(op: ConnectTile[int]) -> float:
    """Return the cycles of a tile of a fully connected layer."""
    return _sum_cycles(op.rows, 1, op.depth, op.outputs)


def pool_cycles(op: PoolTile[int]) -> float:
    """Return the cycles of a tile of a pool: one per tap, output position and 8 channels."""
    window = op.kernel_h * op.kernel_w
    return window * op.out_h * op.out_w * -(-op.channels // OUTPUTS_AT_ONCE)


def elementwise_cycles(op: AddTiles[int]) -> float:
    """Return the cycles of a tile of a sum or product: one per position and 8 channels."""
    return op.rows * op.columns * -(-op.channels // OUTPUTS_AT_ONCE)
