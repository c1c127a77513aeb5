"""cycles: the cycles that each function of the smv driver takes, from its arguments.

For each function of the driver, there is a function here that returns the cycles of one call.  It
takes the timing of the engine, and the arguments of the call as a record (`operations.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.uma import AcceleratorTarget, Array, Copies
from penstock_smv.operations import (
    AddTiles,
    ConvolveTile,
    DepthwiseTile,
    FullyConnectedTile,
    HalfTile,
    LoadTile,
    LookUpTile,
    MatrixTile,
    NormaliseTile,
    PoolTile,
    SoftmaxTile,
    StoreTile,
)
from penstock_smv.tiling import (
    COPIES,
    MULTIPLIERS,
    PROCESSING_ELEMENTS,
    scratchpads,
)


@dataclass(frozen=True, slots=True)
class EngineTiming:
    """The properties of the engine on which the cycles of a driver function depend, besides the
    function's arguments.

    processing_elements: number of output channels that the engine computes at once.
    multipliers: number of input channels that each processing element multiplies and adds at once.
    copies: the cycles per copy and per run, and the bytes that are copied per cycle."""

    processing_elements: int = PROCESSING_ELEMENTS
    multipliers: int = MULTIPLIERS
    copies: Copies = COPIES

    @staticmethod
    def of(target: AcceleratorTarget) -> EngineTiming:
        """Return the timing of the engine with the attributes of `target`, such as
        `multipliers`."""
        attrs = target.attrs
        elements, multipliers = int(attrs["processing_elements"]), int(attrs["multipliers"])
        return EngineTiming(elements, multipliers, scratchpads(target).copies)


DEFAULT_TIMING = EngineTiming()
"""The timing of the engine with default attributes."""


def load_cycles(timing: EngineTiming, op: LoadTile[int, Array]) -> float:
    """Return the cycles of `smv_load`, which copies from memory to a scratchpad (see
    `_copy_cycles`)."""
    return _copy_cycles(timing, op.runs, op.run_bytes, op.source_pitch, chained=bool(op.chained))


def store_cycles(timing: EngineTiming, op: StoreTile[int, Array]) -> float:
    """Return the cycles of `smv_store`, which copies from a scratchpad to memory (see
    `_copy_cycles`)."""
    return _copy_cycles(timing, op.runs, op.run_bytes, op.target_pitch, chained=bool(op.chained))


def _copy_cycles(
    timing: EngineTiming, runs: int, run_bytes: int, pitch: int, *, chained: bool
) -> float:
    """Return the cycles of a copy between memory and a scratchpad.

    runs: number of runs of contiguous bytes.
    run_bytes: bytes per run.
    pitch: distance in bytes between the starts of consecutive runs in memory; if it is `run_bytes`,
        all runs count as one.
    chained: whether the copy continues the DMA transfer of the previous copy; it then takes no
        cycles to set up.

    By default, a copy takes 100 cycles to set up, 2 cycles per run, and 1 per 8 bytes.  So 4 runs
    of 16 bytes that are not adjacent take 100 + 4 * 2 + 64 / 8 = 116 cycles; chained, 16 cycles."""
    apart = 1 if pitch == run_bytes else runs
    set_up = 0 if chained else timing.copies.per_copy
    return set_up + timing.copies.per_run * apart + runs * run_bytes / timing.copies.bytes_per_cycle


def _sum_cycles(timing: EngineTiming, positions: int, taps: int, depth: int, outputs: int) -> float:
    """Return the cycles to compute a tile of a convolution or fully connected layer.

    The engine processes a group of output channels (8 by default) and a group of input channels (32
    by default) at once.  For each tap and each pair of groups, it takes one cycle per output pixel,
    and one to load the weight registers: 10 pixels, 9 taps, 40 input channels and 16 output
    channels take (10 + 1) * 9 * 2 * 2 = 396 cycles.

    positions: number of output pixels; for a fully connected layer, number of input vectors.
    taps: number of elements of the window in each channel; 1 for a fully connected layer.
    depth: number of input channels.
    outputs: number of output channels."""
    return (
        -(-outputs // timing.processing_elements)
        * taps
        * -(-depth // timing.multipliers)
        * (positions + 1)
    )


def convolution_cycles(timing: EngineTiming, op: ConvolveTile[int] | HalfTile[int]) -> float:
    """Return the cycles to compute a tile of a convolution (see `_sum_cycles`)."""
    return _sum_cycles(timing, op.out_h * op.out_w, op.kernel_h * op.kernel_w, op.depth, op.outputs)


def depthwise_cycles(timing: EngineTiming, op: DepthwiseTile[int]) -> float:
    """Return the cycles to compute a tile of a depthwise convolution: taps * groups of channels *
    (output pixels + 1), where 1 cycle loads the weight registers.

    Each processing element computes one channel of a group, with one of its multipliers."""
    return _sum_cycles(timing, op.out_h * op.out_w, op.kernel_h * op.kernel_w, 1, op.channels)


def fully_connected_cycles(timing: EngineTiming, op: FullyConnectedTile[int]) -> float:
    """Return the cycles to compute a tile of a fully connected layer (see `_sum_cycles`)."""
    return _sum_cycles(timing, op.rows, 1, op.depth, op.outputs)


def matrix_cycles(timing: EngineTiming, op: MatrixTile[int]) -> float:
    """Return the cycles of a tile of a matrix product: rows * groups of columns * groups of
    elements that are added up."""
    columns = -(-op.columns // timing.processing_elements)
    return op.rows * columns * -(-op.depth // timing.multipliers)


def pool_cycles(timing: EngineTiming, op: PoolTile[int]) -> float:
    """Return the cycles of a tile of a pool: output pixels * taps * groups of channels.

    Each processing element computes one channel of a group."""
    window = op.kernel_h * op.kernel_w
    return window * op.out_h * op.out_w * -(-op.channels // timing.processing_elements)


def elementwise_cycles(
    timing: EngineTiming, op: AddTiles[int] | NormaliseTile[int] | LookUpTile[int]
) -> int:
    """Return the cycles of an element-wise tile: pixels * groups of channels.

    Each processing element computes one channel of a group."""
    return op.rows * op.columns * -(-op.channels // timing.processing_elements)


def softmax_cycles(timing: EngineTiming, op: SoftmaxTile[int]) -> float:
    """Return the cycles of a tile of a softmax: three passes, for the maximum, the sum and the
    quotients, each as long as an element-wise operation."""
    return 3 * elementwise_cycles(timing, op)
