"""dataflow: cycles of hardware layers by NVDLA's data flow.

An atomic operation, a cycle: `atomic_c` channels of one point meet the weights of `atomic_k`
kernels.  Weights stay while 16 to 32 points pass by (a stripe), since the next ones are loaded
meanwhile; then the next taps, the next block of channels, the next group of kernels.  What is
computed is handed on at the rate of the engine behind it; and bytes come and go through the memory
port.  The slowest of these says how long a layer takes, after the latency of the first byte.

Source: NVDLA hardware manual, "unit description" (convolution pipeline); the TCAD 2020 paper's
profiler, cycles = max(computing, communication).
"""

from __future__ import annotations

from penstock.accelerators.nvdla.configurations import Configuration
from penstock.accelerators.nvdla.kernels import hardware, task
from penstock.accelerators.nvdla.task import CONVOLUTION
from penstock.uma import Offloaded

LEAST_STRIPE, MOST_STRIPE = 16, 32
"""Points of a stripe."""


def stripe_cycles(points: int) -> int:
    """Cycles of points that pass by in stripes.

    >>> stripe_cycles(1), stripe_cycles(33), stripe_cycles(60)
    (16, 48, 60)
    """
    whole, rest = divmod(points, MOST_STRIPE)
    return whole * MOST_STRIPE + (max(rest, LEAST_STRIPE) if rest else 0)


def mac_cycles(chip: Configuration, points: int, taps: int, channels: int, kernels: int) -> int:
    """Cycles in which the multipliers are busy."""
    blocks = -(-channels // chip.atomic_c) * -(-kernels // chip.atomic_k)
    return blocks * taps * stripe_cycles(points)


def cycles(offloaded: Offloaded, rows: int) -> float:
    """Of the first rows of the output: the slowest of multipliers, post-processing and memory."""
    chip, t = hardware(offloaded), task(offloaded)
    points = rows * t.out_w
    outputs, taps = points * t.out_c, t.kernel_h * t.kernel_w
    if t.kind == CONVOLUTION:
        computing = mac_cycles(chip, points, taps, t.in_c, t.out_c)
        handing = outputs / chip.rates.single_point
    else:
        computing, handing = 0, outputs * taps / chip.rates.pooling
    moving = offloaded.bytes(rows) / chip.memory.bytes_per_cycle
    return chip.memory.latency_cycles + max(computing, handing, moving)
