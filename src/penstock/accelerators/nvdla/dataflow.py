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

import math

from penstock.accelerators.nvdla.configurations import Configuration
from penstock.accelerators.nvdla.kernels import KINDS, hardware, task
from penstock.accelerators.nvdla.task import CONVOLUTION
from penstock.uma import Node, Offloaded, whole_work

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


def convolution_cycles(
    chip: Configuration, points: int, taps: int, channels: int, kernels: int
) -> float:
    """The slower of multipliers and post-processing."""
    handing = points * kernels / chip.rates.single_point
    return max(mac_cycles(chip, points, taps, channels, kernels), handing)


def window_cycles(chip: Configuration, elements: int) -> float:
    """Of so many elements under the windows of all outputs."""
    return elements / chip.rates.pooling


def node_cycles(node: Node, chip: Configuration) -> int:
    """Cycles of a whole operator without its bytes; what neither the core nor the extension knows
    passes under windows, too, an element for each of its operations."""
    work, weights = whole_work(node), [v.type.shape for v in node.inputs if v.data is not None]
    if KINDS.get(node.kind) != CONVOLUTION or not weights:
        return math.ceil(window_cycles(chip, max(work.macs, work.elements)))
    kernels, channels = node.output.type.shape[-1], weights[0][-1]
    points = node.output.type.elements // kernels
    taps = math.prod(weights[0][1:-1])
    return math.ceil(convolution_cycles(chip, points, taps, channels, kernels))


def cycles(offloaded: Offloaded, rows: int) -> float:
    """Of the first rows of the output: the slowest of multipliers, post-processing and memory."""
    chip, t = hardware(offloaded), task(offloaded)
    points = rows * t.out_w
    taps = t.kernel_h * t.kernel_w
    if t.kind == CONVOLUTION:
        computing = convolution_cycles(chip, points, taps, t.in_c, t.out_c)
    else:
        computing = window_cycles(chip, points * t.out_c * taps)
    moving = offloaded.bytes(rows) / chip.memory.bytes_per_cycle
    return chip.memory.latency_cycles + max(computing, moving)
