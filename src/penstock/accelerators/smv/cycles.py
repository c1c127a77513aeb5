"""cycles: the cycles that each function of the smv driver takes, from its arguments."""

from __future__ import annotations

from penstock.accelerators.smv.layers import CHANNELS_AT_ONCE, OUTPUTS_AT_ONCE
from penstock.accelerators.smv.operations import (
    AddTiles,
    ConnectTile,
    ConvolveTile,
    DepthwiseTile,
    LoadTile,
    LookUpTile,
    NormaliseTile,
    PoolTile,
    StoreTile,
)
from penstock.accelerators.smv.tiling import COPIES
from penstock.uma import Array


def load_cycles(op: LoadTile[int, Array]) -> float:
    """Return the cycles of a load."""
    return _copy_cycles(op.runs, op.run_bytes, op.source_pitch, chained=bool(op.chained))


def store_cycles(op: StoreTile[int, Array]) -> float:
    """Return the cycles of a store."""
    return _copy_cycles(op.runs, op.run_bytes, op.target_pitch, chained=bool(op.chained))


def _copy_cycles(runs: int, run_bytes: int, pitch: int, *, chained: bool) -> float:
    """Return the cycles of a copy between memory and a scratchpad.

    runs: number of runs of contiguous bytes.
    run_bytes: bytes per run.
    pitch: distance in bytes between the starts of consecutive runs in memory; if it is `run_bytes`,
        all runs count as one.
    chained: whether the copy continues the DMA transfer of the previous copy; it then takes no
        cycles to set up."""
    apart = 1 if pitch == run_bytes else runs
    set_up = 0 if chained else COPIES.per_copy
    return set_up + COPIES.per_run * apart + runs * run_bytes / COPIES.bytes_per_cycle


def _sum_cycles(positions: int, taps: int, depth: int, outputs: int) -> float:
    """Return the cycles to compute a tile of a convolution or fully connected layer.

    The engine processes groups of 8 output channels and 32 input channels.  For each tap and each
    pair of groups, it takes one cycle per output position, and one to load the weight registers.

    positions: number of output pixels (rows, for a fully connected layer).
    taps: number of positions in the window; 1 for a fully connected layer.
    depth: number of input channels.
    outputs: number of output channels."""
    return -(-outputs // OUTPUTS_AT_ONCE) * taps * -(-depth // CHANNELS_AT_ONCE) * (positions + 1)


def convolution_cycles(op: ConvolveTile[int]) -> float:
    """Return the cycles of a tile of a convolution."""
    return _sum_cycles(op.out_h * op.out_w, op.kernel_h * op.kernel_w, op.depth, op.outputs)


def depthwise_cycles(op: DepthwiseTile[int]) -> float:
    """Return the cycles of a tile of a depthwise convolution.

    Each processing element computes one channel, with one of its multipliers."""
    return _sum_cycles(op.out_h * op.out_w, op.kernel_h * op.kernel_w, 1, op.channels)


def connection_cycles(op: ConnectTile[int]) -> float:
    """Return the cycles of a tile of a fully connected layer."""
    return _sum_cycles(op.rows, 1, op.depth, op.outputs)


def pool_cycles(op: PoolTile[int]) -> float:
    """Return the cycles of a tile of a pool: output pixels * taps * groups of 8 channels."""
    window = op.kernel_h * op.kernel_w
    return window * op.out_h * op.out_w * -(-op.channels // OUTPUTS_AT_ONCE)


def elementwise_cycles(op: AddTiles[int] | NormaliseTile[int] | LookUpTile[int]) -> float:
    """Return the cycles of an element-wise tile: pixels * groups of 8 channels."""
    return op.rows * op.columns * -(-op.channels // OUTPUTS_AT_ONCE)
