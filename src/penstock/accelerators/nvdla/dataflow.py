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
from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache, reduce
from operator import add

from penstock.accelerators.nvdla.configurations import Configuration
from penstock.accelerators.nvdla.extension import HardwareLayer, WindowLayer
from penstock.accelerators.nvdla.kernels import KINDS, buffered, tasks
from penstock.accelerators.nvdla.task import CONVOLUTION, Task
from penstock.accelerators.nvdla.traffic import Traffic
from penstock.uma import Breakdown, Node, Offloaded, whole_work

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
) -> dict[str, float]:
    """How long the multipliers are busy, and post-processing."""
    return {
        "multipliers": mac_cycles(chip, points, taps, channels, kernels),
        "post-processing": points * kernels / chip.rates.single_point,
    }


def window_cycles(chip: Configuration, elements: int) -> dict[str, float]:
    """Of so many elements under the windows of all outputs."""
    return {"windows": elements / chip.rates.pooling}


def node_cycles(node: Node, chip: Configuration) -> int:
    """Cycles of a whole operator without its bytes; what neither the core nor the extension knows
    passes under windows, too, an element for each of its operations."""
    work, weights = whole_work(node), [v.type.shape for v in node.inputs if v.data is not None]
    if KINDS.get(node.kind) != CONVOLUTION or not weights:
        busy = window_cycles(chip, max(work.macs, work.elements))
    else:
        kernels, channels = node.output.type.shape[-1], weights[0][-1]
        points = node.output.type.elements // kernels
        busy = convolution_cycles(chip, points, math.prod(weights[0][1:-1]), channels, kernels)
    return math.ceil(max(busy.values()))


def layer_cycles(
    chip: Configuration, layer: HardwareLayer, moved: Traffic, inside: frozenset[str]
) -> Breakdown:
    """Of a hardware layer: the slowest of multipliers, post-processing, windows and both memories,
    after the latency; `inside`: what of the traffic goes to or from the feature buffer."""
    points = layer.out_height * layer.out_width
    if isinstance(layer, WindowLayer):
        taps = layer.window_height * layer.window_width
        busy, macs = window_cycles(chip, points * layer.kernels * taps), None
    else:
        taps, size = layer.kernel_height * layer.kernel_width, (layer.channels, layer.kernels)
        busy, macs = convolution_cycles(chip, points, taps, *size), chip.macs
    buffered = sum(getattr(moved, name) for name in inside)
    busy["memory"] = (moved.total - buffered) / chip.memory.bytes_per_cycle
    if buffered:
        busy["feature buffer"] = buffered / chip.buffer_port.bytes_per_cycle
    latency = chip.memory.latency_cycles
    return Breakdown(latency + max(busy.values()), {**busy, "latency": latency}, macs)


def cycles(offloaded: Offloaded, rows: int) -> Breakdown:
    """Of so many rows of the output."""
    every = tasks(offloaded)
    return reduce(add, (task_cycles(t, rows, buffered(offloaded, read)) for t, read in every))


@lru_cache(maxsize=4096)
def task_cycles(t: Task, rows: int, inside: frozenset[str] = frozenset()) -> Breakdown:
    """Of so many rows of the output, one hardware layer after the other: rows amid the image, whose
    windows reach beyond it as little as can be.  `inside`: see `layer_cycles`."""
    first = min(-(-t.pad_top // t.stride_h), t.out_h - rows)
    layers = t.moved(first, first + rows)
    return reduce(add, (layer_cycles(t.hardware, *one, inside) for one in layers))


def traffic(offloaded: Offloaded, first: int, end: int) -> Mapping[str, int]:
    """Bytes that rows [first, end) of the output move, where rows lie evenly apart."""
    layers = (layer for t, _ in tasks(offloaded) for layer in t.moved(first, end))
    return asdict(reduce(add, (moved for _, moved in layers)))
