"""Lower bounds of the cycles and bytes of NVDLA, for groups of whole layers and groups in tiles.

However the layers are grouped, each of them computes every element of its output at least once.  It
then takes the busy cycles of its slowest resource:

    multipliers  each point takes at least one cycle per step, a tap of a block of channels
    SDP, PDP     in proportion to the elements
    memory       weights and tables are read once

The bytes of main memory are at least those of the weights and tables, and of the tensors that NVDLA
and the processor exchange, if they do not fit into CVSRAM.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from penstock.pipeline.compilation import Compilation
from penstock.scheduling.model.part import Part
from penstock.uma import Offloaded
from penstock_nvdla.configurations import CVSRAM
from penstock_nvdla.kernels import tasks
from penstock_nvdla.operators import hardware
from penstock_nvdla.task import Task


class Bounds(NamedTuple):
    """Lower bounds of a network, for any groups of its layers."""

    cycles: int
    main_bytes: int


def bounds(done: Compilation) -> Bounds:
    """The lower bounds of a compiled network."""
    (accelerator,) = done.request.accelerators
    parts = [part for part in done.parts.parts if part.engine == accelerator.name]
    every = [Offloaded(part.nodes[-1], accelerator.target) for part in parts]
    cycles = sum(
        least_cycles(one, table_bytes(part)) for one, part in zip(every, parts, strict=True)
    )
    moved = sum(table_bytes(part) for part in parts) + _exchanged_bytes(done, parts, every)
    return Bounds(cycles, moved)


def table_bytes(part: Part) -> int:
    """The bytes of the weights and tables of a layer."""
    return sum(table.type.size_bytes for _, table in part.kernel.tables)


def least_cycles(offloaded: Offloaded, tables_bytes: int) -> int:
    """The least cycles of a layer, in tiles of any size."""
    every = [task_cycles(one.task) for one in tasks(offloaded)]
    every[0] = max(every[0], tables_bytes / hardware(offloaded).memory.bytes_per_cycle)
    return math.ceil(sum(every))


def task_cycles(t: Task) -> float:
    """The least busy cycles of the units that compute a task, in tiles of any size."""
    chip, points, taps = t.hardware, t.out_h * t.out_w, t.kernel_h * t.kernel_w
    steps = sum(
        -(-(count if t.by_pack else t.in_c) // chip.atomic_c) * -(-count // chip.atomic_k)
        for _, count in t.packs()
    )
    rate = chip.rates.pooling if t.method is not None else chip.rates.single_point
    return max(steps * taps * points * len(t.passes), points * t.out_c / rate)


def _exchanged_bytes(done: Compilation, parts: list[Part], every: list[Offloaded]) -> int:
    """The bytes of the tensors that NVDLA reads from the processor or writes for it.

    Those that fit into CVSRAM may be there, where the processor accesses them."""
    written = {part.name for part in parts}
    found = {
        name: size for one in every for name, size in _whole_inputs(one) if name not in written
    }
    others = [part for part in done.parts.parts if part.name not in written]
    used = {value.name for part in others for value in part.variable_inputs}
    used |= {value.name for value in done.parts.graph.results}
    found |= {part.name: part.output.type.size_bytes for part in parts if part.name in used}
    capacity = every[0].target.memories[CVSRAM].size_bytes
    return sum(size for size in found.values() if size > capacity)


def _whole_inputs(offloaded: Offloaded) -> Iterator[tuple[str, int]]:
    """The inputs of which a layer reads every element, by name, with their bytes."""
    for one in tasks(offloaded):
        t = one.task
        rows = t.reads(0, t.out_h) == (0, t.in_h) and t.kernel_h >= t.stride_h
        columns = t.reads_columns(0, t.out_w) == (0, t.in_w) and t.kernel_w >= t.stride_w
        if rows and columns:
            value = offloaded.node.inputs[one.inputs[0]]
            yield value.name, value.type.size_bytes
