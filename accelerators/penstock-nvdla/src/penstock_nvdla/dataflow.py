"""dataflow: cycles and bytes of tasks and kernel calls, from those of their hardware layers
(`timing.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache, reduce
from operator import add

from penstock.uma import Breakdown, Offloaded
from penstock_nvdla.kernels import cvsram_fields, tasks
from penstock_nvdla.layer import ConvolutionLayer
from penstock_nvdla.task import Base, Task
from penstock_nvdla.timing import layer_timing

# The place of each tensor, by its field of `LayerTraffic`, and of scratch.
BASES = {
    "features": Base.INPUT,
    "second": Base.SECOND,
    "output": Base.OUTPUT,
    "scratch": Base.SCRATCH,
}


def rows_cycles(task: Task, first: int, end: int, inside: frozenset[str]) -> Breakdown:
    """Return the cycles of output rows [first, end) of a task whose tensors are contiguous: the
    sum over its hardware layers.  The resource "latency" is what exceeds the busy cycles of a
    layer's slowest resource.

    inside: the tensors that are in the memory at the second port, each named by its field of
        `LayerTraffic`, such as "output".  All others are in main memory."""
    chip, before, found = task.hardware, None, list[Breakdown]()
    for step in task.even_steps(first, end):
        second_port = step.traffic_inside({BASES[name] for name in inside})
        elapsed, busy, before = layer_timing(
            chip, step.layer, step.traffic, second_port, before if step.early else None
        )
        found.append(
            Breakdown(
                elapsed,
                {**busy, "latency": max(0, elapsed - max(busy.values()))},
                chip.macs if isinstance(step.layer, ConvolutionLayer) else None,
                memory_bytes=step.traffic.total - second_port.total,
            )
        )
    return reduce(add, found)


def cycles(offloaded: Offloaded, rows: int) -> Breakdown:
    """Return the cycles of a kernel call that computes `rows` output rows: the elapsed cycles and
    the busy cycles of each resource, summed over the tasks of the operator."""
    every = tasks(offloaded)
    return reduce(
        add,
        (task_cycles(one.task, rows, cvsram_fields(offloaded, one.inputs)) for one in every),
    )


@lru_cache(maxsize=1 << 15)
def task_cycles(t: Task, rows: int, inside: frozenset[str] = frozenset()) -> Breakdown:
    """Return the cycles of `rows` consecutive output rows of a task: the sum over its hardware
    layers.

    inside: as in `rows_cycles`."""
    # The rows begin at the first output row whose windows cover no padding above the input.  If
    # fewer than `rows` rows follow, the last `rows` rows of the output are taken instead.
    first = min(-(-max(0, t.pad_top) // t.stride_h), t.out_h - rows)
    return rows_cycles(t, first, first + rows, inside)


def traffic(offloaded: Offloaded, first: int, end: int) -> Mapping[str, int]:
    """Return the bytes that are transferred to compute output rows [first, end), by field of
    `LayerTraffic`, such as "weights".  All tensors are assumed to be contiguous."""
    every = (step.traffic for one in tasks(offloaded) for step in one.task.even_steps(first, end))
    return asdict(reduce(add, every))
