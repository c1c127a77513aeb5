"""dataflow: cycles of hardware layers (one start of the hardware each), from NVDLA's data flow.

An atomic operation takes one cycle and multiplies `atomic_c` channels of one pixel by the weights
of `atomic_k` kernels.  The same weights are applied to up to 32 pixels, which NVDLA calls a stripe
(not to be confused with the stripes of a schedule).  This takes at least 16 cycles, because the
next weights are loaded at the same time.  The loop over the pixels of a stripe is the innermost
one.  The loops around it are, from the inside out, over taps, blocks of channels and groups of
kernels.
Post-processing and memory ports work at the same time, each at its own rate.

These are the rules for hardware with penstock's extension.  The cycles of NVDLA without it are
those of NVIDIA's RTL (`timing.py`).

A layer reads features when the previous layer is complete.  Its duration is the latency of the
memory that holds its features, plus the busy cycles of the slowest resource.  Meanwhile, the
sequencer of the extension fetches the register writes and the first constants of the next layer
from main memory; so a layer takes at least the latency of main memory.  If the queue of layers was
empty, nothing has been prefetched for the layer.  Its duration is then the latency of main memory,
plus the busy cycles of the slowest resource.

Source: NVDLA hardware manual, "unit description" (convolution pipeline); the profiler of Zheng et
al., IEEE TCAD 39(11), 2020: cycles = max(computing, communication).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache, reduce
from operator import add

from penstock.uma import Breakdown, Offloaded
from penstock_nvdla.configurations import NvdlaConfiguration
from penstock_nvdla.extension import HardwareLayer, WindowLayer
from penstock_nvdla.kernels import feature_buffer_fields, tasks
from penstock_nvdla.layer import ConvolutionLayer
from penstock_nvdla.task import LayerTraffic, Task
from penstock_nvdla.timing import layer_timing
from penstock_nvdla.unextended_task import Base, UnextendedStep, UnextendedTask

LEAST_STRIPE, MOST_STRIPE = 16, 32  # Minimum and maximum number of points of a stripe.


def stripe_cycles(points: int) -> int:
    """Return the cycles in which the multipliers apply one set of weights to `points` pixels.

    The pixels are split into stripes of up to 32; a stripe takes one cycle per pixel, but at least
    16 cycles.

    >>> stripe_cycles(1), stripe_cycles(33), stripe_cycles(60)
    (16, 48, 60)
    """
    whole, rest = divmod(points, MOST_STRIPE)
    return whole * MOST_STRIPE + (max(rest, LEAST_STRIPE) if rest else 0)


def mac_cycles(
    chip: NvdlaConfiguration, points: int, taps: int, channels: int, kernels: int
) -> int:
    """Return the cycles that the multipliers take for a convolution: taps * blocks of channels *
    groups of kernels * `stripe_cycles(points)`.  A block has `atomic_c` channels, and a group has
    `atomic_k` kernels.

    kernels: the number of output channels."""
    blocks = -(-channels // chip.atomic_c) * -(-kernels // chip.atomic_k)
    return blocks * taps * stripe_cycles(points)


def convolution_cycles(
    chip: NvdlaConfiguration, points: int, taps: int, channels: int, kernels: int
) -> dict[str, float]:
    """Return the busy cycles of two resources in a convolution, as a dictionary with the keys
    "multipliers" (`mac_cycles`) and "post-processing" (the number of output elements, divided by
    the number that post-processing completes in a cycle).

    kernels: the number of output channels."""
    return {
        "multipliers": mac_cycles(chip, points, taps, channels, kernels),
        "post-processing": points * kernels / chip.rates.single_point,
    }


def window_cycles(chip: NvdlaConfiguration, elements: int) -> dict[str, float]:
    """Return the busy cycles of unit WINDOW, which computes pooling and depthwise convolutions, as
    a dictionary with the single key "windows": `elements` divided by the number of elements that
    the unit processes in a cycle.

    elements: the number of elements in all windows together, i.e. output elements * taps."""
    return {"windows": elements / chip.rates.pooling}


def layer_cycles(
    chip: NvdlaConfiguration, layer: HardwareLayer, moved: LayerTraffic, inside: frozenset[str]
) -> Breakdown:
    """Return the cycles of a hardware layer: the latency of the memory that holds its features,
    plus the busy cycles of the slowest resource, but at least the latency of main memory.

    These are the cycles of a layer that follows another one in the queue.  The field `cold_start`
    of the result holds the additional cycles that it takes if the queue was empty.

    The resources are the multipliers, post-processing, the unit for pooling and depthwise
    convolutions (WINDOW), main memory, and the feature buffer, which is a second memory.

    inside: the tensors that are in the feature buffer, each named by its field of `LayerTraffic`,
        such as "output".  All others are in main memory."""
    points = layer.out_height * layer.out_width
    busy: dict[str, float]
    macs: int | None
    if isinstance(layer, WindowLayer):
        taps = layer.window_height * layer.window_width
        busy, macs = window_cycles(chip, points * layer.kernels * taps), None
    else:
        assert isinstance(layer, ConvolutionLayer), "the extension does not use SDP and PDP alone"
        taps, size = layer.kernel_height * layer.kernel_width, (layer.channels, layer.kernels)
        busy, macs = convolution_cycles(chip, points, taps, *size), chip.macs
        if moved.second:
            combining = points * layer.kernels / chip.rates.pooling
            busy["post-processing"] = max(busy["post-processing"], combining)
    buffered = sum(getattr(moved, name, 0) for name in inside)
    busy["memory"] = (moved.total - buffered) / chip.memory.bytes_per_cycle
    if buffered:
        busy["feature buffer"] = buffered / chip.buffer_port.bytes_per_cycle
    read = {"features", "second"} if moved.second else {"features"}
    source = chip.memory if read - inside else chip.buffer_port
    longest, fetch = math.ceil(max(busy.values())), chip.memory.latency_cycles
    latency = max(source.latency_cycles, fetch - longest)
    return Breakdown(
        latency + longest,
        {**busy, "latency": latency},
        macs,
        cold_start=fetch - latency,
        memory_bytes=moved.total - buffered,
    )


def _on_rtl(chip: NvdlaConfiguration, step: UnextendedStep, inside: frozenset[str]) -> Breakdown:
    """The cycles of a hardware layer without the extension; "latency" is what exceeds the busy
    cycles of the slowest resource."""
    read, written = step.bytes_inside({BASES[name] for name in inside})
    cycles, busy = layer_timing(chip, step.layer, step.traffic, read)
    return Breakdown(
        cycles,
        {**busy, "latency": cycles - max(busy.values())},
        chip.macs if isinstance(step.layer, ConvolutionLayer) else None,
        memory_bytes=step.traffic.total - read - written,
    )


# The place of each tensor, by its field of `LayerTraffic`, and of scratch.
BASES = {
    "features": Base.INPUT,
    "second": Base.SECOND,
    "output": Base.OUTPUT,
    "scratch": Base.SCRATCH,
}


def rows_cycles(task: Task, first: int, end: int, inside: frozenset[str]) -> Breakdown:
    """Return the cycles of output rows [first, end) of a task whose tensors are contiguous: the
    sum over its hardware layers.

    inside: as in `layer_cycles`."""
    chip = task.hardware
    if isinstance(task, UnextendedTask):
        return reduce(add, (_on_rtl(chip, s, inside) for s in task.even_steps(first, end)))
    layers = task.layers_with_traffic(first, end)
    return reduce(add, (layer_cycles(chip, *one, inside) for one in layers))


def cycles(offloaded: Offloaded, rows: int) -> Breakdown:
    """Return the cycles of a kernel call that computes `rows` output rows: the elapsed cycles and
    the busy cycles of each resource, summed over the tasks of the operator."""
    every = tasks(offloaded)
    return reduce(
        add,
        (
            task_cycles(one.task, rows, feature_buffer_fields(offloaded, one.inputs))
            for one in every
        ),
    )


@lru_cache(maxsize=1 << 15)
def task_cycles(t: Task, rows: int, inside: frozenset[str] = frozenset()) -> Breakdown:
    """Return the cycles of `rows` consecutive output rows of a task: the sum over its hardware
    layers.

    inside: the tensors that are in the feature buffer, each named by its field of `LayerTraffic`,
        such as "output".  All others are in main memory."""
    # The rows begin at the first output row whose windows cover no padding above the input.  If
    # fewer than `rows` rows follow, the last `rows` rows of the output are taken instead.
    first = min(-(-max(0, t.pad_top) // t.stride_h), t.out_h - rows)
    return rows_cycles(t, first, first + rows, inside)


def traffic(offloaded: Offloaded, first: int, end: int) -> Mapping[str, int]:
    """Return the bytes that are transferred to compute output rows [first, end), by field of
    `LayerTraffic`, such as "weights".  All tensors are assumed to be contiguous."""
    layers = (
        layer for one in tasks(offloaded) for layer in one.task.layers_with_traffic(first, end)
    )
    return asdict(reduce(add, (moved for _, moved in layers)))
